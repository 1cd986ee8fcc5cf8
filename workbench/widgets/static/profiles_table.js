// The table of captures. Only the rows in sight are in the page; those that were not sent yet are asked for.

import { el, fill, show } from "./dom.js";

const ROW = 24;
const SIGHT = 10; // rows in sight
const SPARE = 8; // rows drawn beyond either edge

export class ProfileTable {
  constructor(link, constants) {
    this.link = link;
    this.constants = constants;
    this.rows = new Map();
    this.cursor = 0;
    this.head = el("div", { className: "wb-prof-head", role: "row" });
    this.space = el("div", { className: "wb-prof-space", role: "rowgroup" });
    this.scroll = el("div", { className: "wb-prof-scroll", role: "grid", "aria-label": "Captures; arrows move, space picks", "aria-multiselectable": true, tabindex: 0 }, this.head, this.space);
    this.none = el("p", { className: "wb-prof-none", hidden: true }, "No capture has all of this. ",
      el("button", { type: "button", on: { click: () => this.clear() } }, "Clear the filters"));
    this.same = el("p", { className: "wb-prof-same" });
    this.node = el("div", { className: "wb-prof-table" }, this.same, this.scroll, this.none);
    this.space.addEventListener("click", (event) => this.#click(event));
    this.scroll.addEventListener("scroll", () => this.#window());
    this.scroll.addEventListener("keydown", (event) => this.#key(event));
    // The rows stay as they are here: a row that is replaced while the button is down gets no click.
    this.scroll.addEventListener("focus", () => this.#mark());
    this.scroll.addEventListener("blur", () => this.#mark());
    link.listen("rows", (content) => this.#arrived(content));
    this.clear = () => {};
  }

  show(frame, theme) {
    const changed = frame.total !== this.total || frame.settings.sort !== this.sort;
    Object.assign(this, { frame, theme, total: frame.total, sort: frame.settings.sort });
    this.rows = new Map(frame.rows.map((row, at) => [at, row]));
    this.asked = null;
    if (changed) this.scroll.scrollTop = 0;
    this.cursor = Math.min(this.cursor, Math.max(this.total - 1, 0));
    show(this.scroll, this.total > 0);
    show(this.none, this.total === 0);
    this.scroll.style.setProperty("--wb-prof-columns", `30px ${this.#widths(frame)} 44px`);
    fill(this.same, frame.same ? "the same in all: " : "", el("span", {}, frame.same));
    show(this.same, frame.same !== "");
    fill(this.head, el("span", {}), ...frame.columns.map((column) => this.#title(column)), el("span", {}));
    this.space.style.height = `${this.total * ROW}px`;
    this.scroll.style.height = `${Math.min(this.total, SIGHT) * ROW + ROW + 2}px`;
    this.#window();
  }

  // Rows are grids of their own, so every column's width has to be known: by the longest text that was sent.
  #widths(frame) {
    return frame.columns.map(({ name, title, number }, at) => {
      const head = title.length * 6.4 + 42;
      const body = Math.max(...frame.rows.map((row) => row.cells[at].length)) * 7.3 + 14;
      const wide = Math.round(Math.min(Math.max(head, body), 290));
      return number ? `${wide}px` : `minmax(${Math.min(wide, name === "case" ? 122 : 80)}px, ${wide}fr)`;
    }).join(" ");
  }

  #title({ name, title, number }) {
    const { sort, descending } = this.frame.settings;
    const chosen = name === sort;
    const order = chosen ? (descending ? "descending" : "ascending") : "none";
    return el("span", { role: "columnheader", "aria-sort": order, className: number ? "wb-prof-number" : "" },
      el("button", { type: "button", tabindex: -1, title: `Sort by ${title}`, "data-sort": name,
        on: { click: () => this.link.set({ sort: name, descending: chosen ? !descending : number || name === "date" }) } },
      title, chosen ? (descending ? " \u2193" : " \u2191") : ""));
  }

  #window() {
    const first = Math.max(Math.floor(this.scroll.scrollTop / ROW) - SPARE, 0);
    const last = Math.min(first + SIGHT + 2 * SPARE + 1, this.total);
    const drawn = [];
    for (let at = first; at < last; at += 1) drawn.push(this.#row(at));
    fill(this.space, ...drawn);
    this.#mark();
    let [from, to] = [first, last];
    while (from < to && this.rows.has(from)) from += 1;
    while (to > from && this.rows.has(to - 1)) to -= 1;
    if (from < to) this.#ask(from, to);
  }

  #ask(first, last) {
    const wanted = `${first} ${last} ${this.frame.number}`;
    if (this.asked === wanted) return;
    this.asked = wanted;
    this.link.ask("rows", { first, last, frame: this.frame.number });
  }

  #arrived({ frame, first, rows }) {
    if (frame !== this.frame.number) return;
    rows.forEach((row, at) => this.rows.set(first + at, row));
    this.#window();
  }

  // The row that the keys act on.
  #mark() {
    const focused = document.activeElement === this.scroll;
    for (const node of this.space.children) node.classList.toggle("wb-prof-cursor", focused && node.style.top === `${this.cursor * ROW}px`);
  }

  #row(at) {
    const row = this.rows.get(at);
    const style = { top: `${at * ROW}px` };
    if (!row) return el("div", { className: "wb-prof-row", style });
    const picked = row.pick >= 0;
    const letter = picked ? this.constants.letters[row.pick] : "";
    const colours = picked ? { background: this.theme.requests[row.pick], color: this.theme.on_request[row.pick], borderColor: "transparent" } : {};
    const cells = row.cells.map((cell, index) => el("span", { role: "gridcell", className: this.frame.columns[index].number ? "wb-prof-number" : "", title: cell.length > 20 ? cell : null }, cell));
    const marks = el("span", { className: "wb-prof-marks" },
      row.note ? el("i", { title: row.note, "aria-label": "has a note" }, "\u270e") : null,
      row.report ? el("i", { title: "a report of Nsight Compute is kept", "aria-label": "has a report" }, "\u25a4") : null);
    const node = el("div", { className: `wb-prof-row${picked ? " wb-prof-picked" : ""}${row.reduced ? " wb-prof-reduced" : ""}`, role: "row", style, title: row.title, "aria-selected": picked, "data-key": row.key },
      el("b", { className: "wb-prof-pick", style: colours, "aria-hidden": true }, letter), ...cells, marks);
    return node;
  }

  #click(event) {
    const at = Math.floor((event.clientY - this.space.getBoundingClientRect().top) / ROW);
    if (!this.rows.has(at)) return;
    this.cursor = at;
    this.#pick(this.rows.get(at), event.altKey);
  }

  #pick(row, alone = false) {
    this.link.queue({ kind: "pick", key: row.key, alone });
  }

  #key(event) {
    if (event.target !== this.scroll) return;
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: SIGHT, PageUp: -SIGHT, Home: -this.total, End: this.total }[event.key];
    if (by) {
      this.cursor = Math.min(Math.max(this.cursor + by, 0), this.total - 1);
      const top = this.cursor * ROW;
      const room = (SIGHT - 1) * ROW;
      if (top < this.scroll.scrollTop) this.scroll.scrollTop = top;
      else if (top > this.scroll.scrollTop + room) this.scroll.scrollTop = top - room;
      this.#window();
    } else if ((event.key === " " || event.key === "Enter") && this.rows.has(this.cursor)) this.#pick(this.rows.get(this.cursor), event.altKey);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
