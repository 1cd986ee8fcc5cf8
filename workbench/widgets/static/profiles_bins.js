// The schedule of each picked capture: planned and measured pieces of the CTAs on canvases, busy SMs beside them.

import { el, fill } from "./dom.js";
import { typed } from "./link.js";
import { rgb } from "./theme.js";
import { ProfileChart } from "./profiles_chart.js";
import { letter } from "./profiles_compare.js";

const HEIGHT = 132;
const MERGE = 255;
const BUSY = 330; // pixels of the chart of busy SMs
const GAP = 18;
const KEY = "A column for each CTA that an SM holds at once, time upwards, one scale for all. Faint: until the first bytes are there. Stronger: longer requests. Ink: merging, and the end of the last piece.";

// Steps by length as the explorer has them, nearer to slate: here no hue stands beside them to set them off.
function blend(colour, slate) {
  const [a, b] = [rgb(colour), rgb(slate)];
  return `rgb(${a.map((value, at) => Math.round(0.6 * value + 0.4 * b[at])).join(",")})`;
}

export class Schedules {
  constructor(link) {
    this.link = link;
    this.node = el("div", { className: "wb-prof-schedules" });
    link.listen("bins", (content, buffers) => this.#arrived(content, buffers));
  }

  // Pieces travel once for a selection; a change of theme or width draws what is here.
  show(frame, theme, width) {
    Object.assign(this, { theme, width });
    const wanted = frame.view.lanes.join(" ");
    if (wanted === this.have && this.content) return this.#draw();
    this.have = wanted;
    this.content = null;
    fill(this.node, el("p", { className: "wb-muted" }, frame.view.lanes.length ? "reading the schedules" : ""));
    if (frame.view.lanes.length) this.link.ask("bins", { frame: frame.number });
    return undefined;
  }

  forget() {
    this.have = null;
  }

  #arrived({ captures }, buffers) {
    if (captures.map(({ key }) => key).join(" ") !== this.have) return;
    for (const { lanes } of captures) {
      for (const lane of lanes) {
        const [column, start, foot, end, shade] = [Int32Array, Float32Array, Float32Array, Float32Array, Uint8Array].map((Type, at) => typed(Type, buffers[lane.buffers + at]));
        Object.assign(lane, { column, start, foot, end, shade });
      }
    }
    this.content = captures;
    this.#draw();
  }

  #draw() {
    const span = Math.max(...this.content.flatMap(({ lanes }) => lanes.map((lane) => lane.span_us)), 1e-6);
    fill(this.node, el("p", { className: "wb-muted" }, KEY), ...this.content.map((one, at) => this.#capture(one, at, span)));
    this.node.dispatchEvent(new CustomEvent("wb-bins", { bubbles: true }));
  }

  #capture({ letter: text, title, rest, lanes, busy, words }, at, span) {
    const wide = this.width >= 900;
    const room = wide && busy ? this.width - BUSY - GAP : this.width;
    const each = lanes.length ? Math.floor((room - GAP * (lanes.length - 1)) / lanes.length) : 0;
    const boxes = lanes.map((lane) => this.#lane(lane, each, span));
    const chart = busy ? new ProfileChart({ height: HEIGHT - 26, right: 82 }) : null;
    const row = el("div", { className: "wb-prof-lanes" }, ...boxes, chart?.node);
    chart?.draw({ ...busy, lines: busy.lines.map((line) => (line.style === "series" ? { ...line, pick: at } : line)) }, this.theme, wide ? BUSY : this.width);
    return el("section", { className: "wb-prof-schedule" }, el("div", { className: "wb-prof-entry" }, letter(this.theme, at, text), el("b", {}, title), el("span", { className: "wb-muted" }, rest)),
      el("p", { className: "wb-muted" }, words), row);
  }

  #lane(lane, width, span) {
    const ratio = window.devicePixelRatio || 1;
    const canvas = el("canvas", { width: Math.round(width * ratio), height: Math.round(HEIGHT * ratio), role: "img", "aria-label": `${lane.title}: ${lane.start.length} pieces on ${lane.columns} CTAs, last ends at ${lane.span_us.toFixed(1)} microseconds`, style: { width: `${width}px`, height: `${HEIGHT}px` } });
    this.#paint(canvas.getContext("2d"), lane, canvas.width, canvas.height, span);
    const end = lane.span_us.toFixed(1);
    return el("div", { className: "wb-prof-lane" }, el("div", { className: "wb-prof-lane-title" }, el("span", {}, lane.title), el("span", {}, `ends at ${end} \u00b5s`)), canvas,
      el("div", { className: "wb-prof-lane-title" }, el("span", {}, "1"), el("span", {}, String(lane.columns))));
  }

  #paint(context, { column, start, foot, end, shade, columns, span_us: last }, width, height, span) {
    const { theme } = this;
    const [pitch, scale] = [width / columns, (height - 2) / span];
    const gap = pitch >= 4 ? 1 : 0;
    context.fillStyle = theme.background;
    context.fillRect(0, 0, width, height);
    const shades = theme.requests.map((colour) => blend(colour, theme.slate));
    const box = (at, from, to, colour, alpha) => {
      if (!(to > from)) return;
      context.globalAlpha = alpha;
      context.fillStyle = colour;
      context.fillRect(column[at] * pitch, height - 1 - to * scale, Math.max(pitch - gap, 0.6), Math.max((to - from) * scale - (pitch >= 3 ? 0.7 : 0), 0.6));
    };
    for (let at = 0; at < start.length; at += 1) {
      const merge = shade[at] === MERGE;
      const colour = merge ? theme.ink : shades[shade[at]];
      if (!merge) box(at, start[at], foot[at], colour, theme.foot_share);
      box(at, foot[at], end[at], colour, merge ? 0.8 : 1);
    }
    context.globalAlpha = 1;
    context.fillStyle = theme.line;
    context.fillRect(0, height - 1, width, 1);
    context.fillStyle = theme.ink;
    context.fillRect(0, Math.round(height - 1 - last * scale), width, 1);
  }
}
