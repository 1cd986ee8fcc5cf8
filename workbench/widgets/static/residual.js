// The strip below a panel: how much later or earlier than modelled each column's last bin ended.

import { el, fill, show } from "./dom.js";
import { columnEdges } from "./raster.js";

const HEIGHT = 34;

export class Residual {
  constructor() {
    this.canvas = el("canvas", { "aria-hidden": true });
    this.words = el("div", { className: "wb-residual-words" });
    this.node = el("div", { className: "wb-residual", hidden: true }, this.canvas, this.words);
  }

  draw(residual, { geometry, space, theme, left }) {
    show(this.node, Boolean(residual));
    if (!residual) return;
    const { ratio } = geometry;
    const [width, height] = [geometry.width, Math.round(HEIGHT * ratio)];
    if (this.canvas.width !== width || this.canvas.height !== height) Object.assign(this.canvas, { width, height });
    Object.assign(this.canvas.style, { width: `${space.width}px`, height: `${HEIGHT}px`, left: `${left}px` });
    const context = this.canvas.getContext("2d");
    context.clearRect(0, 0, width, height);
    const zero = Math.round(height / 2);
    const scale = (height / 2 - ratio) / residual.limit;
    this.#bars(context, residual.value, { geometry, zero, scale, theme });
    context.fillStyle = theme.muted;
    context.fillRect(0, zero, width, Math.max(1, Math.round(ratio)));
    const edge = left + space.width + 6 + space.silhouette;
    fill(this.words,
      el("span", { className: "wb-tick", style: { top: "8px" } }, residual.high),
      el("span", { className: "wb-tick", style: { top: `${HEIGHT - 6}px` } }, residual.low),
      el("span", { className: "wb-residual-note", style: { left: `${edge + 14}px`, width: `${space.labels - 14}px` } },
        "bin ends against", el("br"), "the model, ", el("span", { "data-residual": "note" }, residual.note)));
  }

  // Where columns share a pixel, the one furthest from zero stands for all.
  #bars(context, values, { geometry, zero, scale, theme }) {
    const { from, pitch, ratio, width } = geometry;
    const bar = (value, left, right) => {
      if (!(Math.abs(value) > 0)) return; // nothing ran, or no difference
      const tall = Math.max(Math.abs(value) * scale, 1);
      context.fillStyle = value > 0 ? theme.later : theme.earlier;
      context.fillRect(left, value > 0 ? zero - tall : zero + 1, right - left, tall);
    };
    if (pitch >= 1) {
      for (let column = Math.floor(from); column < values.length; column += 1) {
        const [left, right] = columnEdges(column, from, pitch, ratio);
        if (left >= width) break;
        bar(values[column], Math.max(left, 0), Math.min(right, width));
      }
      return;
    }
    for (let x = 0; x < width; x += 1) {
      let furthest = 0;
      const last = Math.min(Math.ceil(from + (x + 1) / pitch), values.length);
      for (let column = Math.floor(from + x / pitch); column < last; column += 1) {
        if (Math.abs(values[column]) > Math.abs(furthest)) furthest = values[column];
      }
      bar(furthest, x, x + 1);
    }
  }
}
