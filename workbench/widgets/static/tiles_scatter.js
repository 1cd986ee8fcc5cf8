// Configurations as points: time over occupancy, or error over time. Hollow is modelled, half recorded, full measured.

import { el, fill, show } from "./dom.js";
import { svg, place } from "./crossover_axes.js";

const LEFT = 50;
const BOTTOM = 34;
const TOP = 8;
const TALL = 236;
const NEAR = 14; // pixels from a point within which the pointer means it

export class Scatter {
  constructor(link, kind, title, hint) {
    this.link = link;
    this.kind = kind;
    this.svg = svg("svg", { class: "wb-t-svg", tabindex: 0, role: "img", "aria-label": `${title}; arrows go through the points, Enter puts one on screen`, "data-lm-suppress-shortcuts": "true" });
    this.still = svg("g");
    this.mark = svg("g");
    this.svg.append(this.still, this.mark);
    this.none = el("p", { className: "wb-hint", hidden: true });
    this.card = el("div", { className: "wb-card wb-t-card", hidden: true });
    this.plotted = el("div", { className: "wb-plot" }, this.svg, this.card);
    this.hint = el("span", { className: "wb-muted" }, hint);
    this.node = el("section", { className: "wb-t-chart", "data-chart": kind }, el("h4", {}, title, this.hint), this.none, this.plotted);
    this.svg.addEventListener("pointermove", (event) => this.#point(this.#nearest(event)));
    this.svg.addEventListener("pointerleave", () => this.#point(null));
    this.svg.addEventListener("blur", () => this.#point(null));
    this.svg.addEventListener("click", (event) => this.#choose(this.#nearest(event)));
    this.svg.addEventListener("keydown", (event) => this.#key(event));
  }

  draw(scene, theme, width, passes) {
    this.scene = scene;
    this.plot = scene[this.kind];
    this.theme = theme;
    this.width = width;
    this.points = this.plot.points.filter(([row]) => passes(scene.rows[row]));
    place(this.svg, { width, height: TALL, viewBox: `0 0 ${width} ${TALL}` });
    this.pointed = null;
    show(this.card, false);
    const { x, y, empty } = this.plot;
    fill(this.none, empty);
    show(this.none, empty !== "");
    show(this.hint, empty === "");
    show(this.plotted, empty === "");
    if (empty) return undefined;
    const lines = y.ticks.map(([at, words]) => svg("g", {}, svg("path", { d: `M${LEFT} ${this.#y(at)}H${width}`, stroke: theme.grid }),
      svg("text", { x: LEFT - 6, y: this.#y(at) + 4, "text-anchor": "end" }, words)));
    const ticks = x.ticks.map(([at, words]) => svg("text", { x: this.#x(at), y: TALL - BOTTOM + 15, "text-anchor": "middle" }, words));
    const front = this.plot.front.map((row) => this.points.find(([each]) => each === row)).filter(Boolean);
    const steps = front.map(([, px, py], at) => `${at ? `H${this.#x(px)}V` : `M${this.#x(px)} `}${this.#y(py)}`).join("");
    fill(this.still, svg("g", { class: "wb-t-tick" }, ...lines, ...ticks, svg("text", { x: width, y: TALL - 4, "text-anchor": "end" }, x.title), svg("text", { x: 0, y: TALL - 4 }, y.title)),
      svg("path", { d: `M${LEFT} ${TALL - BOTTOM + 0.5}H${width}`, stroke: theme.line }),
      steps ? svg("path", { d: steps, fill: "none", stroke: theme.ink, "stroke-dasharray": "3 3" }) : null,
      ...this.points.toReversed().map((point) => this.#dot(point)));
    return undefined;
  }

  // The configuration on screen; all that changes while a slider moves.
  drawHere(at) {
    if (!at || this.plot.empty) return void fill(this.mark);
    const [x, y] = [this.#x(at[0]), this.#y(at[1])];
    const hue = this.theme.requests[0];
    fill(this.mark, svg("path", { d: `M${LEFT} ${y}H${x}M${x} ${y}V${TALL - BOTTOM}`, stroke: hue, "stroke-dasharray": "2 3", opacity: 0.7 }),
      svg("circle", { cx: x, cy: y, r: 6, fill: "none", stroke: hue, "stroke-width": 2.5 }));
    return undefined;
  }

  #x(at) {
    return LEFT + at * (this.width - LEFT - 8);
  }

  #y(at) {
    return TOP + (1 - at) * (TALL - TOP - BOTTOM);
  }

  #dot([row, x, y]) {
    const { theme } = this;
    const { shade, origin, tags } = this.scene.rows[row];
    const special = tags.length > 0;
    const colour = tags.includes("best") ? theme.requests[2] : special ? theme.ink : theme.requests[5 + shade];
    const stroke = special ? colour : theme.requests[9];
    const fills = { modelled: theme.background, recorded: colour, measured: colour };
    return svg("circle", { cx: this.#x(x), cy: this.#y(y), r: special ? 5 : 3.5, fill: fills[origin], "fill-opacity": origin === "recorded" ? 0.55 : 1,
      stroke, "stroke-width": special ? 2 : 1, "data-point": row });
  }

  #nearest(event) {
    const box = this.svg.getBoundingClientRect();
    const [px, py] = [event.clientX - box.left, event.clientY - box.top];
    const near = this.points.map(([row, x, y]) => [Math.hypot(this.#x(x) - px, this.#y(y) - py), row]).sort((a, b) => a[0] - b[0])[0];
    return near && near[0] <= NEAR ? near[1] : null;
  }

  #choose(row) {
    if (row !== null) this.link.set({ values: this.scene.rows[row].values });
  }

  #key(event) {
    const by = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 }[event.key];
    const order = this.points.toSorted((a, b) => a[1] - b[1] || a[2] - b[2]).map(([row]) => row);
    if (event.key === "Escape") this.#point(null);
    else if (event.key === "Enter" && this.pointed !== null) this.#choose(this.pointed);
    else if (by && order.length) this.#point(order[Math.min(Math.max(order.indexOf(this.pointed) + by, 0), order.length - 1)]);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  #point(row) {
    if (row === this.pointed) return;
    this.pointed = row;
    this.svg.style.cursor = row === null ? "" : "pointer";
    if (row === null) return void show(this.card, false);
    const { cells, words, problem } = this.scene.rows[row];
    const lines = this.scene.headings.map((name, at) => el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, cells[at])));
    fill(this.card, el("div", {}, el("table", {}, el("tbody", {}, ...lines)), el("p", { className: "wb-hint" }, problem || words)));
    show(this.card, true);
    const [, x, y] = this.points.find(([each]) => each === row);
    const left = this.#x(x) + 14;
    this.card.style.left = `${left + this.card.offsetWidth < this.width ? left : Math.max(this.#x(x) - 14 - this.card.offsetWidth, 0)}px`;
    this.card.style.top = `${Math.max(this.#y(y) - this.card.offsetHeight / 2, 0)}px`;
    return undefined;
  }
}
