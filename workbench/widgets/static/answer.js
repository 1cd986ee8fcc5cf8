// The answer above the bins: facts, sentence, table, legend; and below them, where the numbers come from.

import { badge, el, fill, show } from "./dom.js";
import { Measured } from "./measured.js";

export class Answer {
  constructor(link, constants) {
    this.link = link;
    this.constants = constants;
    this.header = el("span", { className: "wb-facts" });
    this.sentence = el("p", { className: "wb-sentence", "aria-live": "polite" });
    this.table = el("table", { className: "wb-table" });
    this.legend = el("div", { className: "wb-legend", role: "group", "aria-label": "Requests" });
    this.footer = el("span", {});
    this.measured = new Measured(constants);
    this.node = el("div", { className: "wb-answer" }, this.sentence, this.table, this.measured.node, this.legend);
    this.observer = new ResizeObserver((entries) => this.#settle(entries));
    this.observer.observe(this.node);
  }

  show(frame) {
    const { scene, fault } = frame;
    this.measured.show(scene);
    show(this.table, scene !== null);
    show(this.legend, scene !== null && scene.legend.length > 0);
    if (scene === null) {
      fill(this.header);
      fill(this.sentence, "Nothing is shown until ", el("strong", {}, "the settings at the left"), " can be used: ",
        fault.text.split("\n")[0]);
      fill(this.footer);
      return;
    }
    fill(this.header, ...scene.header.map((fact) => el("span", {}, fact)));
    this.header.title = scene.header.join(" / ");
    fill(this.sentence, ...scene.sentence.map((run) => this.#run(run)));
    fill(this.table, this.#heading(scene.mark), el("tbody", {}, ...scene.rows.map((row) => this.#row(row))));
    fill(this.legend, el("span", { className: "wb-muted" }, "Requests"), ...scene.legend.map((chip) => this.#chip(chip)));
    fill(this.footer, ...scene.footer.map((text) => el("span", {}, text)));
    this.stepping = frame.strip !== null;
    if (!this.stepping) this.node.style.minHeight = "";
  }

  // While a trace is stepped through, what is below must stay where it is: the answer keeps the height it once needed.
  // An observer knows it after layout; asking for it would make the browser lay out once more in every frame.
  #settle([{ contentRect: { width, height } }]) {
    const { style } = this.node;
    if (width !== this.settled && style.minHeight) style.minHeight = "";
    else if (this.stepping) style.minHeight = `${height}px`;
    this.settled = width;
  }

  close() {
    this.observer.disconnect();
  }

  #run({ text, kind }) {
    if (kind === "side") return badge(text);
    return kind ? el(kind === "strong" ? "strong" : "span", { className: `wb-run-${kind}` }, text) : text;
  }

  #heading(mark) {
    const cell = ([title, modelled], at) =>
      el("th", { scope: "col", className: `wb-col-${at}` }, modelled ? `${mark} ${title}` : title);
    const [call, ...others] = this.constants.headings.map(cell);
    const parts = this.constants.parts.map((kind) =>
      el("span", { className: "wb-key" }, el("i", { className: `wb-part wb-part-${kind}` }), kind));
    return el("thead", {}, el("tr", {}, el("th", { scope: "col" }), call, el("th", { className: "wb-keys" }, ...parts), ...others));
  }

  #row(row) {
    const name = row.title
      ? el("th", { scope: "row" }, badge(row.key), el("span", { className: "wb-name", title: row.title }, row.title))
      : el("th", { scope: "row", className: "wb-muted" }, row.key);
    if (row.problem) {
      const columns = this.constants.headings.length + 1;
      return el("tr", {}, name, el("td", { colspan: columns, className: "wb-problem" }, el("div", {}, row.problem)));
    }
    const side = row.title ? row.key : "difference";
    const cell = ({ text, unit, metric }, at) =>
      el("td", { className: `wb-col-${at}` },
        el("span", { "data-side": side, "data-metric": metric }, text),
        unit ? el("span", { className: "wb-unit" }, `\u2009${unit}`) : null);
    const [call, ...others] = row.cells.map(cell);
    return el("tr", { className: row.title ? "" : "wb-difference" }, name, call, row.title ? this.#bar(row) : this.#changes(row), ...others);
  }

  #bar(row) {
    const parts = row.bar.map(({ kind, text, share }) =>
      el("span", {
        className: `wb-part wb-part-${kind}`, style: { width: `${100 * share}%` }, title: `${kind} ${text} \u00b5s`,
        "data-part": kind, "data-side": row.key, "data-text": text,
      }, share > 0.06 && kind !== "merge" ? text : ""));
    const words = row.bar.map(({ kind, text }) => `${kind} ${text}`).join(", ");
    return el("td", { className: "wb-bar" }, el("div", { role: "img", "aria-label": `Microseconds: ${words}` }, ...parts));
  }

  #changes(row) {
    const words = row.bar.filter(({ text }) => /^[+\u2212]/.test(text)).map(({ kind, text }) => `${text} ${kind}`);
    return el("td", { className: "wb-changes" }, words.join(", "));
  }

  #chip(chip) {
    const swatch = (colour) => el("i", { className: "wb-swatch", style: { background: `var(--wb-request-${colour})` } });
    const text = [el("b", {}, chip.label), el("span", { className: "wb-muted" }, chip.detail)];
    if (chip.request === null) {
      const steps = [0, 1, 2, 3, 4].map((step) => swatch(chip.colour + step));
      return el("span", { className: "wb-chip" }, el("span", { className: "wb-ramp" }, ...steps), ...text);
    }
    const choose = () => this.link.set({ selection: chip.selected ? null : chip.request });
    return el("button", {
      type: "button", className: "wb-chip", "aria-pressed": chip.selected, "aria-label": `Request ${chip.label}, ${chip.detail}`,
      on: { click: choose },
    }, swatch(chip.colour), ...text);
  }
}
