// Parallel coordinates: a line a configuration, an axis a parameter and a need. A value of an axis keeps only its lines.

import { el, fill } from "./dom.js";
import { svg, place } from "./crossover_axes.js";

const HEAD = 26;
const LINE = 14; // between titles in two lines
const CROWDED = 80; // pixels from axis to axis below which their titles take turns in two lines
const TALL = 236;
const BOTTOM = 12;
const SIDE = 44;

export class Parallel {
  constructor(link, onFilter) {
    this.link = link;
    this.onFilter = onFilter;
    this.filters = new Map();
    this.svg = svg("svg", { class: "wb-t-svg", role: "group", "aria-label": "Parallel coordinates" });
    this.lines = svg("g");
    this.axes = svg("g");
    this.mark = svg("g", { class: "wb-t-over" });
    this.svg.append(this.lines, this.mark, this.axes);
    this.clear = el("button", { type: "button", className: "wb-quiet wb-right", hidden: true, on: { click: () => this.#change(() => this.filters.clear()) } }, "show all");
    this.node = el("section", { className: "wb-t-chart", "data-chart": "parallel" },
      el("h4", {}, "All parameters at once", el("span", { className: "wb-muted" }, "darker is faster; press a value to keep only its lines"), this.clear), this.svg);
  }

  // Whether a row has only values that were kept.
  passes = ({ values }) => [...this.filters].every(([name, kept]) => kept.has(String(values[name])));

  draw(scene, theme, width) {
    this.scene = scene;
    this.theme = theme;
    this.width = width;
    const names = new Set(scene.columns.map(({ name }) => name));
    for (const name of this.filters.keys()) if (!names.has(name)) this.filters.delete(name);
    this.clear.hidden = this.filters.size === 0;
    this.crowded = (width - 2 * SIDE) / Math.max(scene.columns.length - 1, 1) < CROWDED;
    this.top = HEAD + (this.crowded ? LINE : 0);
    place(this.svg, { width, height: TALL, viewBox: `0 0 ${width} ${TALL}` });
    const rows = scene.rows.map((row, at) => [row, at]).filter(([row]) => this.passes(row)).toSorted(([a], [b]) => a.tags.length - b.tags.length || a.shade - b.shade);
    fill(this.lines, ...rows.map(([row, at]) => this.#line(row, at)));
    const focused = this.axes.contains(document.activeElement) ? document.activeElement.dataset.filter : null;
    fill(this.axes, ...scene.columns.map((column, at) => this.#axis(column, at)));
    if (focused) [...this.axes.querySelectorAll("[data-filter]")].find((each) => each.dataset.filter === focused)?.focus();
  }

  drawHere(line) {
    fill(this.mark, line ? svg("path", { d: this.#path(line), fill: "none", stroke: this.theme.requests[0], "stroke-width": 2.5, "stroke-linejoin": "round" }) : null);
  }

  #x(at) {
    const last = this.scene.columns.length - 1;
    return last === 0 ? this.width / 2 : SIDE + (at * (this.width - 2 * SIDE)) / last;
  }

  #y(at) {
    return this.top + (1 - at) * (TALL - this.top - BOTTOM);
  }

  // Between two axes that are known; a gap where a need is not known yet.
  #path(line) {
    let open = false;
    return line.map((at, column) => {
      const step = at === null ? "" : `${open ? "L" : "M"}${this.#x(column).toFixed(1)} ${this.#y(at).toFixed(1)}`;
      open = at !== null;
      return step;
    }).join("");
  }

  #line({ line, shade, origin, tags, values }, at) {
    const { theme } = this;
    const colour = tags.includes("best") ? theme.requests[2] : tags.length ? theme.ink : theme.requests[5 + shade];
    const path = svg("path", { d: this.#path(line), fill: "none", stroke: colour, "stroke-width": tags.length ? 2 : 1.2, "stroke-dasharray": origin === "modelled" && !tags.length ? "4 2" : null,
      opacity: tags.length ? 1 : 0.6, "data-line": at });
    path.addEventListener("click", () => this.link.set({ values }));
    return path;
  }

  #axis({ name, axis }, at) {
    const x = this.#x(at);
    const { theme } = this;
    const ticks = axis.ticks.map(([place, words], tick) => {
      const label = svg("text", { x: x - 7, y: this.#y(place) + 4, "text-anchor": "end" }, words);
      if (!name) return label;
      const kept = this.filters.get(name);
      const value = String(this.#values(name)[tick]);
      const on = kept?.has(value) ?? false;
      const wide = 8 + 6.5 * words.length;
      const button = svg("g", { class: `wb-t-value${on ? " wb-t-on" : ""}`, tabindex: 0, role: "checkbox", "aria-checked": String(on), "aria-label": `only ${name} ${words}`, "data-filter": `${name}=${value}`, "data-lm-suppress-shortcuts": "true" },
        svg("rect", { x: x - 5 - wide, y: this.#y(place) - 8, width: wide, height: 16, rx: 3, fill: on ? theme.slate : theme.background, "fill-opacity": on ? 1 : 0.75 }), label);
      const toggle = () => this.#change(() => this.#toggle(name, value));
      button.addEventListener("click", toggle);
      button.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        event.stopPropagation();
        toggle();
      });
      return button;
    });
    return svg("g", {}, svg("path", { d: `M${x} ${this.top}V${TALL - BOTTOM}`, stroke: theme.muted }), svg("text", { x, y: 12 + (this.crowded && at % 2 ? LINE : 0), "text-anchor": "middle", class: "wb-t-axis" }, axis.title), ...ticks);
  }

  #values(name) {
    return this.options.find((each) => each.name === name)?.values ?? [];
  }

  #toggle(name, value) {
    const kept = this.filters.get(name) ?? new Set();
    if (!kept.delete(value)) kept.add(value);
    if (kept.size) this.filters.set(name, kept);
    else this.filters.delete(name);
  }

  #change(how) {
    how();
    this.onFilter();
  }
}
