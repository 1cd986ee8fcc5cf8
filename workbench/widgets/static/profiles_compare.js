// Captures side by side: a column each, the first as the base; a difference within the noise is pale and says so.

import { el, fill, show } from "./dom.js";

const KEY = "Bold: the difference is larger than the noise of the runs (95 %). \u00b1: one standard deviation. Point at a row for what it says.";
const MARKS = { beyond: "", within: "within noise", unknown: "noise ?", equal: "" };

export class Legend {
  constructor(link) {
    this.link = link;
    this.node = el("div", { className: "wb-prof-legend" });
  }

  show(frame, theme) {
    show(this.node, frame.legend.length > 0);
    fill(this.node, ...frame.legend.map((one, at) => el("div", { className: "wb-prof-entry" }, letter(theme, at, one.letter),
      el("b", {}, one.title), el("span", { className: "wb-muted", title: one.rest }, one.rest),
      one.reduced ? el("span", { className: "wb-prof-tag" }, "reduced, no counters") : null,
      el("button", { type: "button", className: "wb-quiet", "aria-label": `Drop ${one.letter}`, title: "Drop", on: { click: () => this.link.queue({ kind: "pick", key: one.key }) } }, "\u00d7"))));
  }
}

export function letter(theme, at, text) {
  return el("b", { className: "wb-prof-pick", style: { background: theme.requests[at], color: theme.on_request[at], borderColor: "transparent" } }, text);
}

export class Compare {
  constructor() {
    this.cautions = el("div", { className: "wb-prof-cautions" });
    this.says = el("p", { className: "wb-prof-says", "aria-live": "polite" });
    this.table = el("table", { className: "wb-prof-compare" });
    this.node = el("div", {}, this.cautions, this.says, el("div", { className: "wb-prof-wide" }, this.table));
  }

  // What a figure says stands beside it where there is room, else above while its row is pointed at.
  show(frame, theme, width) {
    const { rows, cautions } = frame.view;
    const roomy = width - 290 - 220 * frame.legend.length > 230;
    const notes = (...content) => (roomy ? content : []);
    fill(this.says, KEY);
    this.table.onpointerleave = () => fill(this.says, KEY);
    fill(this.cautions, ...cautions.map((words) => el("p", {}, words)));
    const heads = frame.legend.flatMap(({ letter: text }, at) => [
      el("th", { scope: "col", colspan: at ? 3 : 2 }, letter(theme, at, text), at ? el("span", { className: "wb-muted" }, " \u2212 A") : null)]);
    const body = [];
    let group = "";
    for (const row of rows) {
      const first = row.group !== group;
      group = row.group;
      body.push(el("tr", { className: first ? "wb-prof-first" : "", "data-metric": row.name },
        el("td", { className: "wb-prof-group" }, first ? group : ""),
        el("th", { scope: "row", title: row.name }, row.title, row.unit ? el("span", { className: "wb-muted" }, ` ${row.unit}`) : null),
        ...row.cells.flatMap((cell, at) => this.#cell(cell, at, theme)),
        ...notes(el("td", { className: "wb-prof-note", title: row.note }, row.note))));
      body.at(-1).addEventListener("pointerenter", () => fill(this.says, el("b", {}, row.title), ` ${row.note}`));
    }
    show(this.table, rows.length > 0);
    fill(this.table, el("thead", {}, el("tr", {}, el("th", {}), el("th", {}), ...heads, ...notes(el("th", { className: "wb-prof-note" }, "what it says")))), el("tbody", {}, ...body));
  }

  #cell(cell, at, theme) {
    if (cell === null) return [el("td", { className: "wb-muted wb-prof-value" }, "\u2013"), el("td", {}), ...(at ? [el("td", {})] : [])];
    const bar = el("i", { className: "wb-prof-bar", style: { width: `${(100 * cell.share).toFixed(1)}%`, background: theme.requests[at] } });
    const value = el("td", { className: "wb-prof-value" }, el("span", {}, cell.value), cell.share ? el("div", { className: "wb-prof-track" }, bar) : null);
    const spread = el("td", { className: "wb-prof-spread", title: cell.spread ? "one standard deviation of the runs" : null }, cell.spread);
    if (!at) return [value, spread];
    const d = cell.difference;
    const change = d ? el("td", { className: `wb-prof-change wb-prof-${d.verdict}`, title: d.why, "data-verdict": d.verdict },
      el("b", {}, d.words), MARKS[d.verdict] ? el("small", {}, MARKS[d.verdict]) : null) : el("td", {});
    return [value, spread, change];
  }
}
