// One panel: title, canvas with the bins, lines and their labels, silhouette; and what lies under a point.

import { badge, el, fill } from "./dom.js";
import { typed } from "./link.js";
import { columnAt, columnEdges, lowestAt, rasterise } from "./raster.js";
import { Residual } from "./residual.js";

export const LEFT = 40;
export const SILHOUETTE = 40;
const TOP = 12; // room above the plot for the marks of the last CTAs
const FONT = "600 11px";
const LEAST_LABEL = 15; // pixels that a label of one digit takes
const DASHES = { mean: [5, 3], bound: [1, 2] };
const ENVELOPE_BELOW = 3; // CSS pixels a column
const HALVES_FROM = 8; // CSS pixels a column from which plan and measurement stand beside each other in it
const FAINT = new Set(["other", "modelled"]); // lines beside which the panel's own stand out

const LANE = {
  offsets: Uint32Array, start: Float32Array, foot: Float32Array, end: Float32Array, colour: Uint8Array,
  descriptor: Int32Array, top: Float32Array,
};
const PANEL = { ...LANE, silhouette: Float32Array, place: Int32Array, sm: Int32Array, late: Uint8Array };

export function readPanel(message) {
  return { ...read(message, PANEL), ghost: read(message.ghost, LANE), residual: read(message.residual, { value: Float32Array }) };
}

function read(message, arrays) {
  if (!message) return null;
  const result = { ...message };
  for (const [name, Type] of Object.entries(arrays)) result[name] = typed(Type, message[name]);
  return result;
}

export class Plot {
  constructor() {
    this.title = el("div", { className: "wb-panel-title" });
    this.canvas = el("canvas", { "aria-hidden": true });
    this.overlay = el("canvas", { className: "wb-overlay", tabindex: 0, role: "img" });
    this.labels = el("div", { className: "wb-panel-labels" });
    this.box = el("div", { className: "wb-plot" }, this.canvas, this.overlay, this.labels);
    this.residual = new Residual();
    this.node = el("div", { className: "wb-panel" }, this.title, this.box, this.residual.node);
  }

  draw(panel, layout, unit, space, theme, colours) {
    Object.assign(this, { panel, layout, space, theme });
    const ratio = window.devicePixelRatio || 1;
    const { width } = space;
    this.geometry = {
      width: Math.round(width * ratio), height: Math.round(layout.height * ratio), ratio,
      from: space.from, pitch: (width / (space.to - space.from)) * ratio, scale: layout.scale * ratio,
    };
    this.#texts(unit);
    const across = width + 6 + space.silhouette;
    for (const canvas of [this.canvas, this.overlay]) {
      const [w, h] = [Math.round(across * ratio), Math.round((layout.height + TOP) * ratio)];
      if (canvas.width !== w || canvas.height !== h) Object.assign(canvas, { width: w, height: h });
      Object.assign(canvas.style, { width: `${across}px`, height: `${layout.height + TOP}px`, left: `${LEFT}px` });
    }
    this.box.style.height = `${layout.height + TOP}px`;
    const context = this.canvas.getContext("2d");
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    this.#bins(context, ratio, colours);
    this.#grid(context, ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, TOP * ratio);
    this.#merge(context);
    this.#late(context);
    this.#silhouette(context);
    this.#lines(context, across);
    this.#blocks(context);
    this.residual.draw(panel.residual, { geometry: this.geometry, space, theme, left: LEFT });
  }

  // Whether plan and measurement stand beside each other in each column.
  get halves() {
    return this.panel.ghost !== null && this.geometry.pitch / this.geometry.ratio >= HALVES_FROM;
  }

  #texts(unit) {
    const { panel, layout, space } = this;
    fill(this.title, el("span", { className: "wb-axis-unit" }, unit), badge(panel.key), el("b", {}, panel.title),
      el("span", { className: "wb-note" }, panel.note), this.#key(), el("span", { className: "wb-note wb-right" }, panel.note_right),
      el("span", { className: "wb-note wb-running" }, "CTAs still running"));
    this.title.style.width = `${LEFT + space.width}px`;
    this.overlay.setAttribute("aria-label",
      `Policy ${panel.key}, ${panel.title}: ${panel.note}. ${panel.note_right}. Arrow keys move between chunks.`);
    const ticks = layout.ticks.map(([value, text]) =>
      el("span", { className: "wb-tick", style: { top: `${TOP + layout.height - value * layout.scale}px` } }, text));
    const left = LEFT + space.width + 6 + space.silhouette;
    const lines = layout.labels.map(({ kind, label, text, label_y }) =>
      el("span", { className: `wb-line wb-line-${kind}`, style: { top: `${TOP + label_y}px`, left: `${left + 14}px`, width: `${space.labels - 14}px` } },
        el("span", {}, label), el("span", { "data-line": kind, "data-side": panel.key }, text)));
    fill(this.labels, ...ticks, ...lines);
  }

  // How plan and measurement are told apart.
  #key() {
    if (!this.panel.ghost) return null;
    const [look, words] = this.halves ? ["wb-key-halves", "pale: plan, full: measured"] : ["wb-key-cap", "planned end"];
    return el("span", { className: "wb-note wb-ghost-key" }, el("i", { className: look }), words);
  }

  #grid(context, ratio) {
    context.globalCompositeOperation = "destination-over"; // bins are pixels put over everything: the grid goes below
    context.fillStyle = this.theme.grid;
    for (const [value] of this.layout.ticks) {
      const y = Math.round((TOP + this.layout.height - value * this.layout.scale) * ratio);
      context.fillRect(0, y, this.geometry.width, 1);
    }
    context.globalCompositeOperation = "source-over";
  }

  #bins(context, ratio, colours) {
    const { panel, geometry, theme, halves } = this;
    const image = rasterise(panel, geometry, colours, halves ? 1 : 0);
    if (halves) rasterise(panel.ghost, geometry, colours.ghost, -1, image);
    context.putImageData(image, 0, Math.round(TOP * ratio));
    const outlined = panel.ghost && !halves;
    if (geometry.pitch / ratio >= ENVELOPE_BELOW && !outlined) return;
    // Columns too narrow to be told apart: their outline, and below one pixel each also the lowest of those that share it.
    const base = Math.round(TOP * ratio) + geometry.height;
    const outline = (heightAt, style) => {
      context.fillStyle = style;
      let before = null;
      for (let x = 0; x < geometry.width; x += 1) {
        const y = base - Math.round(heightAt(x) * geometry.scale);
        const low = before === null ? y : Math.max(y, before);
        const high = before === null ? y : Math.min(y, before);
        if (y < base || (before !== null && before < base)) context.fillRect(x, high, 1, Math.max(low - high, 1));
        before = y;
      }
    };
    if (outlined) return void this.#caps(context, base);
    outline((x) => panel.top[columnAt(panel, x, geometry.from, geometry.pitch)], `${theme.ink}66`);
    if (geometry.pitch < 1) outline((x) => lowestAt(panel, x, geometry.from, geometry.pitch), theme.background);
  }

  // Where the plan ends each column, as a line across it: with a rim, to be seen on dark and on pale stages.
  #caps(context, base) {
    const { panel: { ghost }, geometry: { from, pitch, scale, ratio, width }, theme } = this;
    const thick = Math.max(Math.round(ratio), 1);
    for (const [style, rim] of [[theme.background, thick], [theme.ink, 0]]) {
      context.fillStyle = style;
      const cap = (column, left, right) => {
        if (ghost.top[column] > 0) context.fillRect(left, base - Math.round(ghost.top[column] * scale) - rim, right - left, thick + 2 * rim);
      };
      if (pitch < 1) for (let x = 0; x < width; x += 1) cap(columnAt(ghost, x, from, pitch), x, x + 1);
      for (let column = Math.floor(from); pitch >= 1 && column < ghost.top.length; column += 1) {
        const [left, right] = columnEdges(column, from, pitch, ratio);
        if (left >= width) break;
        cap(column, Math.max(left, 0), Math.min(right, width));
      }
    }
  }

  y(value) {
    return this.layout.height - value * this.layout.scale;
  }

  #merge(context) {
    const [low, high] = this.panel.merge.map((value) => this.y(value));
    if (low - high < 0.5) return;
    context.save();
    context.beginPath();
    context.rect(0, high, this.space.width, low - high);
    context.clip();
    context.strokeStyle = this.theme.muted;
    context.globalAlpha = 0.7;
    context.lineWidth = 1;
    context.beginPath();
    for (let x = -(low - high); x < this.space.width; x += 6) {
      context.moveTo(x, low);
      context.lineTo(x + (low - high), high);
    }
    context.stroke();
    context.restore();
  }

  #late(context) {
    const { panel, geometry, layout } = this;
    const highest = Math.min(...layout.labels.filter(({ kind }) => !FAINT.has(kind)).map(({ y }) => y), layout.height);
    context.fillStyle = this.theme.ink;
    for (let column = 0; column < panel.late.length; column += 1) {
      if (!panel.late[column]) continue;
      const [left, right] = columnEdges(column, geometry.from, geometry.pitch, geometry.ratio);
      if (right > 0 && left < geometry.width) {
        context.fillRect(left / geometry.ratio, highest - 7, Math.max(right - left, 1) / geometry.ratio, 3);
      }
    }
  }

  #blocks(context) {
    const { panel, space, theme } = this;
    const pitch = space.width / (space.to - space.from);
    context.font = `${FONT} ${space.font}`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    for (const block of panel.blocks) {
      const left = Math.max((block.first - space.from) * pitch, 0);
      const right = Math.min((block.last + 1 - space.from) * pitch, space.width);
      if ((block.top - block.bottom) * this.layout.scale < 14 || right - left < LEAST_LABEL) continue;
      const text = [`request ${block.text}`, block.text].find((words) => context.measureText(words).width + 8 < right - left);
      if (!text) continue;
      const at = [(left + right) / 2, (this.y(block.bottom) + this.y(block.top)) / 2];
      context.strokeStyle = theme.requests[block.colour]; // so that no line of the panel runs through the words
      context.lineWidth = 4;
      context.lineJoin = "round";
      context.strokeText(text, ...at);
      context.fillStyle = theme.on_request[block.colour];
      context.fillText(text, ...at);
    }
  }

  #silhouette(context) {
    const { silhouette } = this.panel;
    const left = this.space.width + 6;
    const count = silhouette.length;
    const wide = this.space.silhouette;
    context.beginPath();
    context.moveTo(left, this.layout.height);
    context.lineTo(left + wide, this.layout.height);
    for (let i = 0; i < count; i += 1) {
      const y = this.y(silhouette[i]);
      context.lineTo(left + (wide * (count - i)) / count, y);
      context.lineTo(left + (wide * (count - i - 1)) / count, y);
    }
    context.closePath();
    context.lineWidth = 1;
    context.fillStyle = this.theme.grid;
    context.fill();
    context.strokeStyle = this.theme.slate;
    context.stroke();
  }

  #lines(context, across) {
    const half = (y) => Math.round(y) + 0.5;
    context.lineWidth = 1;
    for (const { kind, y } of this.layout.labels) {
      context.strokeStyle = FAINT.has(kind) ? this.theme.slate : this.theme.ink;
      context.setLineDash(DASHES[kind] ?? []);
      context.beginPath();
      context.moveTo(0, half(y));
      context.lineTo(across, half(y));
      context.stroke();
    }
    context.setLineDash([]);
    context.strokeStyle = this.theme.muted;
    context.beginPath();
    context.moveTo(0, half(this.layout.height));
    context.lineTo(this.space.width, half(this.layout.height));
    context.stroke();
  }

  // Segment at a point in CSS pixels of the overlay, or -1.
  segmentAt(x, y) {
    const { geometry, panel, layout } = this;
    if (x < 0 || x >= this.space.width) return -1;
    const column = columnAt(panel, x * geometry.ratio, geometry.from, geometry.pitch);
    const value = (layout.height + TOP - y) / layout.scale;
    const [left, right] = columnEdges(column, geometry.from, geometry.pitch, geometry.ratio);
    if (this.halves && x * geometry.ratio < (left + right) / 2) {
      const planned = inColumn(panel.ghost, column, value);
      return planned < 0 ? -1 : panel.descriptor.indexOf(panel.ghost.descriptor[planned]);
    }
    return inColumn(panel, column, value);
  }

  columnOf(segment) {
    let [low, high] = [0, this.panel.top.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.panel.offsets[middle] <= segment) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  // First and last segment of the chunk that a segment is a stage of.
  chunkOf(segment) {
    const { offsets, descriptor } = this.panel;
    const column = this.columnOf(segment);
    let [first, last] = [segment, segment];
    while (first > offsets[column] && descriptor[first - 1] === descriptor[segment]) first -= 1;
    while (last + 1 < offsets[column + 1] && descriptor[last + 1] === descriptor[segment]) last += 1;
    return [first, last];
  }

  // Box of a segment's chunk in CSS pixels of the overlay.
  boxOf(segment) {
    const { ratio, from, pitch } = this.geometry;
    const [first, last] = this.chunkOf(segment);
    const [left, right] = columnEdges(this.columnOf(segment), from, pitch, ratio);
    const top = TOP + this.y(this.panel.end[last]);
    return { left: left / ratio, width: (right - left) / ratio, top, height: TOP + this.y(this.panel.start[first]) - top };
  }

  // Marks a segment and a range being dragged; either may be absent.
  mark(segment, range) {
    const context = this.overlay.getContext("2d");
    const ratio = this.geometry.ratio;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.overlay.width, this.overlay.height);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    if (range) {
      context.fillStyle = `${this.theme.accent}33`;
      context.fillRect(Math.min(...range), TOP, Math.abs(range[1] - range[0]), this.layout.height);
    }
    if (segment < 0) return;
    const { left, width, top, height } = this.boxOf(segment);
    context.strokeStyle = this.theme.background;
    context.lineWidth = 4;
    context.strokeRect(left - 1, top - 1, width + 2, height + 2);
    context.strokeStyle = this.theme.ink;
    context.lineWidth = 2;
    context.strokeRect(left - 1, top - 1, width + 2, height + 2);
  }
}

// The segment of a lane's column at a height, or -1.
function inColumn(lane, column, value) {
  for (let i = lane.offsets[column]; i < lane.offsets[column + 1]; i += 1) {
    if (lane.start[i] <= value && value < lane.end[i]) return i;
  }
  return -1;
}
