// The card of the chunk under the pointer: its words from Python, a lens on the nine columns around it.

import { el, fill, show } from "./dom.js";
import { rasterise } from "./raster.js";

const LENS = { columns: 9, width: 90, height: 96 };

export class Card {
  constructor(link, place) {
    this.link = link;
    this.place = place;
    this.lens = el("canvas", { width: LENS.width, height: LENS.height, "aria-hidden": true });
    this.words = el("div", { className: "wb-card-words", "aria-live": "polite" });
    this.node = el("div", { className: "wb-card", hidden: true }, this.lens, this.words);
    this.wanted = null;
    this.asking = false;
    link.listen("card", (content) => this.#arrived(content));
  }

  // Asks Python about a segment of a panel; only the latest question is kept.
  want(plot, segment, frame) {
    this.wanted = { plot, segment, side: plot.panel.key, index: plot.panel.descriptor[segment], frame };
    this.#ask();
  }

  hide() {
    this.wanted = null;
    show(this.node, false);
  }

  #ask() {
    if (this.asking || !this.wanted) return;
    const { side, index, frame } = this.wanted;
    this.asking = true;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => { this.asking = false; }, 1000);
    this.link.ask("card", { side, index, frame });
  }

  #arrived(content) {
    this.asking = false;
    if (!this.wanted) return;
    const { plot, segment, side, index, frame } = this.wanted;
    if (content.side !== side || content.index !== index || content.frame !== frame) {
      this.#ask();
      return;
    }
    const rows = content.rows.flatMap(([label, text]) => [el("dt", {}, label), el("dd", {}, text)]);
    const swatch = el("i", { className: "wb-swatch", style: { background: `var(--wb-request-${plot.panel.colour[segment] % plot.theme.requests.length})` } });
    fill(this.words, el("div", { className: "wb-card-title" }, swatch, el("b", {}, content.title),
      el("span", { className: "wb-muted" }, content.subtitle)), el("dl", {}, ...rows));
    this.#zoom(plot, segment);
    show(this.node, true);
    this.place(plot, segment, this.node);
  }

  #zoom(plot, segment) {
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [Math.round(LENS.width * ratio), Math.round(LENS.height * ratio)];
    Object.assign(this.lens, { width, height });
    const column = plot.columnOf(segment);
    const columns = Math.min(LENS.columns, plot.panel.top.length);
    const from = Math.min(Math.max(column - (columns >> 1), 0), plot.panel.top.length - columns);
    let highest = 0;
    for (let at = from; at < from + columns; at += 1) highest = Math.max(highest, plot.panel.top[at]);
    const scale = (height * 0.94) / highest;
    const pitch = width / columns;
    const context = this.lens.getContext("2d");
    context.putImageData(rasterise(plot.panel, { width, height, from, pitch, scale, ratio }, plot.colours), 0, 0);
    context.strokeStyle = plot.theme.ink;
    context.lineWidth = 2 * ratio;
    const [first, last] = plot.chunkOf(segment);
    const top = height - plot.panel.end[last] * scale;
    context.strokeRect((column - from) * pitch, top, pitch - ratio, (plot.panel.end[last] - plot.panel.start[first]) * scale);
  }
}
