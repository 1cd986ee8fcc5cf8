// The tuner's export menu; what a form cannot express is shown before the file is forgotten.

import { el, fill, show } from "./dom.js";
import { Files } from "./files.js";

const ITEMS = [
  ["save", "Save where router_gemm finds it"], ["table", "Dispatch table (JSON)"], ["sglang", "SGLang's dict (Python)"], ["module", "Standalone module (Python)"],
  ["png", "Picture (PNG)"], ["svg", "Picture (SVG)"], ["code", "Copy as code"],
];

export class CrossoverFiles extends Files {
  constructor(link, themeName) {
    super(link, themeName, ITEMS);
    this.lines = el("div", {});
    this.notice = el("div", { className: "wb-cross-notice", role: "alert", hidden: true }, this.lines,
      el("button", { type: "button", className: "wb-quiet", "aria-label": "Close", on: { click: () => show(this.notice, false) } }, "\u00d7"));
  }

  tell({ problem, notice = [] }) {
    const lines = problem ? [problem] : notice;
    fill(this.lines, ...lines.map((line) => el("p", {}, line)));
    show(this.notice, lines.length > 0);
  }
}
