// A chart that Python describes in shares of its plot: axes, lines, points with whiskers. SVG, for there is little to draw.

import { el, fill, show } from "./dom.js";
import { svg } from "./crossover_axes.js";

const LEFT = 56;
const BELOW = 36;
const TOP = 20;
const CHARACTER = 6.3; // pixels of a character at 11 px
const NEAR = 14; // pixels from a point within which it is pointed at

export class ProfileChart {
  constructor({ height = 280, right = 150 } = {}) {
    this.height = height;
    this.right = right;
    this.svg = svg("svg", { class: "wb-prof-svg", role: "img" });
    this.card = el("div", { className: "wb-card wb-prof-card", hidden: true });
    this.notes = el("div", { className: "wb-prof-notes" });
    this.node = el("div", { className: "wb-prof-chart" }, this.svg, this.card, this.notes);
    this.svg.addEventListener("pointermove", (event) => this.#point(event));
    this.svg.addEventListener("pointerleave", () => show(this.card, false));
    this.svg.addEventListener("keydown", (event) => this.#key(event));
  }

  draw(chart, theme, width) {
    Object.assign(this, { chart, theme, width, at: -1 });
    show(this.card, false);
    fill(this.notes, ...chart.notes.map((note) => el("p", {}, note)));
    const empty = chart.points.length === 0 && chart.lines.length === 0;
    show(this.svg, !empty);
    if (empty) return;
    const total = this.height + TOP + BELOW;
    for (const [name, value] of Object.entries({ width, height: total, viewBox: `0 0 ${width} ${total}`, "aria-label": `${chart.title}: ${chart.points.length} points`, tabindex: chart.points.length ? 0 : -1, "data-lm-suppress-shortcuts": "true" })) this.svg.setAttribute(name, value);
    const bottom = TOP + this.height;
    const grid = chart.y_ticks.map(([at, words]) => {
      const y = this.y(at);
      return svg("g", {}, svg("path", { d: `M${LEFT} ${y}H${this.x(1)}`, stroke: theme.grid }),
        svg("text", { x: LEFT - 7, y: y + 4, "text-anchor": "end" }, words));
    });
    fill(this.svg, svg("g", { class: "wb-prof-tick" }, ...grid, ...this.#ticks(bottom),
      svg("text", { x: 0, y: 10 }, chart.y_label),
      svg("text", { x: (LEFT + this.x(1)) / 2, y: bottom + 31, "text-anchor": "middle" }, chart.x_label)),
    svg("path", { d: `M${LEFT} ${bottom + 0.5}H${this.x(1)}`, stroke: theme.line }),
    ...chart.lines.map((line) => this.#line(line)), ...this.#labels(), ...chart.points.map((point) => this.#mark(point)));
  }

  x(share) {
    return LEFT + share * (this.width - LEFT - this.right);
  }

  y(share) {
    return TOP + (1 - share) * this.height;
  }

  #ticks(bottom) {
    let end = -Infinity;
    return this.chart.x_ticks.map(([at, words]) => {
      const short = words.length > 18 ? `${words.slice(0, 17)}\u2026` : words;
      const half = (short.length * CHARACTER) / 2;
      if (this.x(at) - half < end + 8) return null;
      end = this.x(at) + half;
      return svg("text", { x: this.x(at), y: bottom + 15, "text-anchor": "middle" }, short);
    });
  }

  #hue(pick, plain) {
    return pick >= 0 ? this.theme.requests[pick] : plain;
  }

  #line({ places, style, pick }) {
    const plain = style === "measured" ? this.theme.ink : this.theme.slate;
    const d = `M${places.map(([x, y]) => `${this.x(x).toFixed(1)} ${this.y(y).toFixed(1)}`).join("L")}`;
    return svg("path", { d, fill: "none", stroke: this.#hue(pick, plain), "stroke-width": pick >= 0 || style === "measured" ? 1.8 : 1.1,
      "stroke-dasharray": { datasheet: "5 4", guide: "2 3" }[style], opacity: style === "series" && pick < 0 ? 0.55 : null, "stroke-linejoin": "round" });
  }

  // Labels stand right of the plot, each at the end of its line, pushed apart where they would touch.
  #labels() {
    const wanted = this.chart.lines.filter((line) => line.label && line.places.length)
      .map((line) => ({ line, y: this.y(line.places.at(-1)[1]), x: this.x(line.places.at(-1)[0]) })).sort((a, b) => a.y - b.y);
    const ends = wanted.filter(({ x }) => x > this.x(0.93));
    let last = -Infinity;
    for (const one of ends) {
      one.at = Math.max(one.y, last + 14);
      last = one.at;
    }
    const most = Math.floor((this.right - 10) / CHARACTER);
    return wanted.map(({ line, x, y, at }) => {
      const words = line.label.length > most ? `${line.label.slice(0, most - 1)}\u2026` : line.label;
      const outside = at !== undefined;
      const colour = this.#hue(line.pick, line.style === "measured" ? this.theme.ink : this.theme.muted);
      return svg("text", { class: "wb-prof-label", x: outside ? this.x(1) + 8 : x - 6, y: outside ? at + 4 : y - 7, fill: colour,
        "text-anchor": outside ? "start" : "end" }, words, svg("title", {}, line.label));
    });
  }

  #mark({ place, low, high, pick }) {
    const [x, y] = [this.x(place[0]), this.y(place[1])];
    const colour = this.#hue(pick, this.theme.slate);
    const whisker = low === null ? null : svg("path", { d: `M${x} ${this.y(low)}V${this.y(high)}M${x - 4} ${this.y(low)}h8M${x - 4} ${this.y(high)}h8`, stroke: colour, "stroke-width": 1.2, fill: "none" });
    const letter = pick < 0 ? null : svg("text", { class: "wb-prof-letter", x, y: y + 3.5, "text-anchor": "middle", fill: this.theme.on_request[pick] }, "ABCDE"[pick]);
    const body = pick < 0 ? svg("circle", { cx: x, cy: y, r: 3.2, fill: colour, opacity: 0.8 })
      : svg("rect", { x: x - 7, y: y - 7, width: 14, height: 14, rx: 2, fill: colour, stroke: this.theme.background });
    return svg("g", {}, whisker, body, letter);
  }

  #point(event) {
    const box = this.svg.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const near = this.chart.points.map((point, at) => [Math.hypot(this.x(point.place[0]) - x, this.y(point.place[1]) - y), at]).sort((a, b) => a[0] - b[0])[0];
    this.#say(near && near[0] <= NEAR ? near[1] : -1);
  }

  #key(event) {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (event.key === "Escape") this.#say(-1);
    else if (by) this.#say((this.at + by + this.chart.points.length) % this.chart.points.length);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  #say(at) {
    this.at = at;
    show(this.card, at >= 0);
    if (at < 0) return;
    const { place, words } = this.chart.points[at];
    fill(this.card, words);
    const x = this.x(place[0]);
    this.card.style.left = `${Math.max(Math.min(x + 14, this.width - this.card.offsetWidth), 0)}px`;
    this.card.style.top = `${Math.max(this.y(place[1]) - this.card.offsetHeight - 10, 0)}px`;
  }
}
