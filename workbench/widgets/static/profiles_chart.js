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
    ...chart.lines.map((line) => this.#line(line)), ...this.#labels(), ...this.#marks());
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

  // A label stands right of the plot where its line ends there; a slope that ends earlier carries it on its back.
  #labels() {
    const named = this.chart.lines.filter((line) => line.label && line.places.length > 1);
    const outside = named.filter(({ style, places }) => style === "series" || places.at(-1)[0] > 0.98).sort((a, b) => b.places.at(-1)[1] - a.places.at(-1)[1]);
    let last = -Infinity;
    const slopes = named.filter((line) => !outside.includes(line)).sort((a, b) => b.places[0][1] - a.places[0][1] || a.places[0][0] - b.places[0][0]);
    return [...outside.map((line) => {
      const [x, y] = [this.x(line.places.at(-1)[0]), this.y(line.places.at(-1)[1])];
      last = Math.max(y, last + 14);
      const leader = svg("path", { d: `M${x + 8} ${y}L${this.x(1) - 4} ${last}h8`, fill: "none", stroke: this.theme.line });
      return svg("g", {}, x < this.x(0.98) ? leader : null, this.#words(line, { x: this.x(1) + 8, y: last + 4 }, Math.floor((this.right - 10) / CHARACTER)));
    }), ...slopes.map((line, at) => {
      const [[x0, y0], [x1, y1]] = [line.places[0], line.places.at(-1)].map(([x, y]) => [this.x(x), this.y(y)]);
      const angle = (Math.atan2(y1 - y0, x1 - x0) * 180) / Math.PI;
      const share = (at + 1.4) / (slopes.length + 1.6); // one behind the other, for the lines are close
      const [x, y] = [x0 + share * (x1 - x0), y0 + share * (y1 - y0)];
      return this.#words(line, { transform: `translate(${x} ${y}) rotate(${angle})`, y: at > 0 && at === slopes.length - 1 ? 15 : -6, "text-anchor": "middle" }, 40);
    })];
  }

  #words(line, place, most) {
    const words = line.label.length > most ? `${line.label.slice(0, most - 1)}\u2026` : line.label;
    return svg("text", { class: "wb-prof-label", fill: this.#hue(line.pick, line.style === "measured" ? this.theme.ink : this.theme.muted), ...place }, words, svg("title", {}, line.label));
  }

  // Dots stand where they belong; the letters of picked ones stand beside them, pushed apart where they would touch.
  #marks() {
    const points = this.chart.points.map((point) => ({ ...point, px: this.x(point.place[0]), py: this.y(point.place[1]) }));
    const tags = [];
    for (const point of points.filter(({ pick }) => pick >= 0).sort((a, b) => a.py - b.py)) {
      let y = point.py;
      for (const other of tags) if (Math.abs(other.px - point.px) < 20 && y - other.y < 17) y = Math.max(y, other.y + 17);
      tags.push({ ...point, y });
    }
    return [...points.map((point) => this.#mark(point)), ...tags.map(({ px, py, y, pick }) => svg("g", {},
      svg("path", { d: `M${px + 4} ${py}L${px + 12} ${y}`, stroke: this.theme.requests[pick], fill: "none" }),
      svg("rect", { x: px + 12, y: y - 7.5, width: 15, height: 15, rx: 2, fill: this.theme.requests[pick], stroke: this.theme.background }),
      svg("text", { class: "wb-prof-letter", x: px + 19.5, y: y + 3.8, "text-anchor": "middle", fill: this.theme.on_request[pick] }, "ABCDE"[pick])))];
  }

  #mark({ px: x, py: y, low, high, pick }) {
    const colour = this.#hue(pick, this.theme.slate);
    const whisker = low === null ? null : svg("path", { d: `M${x} ${this.y(low)}V${this.y(high)}M${x - 4} ${this.y(low)}h8M${x - 4} ${this.y(high)}h8`, stroke: colour, "stroke-width": 1.2, fill: "none" });
    return svg("g", {}, whisker, svg("circle", { cx: x, cy: y, r: pick < 0 ? 3.2 : 4.5, fill: colour, stroke: this.theme.background, opacity: pick < 0 ? 0.85 : null }));
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
