// The browser's export menu; a file holds the picked captures, or all on screen where none is picked.

import { el, fill, show } from "./dom.js";
import { Files } from "./files.js";

const ITEMS = [["csv", "Table (CSV)"], ["parquet", "Table (Parquet)"], ["html", "Page (HTML)"], ["png", "Picture (PNG)"], ["svg", "Picture (SVG)"], ["code", "Copy as code"]];

export class ProfileFiles extends Files {
  constructor(link, themeName) {
    const about = el("span", { className: "wb-prof-about" });
    super(link, themeName, ITEMS, about);
    this.about = about;
  }

  show(frame) {
    const picked = frame.legend.length;
    fill(this.about, picked ? `${picked} picked` : `all ${frame.total.toLocaleString("en")} on screen`);
    show(this.node, frame.empty.length === 0);
  }
}
