// The bins of A and B on one axis: drawing both, zooming, the chunk under the pointer or the keys.

import { el, fill, show } from "./dom.js";
import { Card } from "./card.js";
import { LEFT, Plot, SILHOUETTE, readPanel } from "./plot.js";
import { shades } from "./raster.js";
import { rgb } from "./theme.js";

export const LABELS = 124;
const LEAST_COLUMNS = 4;
const CHARACTER = 7; // pixels of one below the columns
const DRAG_FROM = 4; // pixels before a click becomes a drag

export class Panels {
  constructor(link) {
    this.link = link;
    this.plots = [new Plot(), new Plot()];
    this.axis = el("div", { className: "wb-axis" });
    this.card = new Card(link, (plot, segment, node) => this.#place(plot, segment, node));
    this.reset = el("button", { type: "button", className: "wb-zoom-out", hidden: true, on: { click: () => this.zoom(null) } }, "All CTAs");
    this.node = el("div", { className: "wb-panels" }, ...this.plots.map((plot) => plot.node), this.axis, this.card.node, this.reset);
    this.window = null;
    this.cursor = null;
    for (const plot of this.plots) this.#listen(plot);
  }

  show(frame, theme, width) {
    const { scene } = frame;
    show(this.node, scene !== null && scene.panels.length > 0);
    if (scene === null || scene.panels.length === 0) {
      this.card.hide();
      this.frame = null;
      return;
    }
    if (theme !== this.theme) this.card.hide(); // its lens has the colours of the theme before
    if (this.window && scene.columns !== this.scene.columns) {
      this.window = null; // other CTAs than those that were looked at
      show(this.reset, false);
    }
    if (frame !== this.frame) {
      this.panels = scene.panels.map(readPanel);
      this.#keepCursor();
    }
    Object.assign(this, { frame, scene, theme });
    const space = this.#space(width);
    this.space = space;
    const background = rgb(theme.background);
    const colours = shades(theme, background);
    this.plots.forEach((plot, at) => {
      show(plot.node, at < this.panels.length);
      if (at >= this.panels.length) return;
      plot.colours = colours;
      plot.draw(this.panels[at], scene.layouts[at], scene.unit === "us" ? "\u00b5s" : "tiles", space, theme, colours);
    });
    this.#axis();
    this.#mark();
  }

  #space(width) {
    const room = width - LEFT - 6 - SILHOUETTE - LABELS;
    const { columns, sms } = this.scene;
    const [from, to] = this.window ?? [0, columns];
    // Whole pixels an SM, so that SMs never alias; a zoomed range uses all the room.
    const whole = Math.floor(room / sms) * sms;
    this.font ??= getComputedStyle(this.node).fontFamily;
    const plot = from === 0 && to === columns && whole > 0 ? whole : Math.max(room, 40);
    // What whole pixels leave over goes to the silhouette, and then to the labels.
    const silhouette = SILHOUETTE + Math.max(Math.min(room - plot, 72), 0);
    return { from, to, font: this.font, width: plot, silhouette, labels: width - LEFT - plot - 6 - silhouette };
  }

  // Shows columns `range` only; null shows all.
  zoom(range) {
    const { columns } = this.scene;
    if (range) {
      let [from, to] = range.map((value) => Math.min(Math.max(value, 0), columns));
      if (to - from < LEAST_COLUMNS) [from, to] = [from - LEAST_COLUMNS / 2, from + LEAST_COLUMNS / 2];
      from = Math.max(Math.floor(from), 0);
      to = Math.min(Math.ceil(to), columns);
      range = from <= 0 && to >= columns ? null : [from, Math.max(to, from + 1)];
    }
    this.window = range;
    show(this.reset, range !== null);
    this.card.hide();
    this.onRedraw();
  }

  zoomBy(factor, at = null) {
    const { from, to } = this.space;
    const middle = at ?? (this.cursor ? this.plots[this.cursor.plot].columnOf(this.cursor.segment) + 0.5 : (from + to) / 2);
    this.zoom([middle - (middle - from) * factor, middle + (to - middle) * factor]);
  }

  // Zooms to the columns that the selected request fills, or back.
  zoomToSelection() {
    if (this.window) return this.zoom(null);
    let [low, high] = [Infinity, -Infinity];
    for (const [at, panel] of this.panels.entries()) {
      for (let i = 0; i < panel.colour.length; i += 1) {
        if (panel.colour[i] !== 0) continue;
        const column = this.plots[at].columnOf(i);
        low = Math.min(low, column);
        high = Math.max(high, column + 1);
      }
    }
    if (low <= high) this.zoom([low - 1, high + 1]);
  }

  #axis() {
    const { space, scene } = this;
    const perColumn = space.width / (space.to - space.from);
    const at = (column) => `${LEFT + (column - space.from) * perColumn}px`;
    const tick = (column, text, className = "") => el("span", { className, style: { left: at(column) } }, text);
    const { place, sm } = this.panels[0];
    if (scene.order === "load") {
      return fill(this.axis, tick(space.from, "fullest", "wb-first"), tick(space.to, "emptiest", "wb-last"));
    }
    // Columns where another CTA or SM begins, and how many pixels each of them has.
    const counted = scene.order === "sm" ? sm : place;
    const starts = [];
    for (let column = 0; column < counted.length; column += 1) if (column === 0 || counted[column] !== counted[column - 1]) starts.push(column);
    const each = (counted.length / starts.length) * perColumn;
    const step = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000].find((count) => count * each >= 56) ?? 2000;
    const ticks = [];
    let free = 0; // pixels, from which on nothing is written: SMs do not lie evenly, and the first words are long
    for (const column of starts) {
      if (counted[column] % step || column < space.from || column >= space.to) continue;
      const words = ticks.length ? String(counted[column]) : `${scene.axis} ${counted[column]}`;
      const wide = words.length * CHARACTER, left = (column - space.from) * perColumn - (ticks.length ? wide / 2 : 0);
      if (ticks.length && left < free) continue;
      free = left + wide + CHARACTER;
      ticks.push(tick(column, words, ticks.length ? "" : "wb-first"));
    }
    return fill(this.axis, ...ticks);
  }

  #listen(plot) {
    const at = this.plots.indexOf(plot);
    const point = (event) => {
      const box = plot.overlay.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    const column = (x) => this.space.from + (x / this.space.width) * (this.space.to - this.space.from);
    let start = null;
    plot.overlay.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      start = point(event)[0];
      plot.overlay.setPointerCapture(event.pointerId);
    });
    plot.overlay.addEventListener("pointermove", (event) => {
      const [x, y] = point(event);
      if (start !== null && Math.abs(x - start) > DRAG_FROM) {
        this.card.hide();
        plot.mark(-1, [start, x]);
        return;
      }
      this.#point(at, plot.segmentAt(x, y));
    });
    plot.overlay.addEventListener("pointerup", (event) => {
      const [x, y] = point(event);
      const from = start;
      start = null;
      if (from === null) return;
      if (Math.abs(x - from) > DRAG_FROM) this.zoom([column(Math.min(from, x)), column(Math.max(from, x))]);
      else this.#select(at, plot.segmentAt(x, y));
    });
    plot.overlay.addEventListener("pointerleave", () => start === null && this.#point(at, -1));
    plot.overlay.addEventListener("dblclick", () => this.zoom(null));
    plot.overlay.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey && !this.window) return;
      event.preventDefault();
      this.zoomBy(event.deltaY > 0 ? 1.25 : 0.8, column(point(event)[0]));
    }, { passive: false });
    plot.overlay.addEventListener("keydown", (event) => this.#key(at, event));
  }

  #key(at, event) {
    const panel = this.panels[at];
    const plot = this.plots[at];
    if (event.key === "Enter" && this.cursor) {
      this.#select(at, this.cursor.segment);
    } else if (["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"].includes(event.key)) {
      let segment = this.cursor?.plot === at ? this.cursor.segment : -1;
      if (segment < 0) segment = Math.min(panel.offsets[Math.floor(this.space.from)], panel.end.length - 1);
      else if (event.key === "ArrowUp" || event.key === "ArrowDown") {
        const column = plot.columnOf(segment);
        const [first, last] = plot.chunkOf(segment);
        const next = event.key === "ArrowUp" ? last + 1 : first - 1;
        if (next >= panel.offsets[column] && next < panel.offsets[column + 1]) segment = next;
      } else segment = this.#neighbour(plot, segment, event.key === "ArrowRight" ? 1 : -1);
      if (segment >= 0) this.#point(at, segment);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  // The chunk at the same height in the next column that has any.
  #neighbour(plot, segment, by) {
    const { panel } = plot;
    const middle = (panel.start[segment] + panel.end[segment]) / 2;
    for (let column = plot.columnOf(segment) + by; column >= 0 && column < panel.top.length; column += by) {
      const [first, last] = [panel.offsets[column], panel.offsets[column + 1]];
      if (first === last) continue;
      let found = first;
      while (found + 1 < last && panel.end[found] <= middle) found += 1;
      if (column < this.space.from || column >= this.space.to) {
        const half = (this.space.to - this.space.from) / 2;
        this.zoom([column - half, column + half]);
      }
      return found;
    }
    return segment;
  }

  #point(at, segment) {
    const same = this.cursor?.plot === at && this.cursor.segment === segment;
    this.cursor = segment < 0 ? null : { plot: at, segment, descriptor: this.panels[at].descriptor[segment] };
    if (same && !this.card.node.hidden) return;
    this.#mark();
    if (this.cursor) this.card.want(this.plots[at], segment, this.frame.number);
    else this.card.hide();
  }

  #mark() {
    this.plots.forEach((plot, at) => {
      if (at < this.panels.length) plot.mark(this.cursor?.plot === at ? this.cursor.segment : -1, null);
    });
  }

  // A new frame has new segments: the cursor leaves, and its card with it.
  #keepCursor() {
    this.cursor = null;
    this.card.hide();
  }

  clear() {
    this.#point(0, -1);
    if (this.window) this.zoom(null);
  }

  #select(at, segment) {
    if (segment < 0) return;
    const panel = this.panels[at];
    this.link.queue({ kind: "select", side: panel.key, index: panel.descriptor[segment], frame: this.frame.number });
  }

  #place(plot, segment, node) {
    const box = plot.boxOf(segment);
    const top = plot.box.offsetTop + Math.max(box.top, 0);
    const [left, right] = [LEFT + box.left, LEFT + box.left + box.width];
    const fits = right + 12 + node.offsetWidth < this.node.clientWidth;
    node.style.left = `${fits ? right + 12 : Math.max(left - 12 - node.offsetWidth, 0)}px`;
    node.style.top = `${Math.max(Math.min(top + 8, this.node.clientHeight - node.offsetHeight - 4), 0)}px`;
  }
}
