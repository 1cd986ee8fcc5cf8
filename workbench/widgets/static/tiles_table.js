// Every configuration that is listed: sorted by any column, put on screen by a click or Enter.

import { el, fill, show } from "./dom.js";

export class TilesTable {
  constructor(link) {
    this.link = link;
    this.by = null; // column, or null for Python's order
    this.down = false;
    this.table = el("table", { className: "wb-t-table" });
    this.note = el("span", { className: "wb-muted" });
    this.bar = el("progress", { max: 1, value: 0, hidden: true, "aria-label": "Compiled" });
    this.all = el("button", { type: "button", on: { click: () => link.queue({ kind: "act", action: this.all.dataset.action }) } });
    this.node = el("section", { className: "wb-t-list" }, el("h4", {}, "Configurations", this.note, el("span", { className: "wb-right" }), this.bar, this.all),
      el("div", { className: "wb-t-scroll" }, this.table));
    this.table.addEventListener("keydown", (event) => this.#key(event));
  }

  draw(scene, passes) {
    this.scene = scene;
    const first = scene.rows.map((row, at) => [row, at]).filter(([row]) => passes(row));
    const key = ([row]) => row.keys[this.by];
    const rows = this.by === null ? first : first.toSorted((a, b) => {
      if (key(a) === null || key(b) === null) return (key(a) === null) - (key(b) === null);
      return (key(a) - key(b)) * (this.down ? -1 : 1);
    });
    const heads = scene.headings.map((words, at) => el("th", { scope: "col", "aria-sort": this.by === at ? (this.down ? "descending" : "ascending") : "none" },
      el("button", { type: "button", className: "wb-t-sort", on: { click: () => this.#sort(at) } }, words, this.by === at ? (this.down ? " \u25be" : " \u25b4") : "")));
    const focused = this.table.contains(document.activeElement) ? document.activeElement.dataset.config : null;
    fill(this.table, el("thead", {}, el("tr", {}, el("th", {}), ...heads)), el("tbody", {}, ...rows.map(([row, at]) => this.#row(row, at))));
    if (focused) this.table.querySelector(`[data-config="${focused}"]`)?.focus();
    const kept = rows.length === scene.rows.length ? "" : `${rows.length} shown; `;
    fill(this.note, kept + scene.note);
  }

  mark(parameters, { done, total, state }) {
    const here = JSON.stringify(parameters.map(({ values, at }) => values[at]));
    for (const line of this.table.tBodies[0]?.rows ?? []) {
      const { values } = this.scene.rows[line.dataset.config];
      line.setAttribute("aria-selected", JSON.stringify(parameters.map(({ name }) => values[name])) === here && state !== "refused");
    }
    show(this.bar, total > 0);
    if (total) this.bar.value = done / total;
    this.all.dataset.action = total ? "stop" : "compile";
    fill(this.all, total ? `Stop (${done} of ${total})` : "Compile all");
    const missing = this.scene.rows.some(({ keys }) => keys[this.scene.shown.length] === null);
    show(this.all, total > 0 || missing);
  }

  #sort(at) {
    if (this.by === at && this.down) this.by = null;
    else if (this.by === at) this.down = true;
    else Object.assign(this, { by: at, down: false });
    this.onSort();
  }

  #row({ values, cells, tags, mark, words, problem }, at) {
    const time = this.scene.headings.length - 3;
    const title = problem || words;
    const tag = tags.map((each) => el("i", { className: `wb-t-dot wb-t-dot-${each}`, title: each }));
    return el("tr", { "data-config": at, tabindex: 0, title, className: problem ? "wb-t-failed" : "", on: { click: () => this.link.set({ values }) } }, el("th", { scope: "row", "aria-label": tags.join(", ") }, ...tag),
      ...cells.map((text, column) => el("td", {}, text, column === time ? el("span", { className: "wb-mark" }, ` ${mark}`) : null)));
  }

  #key(event) {
    const line = event.target.closest("tr[data-config]");
    const by = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
    if (!line || event.target !== line) return;
    if (by) line[by]?.focus();
    else if (event.key === "Enter") this.link.set({ values: this.scene.rows[line.dataset.config].values });
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
