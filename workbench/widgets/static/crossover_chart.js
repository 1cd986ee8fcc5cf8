// Curves with their intervals, who was shown to be fastest, the table in use, and the lanes of calls and losses.

import { el, fill, show } from "./dom.js";
import { Axes, LEFT, PLOT, place, svg } from "./crossover_axes.js";

export const STRIP = 16;
export const RULE = 22;
const GAP = 4;
const LANE = 44;
const LANE_TOP = 6; // pixels of a lane above its tallest bar
const LABEL = 15; // pixels between two names at the right
const NEAR = 9; // pixels from a measured M within which the pointer means it
const CHARACTER = 6.3;

export class Chart {
  constructor(link, id) {
    this.link = link;
    this.id = id;
    this.svg = svg("svg", { class: "wb-cross-svg", role: "group", "aria-label": "Latency over rows" });
    this.card = el("div", { className: "wb-card wb-cross-card", hidden: true });
    this.node = el("div", { className: "wb-cross-chart" }, this.svg, this.card);
    this.still = svg("g");
    this.losses = svg("g");
    this.over = svg("g", { class: "wb-cross-over" });
    this.rule = svg("g");
    this.svg.append(this.still, this.losses, this.over, this.rule);
    this.asked = null;
    link.listen("card", (content) => this.#arrived(content));
  }

  // Rows from the top: where each part of the chart begins.
  static rows() {
    const fastest = PLOT + 8;
    const rule = fastest + STRIP + GAP;
    const used = rule + RULE + GAP;
    const calls = used + STRIP + 2 * GAP;
    const lost = calls + LANE + GAP;
    return { fastest, rule, used, calls, lost, axis: lost + LANE, height: lost + LANE + 22 };
  }

  draw(scene, number, styles, theme, width) {
    this.scene = scene;
    this.number = number;
    this.right = width < 760 ? 150 : 176;
    this.axes = new Axes(scene, width, this.right);
    this.styles = styles;
    this.theme = theme;
    this.rows = Chart.rows();
    place(this.svg, { width, height: this.rows.height, viewBox: `0 0 ${width} ${this.rows.height}` });
    this.#point(null);
    fill(this.still, this.#hatch(), this.#grid(), this.#undecided(), this.#unmeasured(), ...scene.curves.map((curve) => this.#curve(curve)),
      this.#names(), this.#zones("fastest", scene.fastest, this.rows.fastest, "fastest"),
      this.#zones("in use", scene.in_use, this.rows.used, "used"), this.#lane("calls", scene.calls, this.rows.calls, "share of the calls"),
      this.#ticks());
    fill(this.over, this.#overlay());
  }

  hue(name) {
    return this.styles[name]?.[this.theme.name] ?? this.theme.muted;
  }

  title(name) {
    return this.styles[name]?.title ?? name;
  }

  drawLost(lost, note) {
    const { scene, axes, rows } = this;
    const bottom = rows.lost + LANE;
    const bars = scene.bins.map(([low, high], at) => {
      if (lost[at] <= 0) return null;
      const [x, wide] = axes.span(low, high);
      const tall = Math.max(lost[at] * (LANE - LANE_TOP), 0.75);
      return svg("rect", { x, y: bottom - tall, width: Math.max(wide - 0.7, 0.8), height: tall, fill: this.theme.requests[0] });
    });
    fill(this.losses, this.#head("lost", bottom - 4), ...bars, this.#base(bottom),
      ...note.map((words, at) => this.#note(bottom - 4 - 12 * (note.length - 1 - at), words)));
  }

  #hatch() {
    const line = svg("path", { d: "M0 0V6", stroke: this.theme.muted, "stroke-width": 1.4 });
    return svg("defs", {}, svg("pattern", { id: this.id, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, line));
  }

  #grid() {
    const { axes, theme } = this;
    const lines = this.scene.y_ticks.flatMap(([us, words]) => {
      const y = axes.y(us);
      return [svg("path", { d: `M${axes.from} ${y}H${axes.to}`, stroke: theme.grid }), svg("text", { x: LEFT - 6, y: y + 4, "text-anchor": "end" }, words)];
    });
    return svg("g", { class: "wb-cross-tick" }, ...lines, svg("text", { x: 0, y: 10 }, "\u00b5s"));
  }

  #undecided() {
    const boxes = this.scene.fastest.filter(({ provider }) => provider === null).map(({ low, high }) => {
      const [x, width] = this.axes.span(low, high);
      return svg("rect", { x, y: 0, width, height: PLOT, fill: `url(#${this.id})`, opacity: 0.22 });
    });
    return svg("g", {}, ...boxes);
  }

  // Nothing is claimed beyond the M that were measured.
  #unmeasured() {
    const [first, last] = this.scene.measured;
    const parts = [[1, first - 1], [last + 1, this.scene.last_m]].filter(([low, high]) => low <= high).map(([low, high]) => {
      const [x, width] = this.axes.span(low, high);
      const words = width > 90 ? svg("text", { x: x + width / 2, y: PLOT - 8, "text-anchor": "middle" }, "not measured") : null;
      return svg("g", {}, svg("rect", { x, y: 0, width, height: PLOT, fill: this.theme.grid, opacity: 0.55 }), words);
    });
    return svg("g", { class: "wb-cross-tick" }, ...parts);
  }

  #curve({ provider, m, us, low, high, allowed }) {
    const { axes } = this;
    const at = (values) => values.map((value, i) => `${axes.x(m[i]).toFixed(1)} ${axes.y(value).toFixed(1)}`);
    const hue = this.hue(provider);
    const dash = this.styles[provider].dash || null;
    const line = { fill: "none", stroke: hue, "stroke-width": 1.8, "stroke-dasharray": dash, "stroke-linejoin": "round" };
    return svg("g", { opacity: allowed ? 1 : 0.35, "data-curve": provider },
      svg("path", { d: `M${[...at(high), ...at(low).reverse()].join("L")}Z`, fill: hue, opacity: 0.18 }),
      svg("path", { d: `M${at(us).join("L")}`, ...line }));
  }

  // Names stand where the lines end; those that would overlap move down, and all of them up if the last one falls out.
  #names() {
    const wanted = this.scene.curves.map((curve) => [this.axes.y(curve.us.at(-1)), curve]).sort((a, b) => a[0] - b[0]);
    let last = -LABEL;
    const places = wanted.map(([y, curve]) => [(last = Math.max(y, last + LABEL)), y, curve]);
    for (let i = places.length - 1, limit = PLOT; i >= 0; i -= 1, limit -= LABEL) places[i][0] = Math.min(places[i][0], limit);
    const from = this.axes.to;
    const names = places.map(([y, end, { provider, title, mark, origin, allowed, m }]) => {
      const start = this.axes.x(m.at(-1));
      return svg("g", { class: allowed ? "" : "wb-cross-off" },
        svg("title", {}, `${title}: ${origin}${allowed ? "" : "; not compared at this precision"}`),
        svg("path", { d: `M${start + 3} ${end}L${from + 8} ${y}`, stroke: this.hue(provider), opacity: 0.35, fill: "none" }),
        svg("path", { d: `M${from + 8} ${y}h22`, stroke: this.hue(provider), "stroke-width": 2, "stroke-dasharray": this.styles[provider].dash || null }),
        svg("text", { x: from + 35, y: y + 4 }, `${title} ${mark}`));
    });
    return svg("g", { class: "wb-cross-names" }, ...names);
  }

  #zones(title, zones, top, kind) {
    const boxes = zones.map(({ low, high, provider }) => {
      const [x, width] = this.axes.span(low, high);
      const words = provider === null ? "undecided" : this.title(provider);
      const hue = provider === null ? null : this.hue(provider);
      return svg("g", { "data-zone": kind, "data-provider": provider ?? "" },
        svg("title", {}, `${words}, M ${low.toLocaleString("en")} to ${high.toLocaleString("en")}`),
        svg("rect", { x, y: top, width, height: STRIP, fill: hue ?? `url(#${this.id})`, opacity: hue ? 0.3 : 0.8 }),
        hue ? svg("rect", { x, y: top, width: Math.min(2, width), height: STRIP, fill: hue }) : null,
        hue && words.length * CHARACTER + 10 < width ? svg("text", { x: x + 7, y: top + 12 }, words) : null);
    });
    return svg("g", { class: "wb-cross-strip" }, this.#head(title, top + 12), ...boxes);
  }

  #lane(title, shares, top, note) {
    const bottom = top + LANE;
    const peak = Math.max(...shares);
    const bars = this.scene.bins.map(([low, high], at) => {
      if (shares[at] <= 0) return null;
      const [x, width] = this.axes.span(low, high);
      const tall = Math.max((shares[at] / peak) * (LANE - LANE_TOP), 0.75);
      return svg("rect", { x, y: bottom - tall, width: Math.max(width - 0.7, 0.8), height: tall, fill: this.theme.slate });
    });
    return svg("g", {}, this.#head(title, bottom - 4), ...bars, this.#base(bottom), this.#note(bottom - 4, note));
  }

  #base(y) {
    return svg("path", { d: `M${this.axes.from} ${y + 0.5}H${this.axes.to}`, stroke: this.theme.line });
  }

  #head(words, y) {
    return svg("text", { class: "wb-cross-head", x: LEFT - 6, y, "text-anchor": "end" }, words);
  }

  #note(y, words) {
    return svg("text", { class: "wb-cross-head", x: this.axes.to + 8, y }, words);
  }

  #ticks() {
    let last = -100;
    const y = this.rows.axis + 15;
    const words = this.scene.x_ticks.map(([m, text]) => {
      const x = this.axes.x(m);
      if (x - last < text.length * CHARACTER + 12) return null;
      last = x;
      return svg("text", { x, y, "text-anchor": "middle" }, text);
    });
    return svg("g", { class: "wb-cross-tick" }, ...words, svg("text", { x: 0, y }, "M, rows"));
  }

  // Takes the pointer and the keys: the card of the M below it.
  #overlay() {
    this.cross = svg("g", { class: "wb-cross-cursor" });
    const box = svg("rect", { class: "wb-cross-overlay", x: this.axes.from, y: 0, width: this.axes.to - this.axes.from, height: PLOT, tabindex: 0,
      role: "img", "aria-label": "Latency curves; left and right arrows go through the measured M", "data-lm-suppress-shortcuts": "true" });
    box.addEventListener("pointermove", (event) => this.#point(this.#nearest(event.clientX - this.svg.getBoundingClientRect().left)));
    box.addEventListener("pointerleave", () => this.#point(null));
    box.addEventListener("blur", () => this.#point(null));
    box.addEventListener("keydown", (event) => this.#key(event));
    return svg("g", {}, this.cross, box);
  }

  measured() {
    return [...new Set(this.scene.curves.flatMap(({ m }) => m))].sort((a, b) => a - b);
  }

  #nearest(x) {
    const near = this.measured().map((m) => [Math.abs(this.axes.x(m) - x), m]).sort((a, b) => a[0] - b[0])[0];
    return near && near[0] <= NEAR ? near[1] : this.axes.m(x);
  }

  #key(event) {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "Escape") this.#point(null);
    else if (by) {
      const all = this.measured();
      const now = this.pointed ?? (by > 0 ? 0 : Infinity);
      this.#point((by > 0 ? all.find((m) => m > now) : all.findLast((m) => m < now)) ?? this.pointed ?? null);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  #point(m) {
    if (m === this.pointed && m !== null) return;
    this.pointed = m;
    if (m === null) {
      show(this.card, false);
      if (this.cross) fill(this.cross);
      return;
    }
    const x = this.axes.x(m);
    const dots = this.scene.curves.flatMap((curve) => {
      const at = curve.m.indexOf(m);
      return at < 0 ? [] : [svg("circle", { cx: x, cy: this.axes.y(curve.us[at]), r: 3.5, fill: this.hue(curve.provider), stroke: this.theme.background })];
    });
    fill(this.cross, svg("path", { d: `M${x} 0V${PLOT}`, stroke: this.theme.muted, "stroke-dasharray": "2 2" }), ...dots);
    if (this.asked === null) this.#ask(m);
  }

  // One question at a time; when it is answered, the one for where the pointer is by then.
  #ask(m) {
    this.asked = m;
    this.link.ask("card", { m, scene: this.number });
  }

  #arrived({ scene, card }) {
    this.asked = null;
    if (this.pointed === null || scene !== this.number) return;
    if (card.m !== this.pointed) return void this.#ask(this.pointed);
    const lines = card.lines.map(({ provider, title, us, interval, allowed }) => el("tr", { className: allowed ? "" : "wb-cross-off" },
      el("th", { scope: "row" }, el("i", { className: "wb-cross-dot", style: { background: this.hue(provider) } }), title),
      el("td", {}, us), el("td", { className: "wb-muted" }, interval)));
    fill(this.card, el("div", {}, el("div", { className: "wb-card-title" }, el("b", {}, card.title), el("span", { className: "wb-muted" }, card.subtitle)),
      el("table", {}, el("tbody", {}, ...lines)), el("p", { className: "wb-cross-note" }, card.note)));
    show(this.card, true);
    const x = this.axes.x(card.m);
    const fits = x + 14 + this.card.offsetWidth < this.axes.width;
    this.card.style.left = `${fits ? x + 14 : Math.max(x - 14 - this.card.offsetWidth, 0)}px`;
    this.card.style.top = "8px";
  }
}
