// The table of timelines: measured against modelled, what a CTA's time went into, how even the SMs were.

import { badge, el, fill, show } from "./dom.js";

export class Measured {
  constructor(constants) {
    this.constants = constants;
    this.node = el("table", { className: "wb-table wb-measured", hidden: true });
  }

  show(scene) {
    const rows = scene?.measured ?? [];
    show(this.node, rows.length > 0);
    fill(this.node, ...(rows.length ? [this.#heading(rows[0], scene.mark), el("tbody", {}, ...rows.map((row) => this.#row(row)))] : []));
  }

  #heading({ source }, mark) {
    const [first, ...others] = this.constants.measured_headings.map((title, at) =>
      el("th", { scope: "col", className: `wb-mcol-${at}` }, at === 0 ? `${source[0]} ${title}` : at === 1 ? `${mark} ${title}` : title));
    const keys = this.constants.times.map(([kind, words]) =>
      el("span", { className: "wb-key", title: words }, el("i", { className: `wb-part wb-stage-${kind}` }), kind));
    return el("thead", {}, el("tr", {}, el("th", { scope: "col" }), first, el("th", { className: "wb-keys" }, ...keys), ...others));
  }

  #row(row) {
    const [first, ...others] = row.cells.map(({ text, unit, metric }, at) =>
      el("td", { className: `wb-mcol-${at}` }, el("span", { "data-measured": metric, "data-side": row.key }, text),
        unit ? el("span", { className: "wb-unit" }, `\u2009${unit}`) : null));
    const parts = row.bar.map(({ kind, text, share }) =>
      el("span", {
        className: `wb-part wb-stage-${kind}`, style: { width: `${100 * share}%` }, title: `${kind} ${text} \u00b5s a CTA`,
        "data-stage": kind, "data-side": row.key, "data-text": text,
      }, share > 0.09 ? text : ""));
    const words = row.bar.map(({ kind, text }) => `${kind} ${text}`).join(", ");
    const name = el("th", { scope: "row", title: row.source }, badge(row.key), el("span", { className: "wb-name" }, row.title));
    return el("tr", {}, name, first,
      el("td", { className: "wb-bar" }, el("div", { role: "img", "aria-label": `Microseconds of a CTA: ${words}` }, ...parts)), ...others);
  }
}
