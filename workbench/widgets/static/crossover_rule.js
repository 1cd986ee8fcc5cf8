// The rule: a strip of pieces with thresholds to drag. The browser moves them at once; Python says what they cost.

import { el, fill, show } from "./dom.js";
import { place, svg } from "./crossover_axes.js";
import { RULE } from "./crossover_chart.js";

const FINE = 1;
const COARSE = 2 ** (1 / 4);
const CHARACTER = 6.3;
const LEVELS = 2; // rows of numbers above the chart; a number that fits in none shows when its threshold is used

export class Rule {
  constructor(link, chart) {
    this.link = link;
    this.chart = chart;
    this.dragging = false;
    this.menu = el("div", { className: "wb-cross-menu", role: "menu", hidden: true });
    this.node = this.menu;
    this.menu.addEventListener("keydown", (event) => this.#menuKey(event));
    this.menu.addEventListener("focusout", (event) => !this.menu.contains(event.relatedTarget) && this.close());
  }

  draw(answer) {
    this.answer = answer;
    if (!this.dragging && !this.link.unsettled) this.pieces = answer.pieces;
    this.#build();
  }

  // Elements are kept while their number stays, so that a drag and the focus survive a redraw.
  #build() {
    const { rows, theme } = this.chart;
    const names = this.pieces.map(([, name]) => name).join("|");
    const key = `${this.pieces.length} ${names} ${this.chart.number} ${theme.name} ${this.chart.axes.width}`;
    if (key !== this.key) {
      const focused = this.handles?.indexOf(this.chart.rule.querySelector(":focus")) ?? -1;
      this.key = key;
      this.blocks = this.pieces.map((_, at) => this.#block(at));
      this.handles = this.pieces.slice(1).map((_, at) => this.#handle(at + 1));
      this.head = svg("text", { class: "wb-cross-head wb-cross-mine", x: this.chart.axes.from - 6, y: rows.rule + 15, "text-anchor": "end" });
      fill(this.chart.rule, this.head, ...this.blocks, ...this.handles);
      if (focused >= 0) this.handles[Math.min(focused, this.handles.length - 1)]?.focus();
    }
    this.head.textContent = this.answer.own ? "your rule" : "best";
    this.#move();
  }

  #ends(at) {
    const first = Math.max(this.pieces[at][0], 1);
    const last = at + 1 < this.pieces.length ? this.pieces[at + 1][0] - 1 : this.chart.scene.last_m;
    return [first, Math.min(last, this.chart.scene.last_m)];
  }

  #move() {
    const { axes, rows } = this.chart;
    this.blocks.forEach((block, at) => {
      const [first, last] = this.#ends(at);
      show(block, last >= first);
      block.style.display = last >= first ? "" : "none";
      if (last < first) return;
      const [x, width] = axes.span(first, last);
      const [box, edge, text] = [block.children[1], block.children[2], block.children[3]];
      place(box, { x, width, y: rows.rule });
      place(edge, { x, width: Math.min(3, width), y: rows.rule });
      place(text, { x: x + 9, y: rows.rule + 15 });
      text.textContent = text.dataset.words.length * CHARACTER + 22 < width ? text.dataset.words : "";
      const words = `${text.dataset.words}, M ${first.toLocaleString("en")} to ${last.toLocaleString("en")}`;
      block.children[0].textContent = `${words}; click to change`;
      block.setAttribute("aria-label", words);
    });
    const ends = Array(LEVELS).fill(-100);
    this.handles.forEach((handle, i) => {
      const m = this.pieces[i + 1][0];
      const x = axes.x(m - 0.5);
      handle.style.display = m <= this.chart.scene.last_m ? "" : "none";
      place(handle, { transform: `translate(${x.toFixed(1)} 0)`, "aria-valuenow": m, "aria-valuetext": `from M ${m.toLocaleString("en")}` });
      const number = handle.lastChild;
      number.textContent = m.toLocaleString("en");
      const half = (number.textContent.length * CHARACTER + 8) / 2;
      const level = ends.findIndex((end) => x - half >= end);
      if (level >= 0) ends[level] = x + half;
      place(number, { y: -4 - 12 * Math.max(level, 0) });
      number.classList.toggle("wb-cross-spare", level < 0);
    });
  }

  #block(at) {
    const name = this.pieces[at][1];
    const hue = this.chart.hue(name);
    const words = this.chart.title(name);
    const text = svg("text", { class: "wb-cross-piece" });
    text.dataset.words = words;
    const block = svg("g", { class: "wb-cross-block", tabindex: 0, role: "button", "aria-haspopup": "menu", "data-piece": name, "data-lm-suppress-shortcuts": "true" },
      svg("title"), svg("rect", { height: RULE, fill: hue, opacity: 0.34 }), svg("rect", { height: RULE, fill: hue }), text);
    block.addEventListener("click", (event) => this.#open(at, this.chart.axes.m(event.clientX - this.chart.svg.getBoundingClientRect().left)));
    block.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      event.stopPropagation();
      const [first, last] = this.#ends(at);
      this.#open(at, Math.round(Math.sqrt(first * last)));
    });
    return block;
  }

  #handle(at) {
    const { rows, theme } = this.chart;
    const bottom = rows.rule + RULE;
    const handle = svg("g", { class: "wb-cross-handle", tabindex: 0, role: "slider", "aria-label": `Threshold ${at}: rows from which ${this.chart.title(this.pieces[at][1])} is used`,
      "aria-valuemin": 1, "aria-valuemax": this.chart.scene.last_m, "aria-orientation": "horizontal", "data-threshold": at, "data-lm-suppress-shortcuts": "true" },
      svg("rect", { class: "wb-cross-grab", x: -7, y: 0, width: 14, height: bottom }),
      svg("path", { class: "wb-cross-line", d: `M0 -2V${bottom}`, stroke: theme.ink }),
      svg("rect", { class: "wb-cross-grip", x: -4.5, y: rows.rule + 3, width: 9, height: RULE - 6, rx: 2, fill: theme.background, stroke: theme.ink }),
      svg("path", { d: `M-1.5 ${rows.rule + 7}v8M1.5 ${rows.rule + 7}v8`, stroke: theme.ink }),
      svg("text", { x: 0, "text-anchor": "middle" }));
    handle.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      event.preventDefault();
      handle.focus();
      handle.setPointerCapture(event.pointerId);
      this.dragging = true;
    });
    handle.addEventListener("pointermove", (event) => {
      if (!this.dragging || !handle.hasPointerCapture(event.pointerId)) return;
      this.#to(at, this.chart.axes.m(event.clientX - this.chart.svg.getBoundingClientRect().left));
    });
    const drop = () => { this.dragging = false; };
    handle.addEventListener("pointerup", drop);
    handle.addEventListener("pointercancel", drop);
    handle.addEventListener("keydown", (event) => this.#key(at, event));
    return handle;
  }

  #key(at, event) {
    const m = this.pieces[at][0];
    const by = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 }[event.key];
    const measured = this.chart.measured();
    if (by && event.shiftKey) this.#to(at, by > 0 ? Math.max(m + 1, Math.round(m * COARSE)) : Math.min(m - 1, Math.round(m / COARSE)));
    else if (by) this.#to(at, m + by * FINE);
    else if (event.key === "PageUp") this.#to(at, measured.find((value) => value > m) ?? m);
    else if (event.key === "PageDown") this.#to(at, measured.findLast((value) => value < m) ?? m);
    else if (event.key === "Delete" || event.key === "Backspace") this.#set(this.pieces.filter((_, i) => i !== at));
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  // A threshold stays between its neighbours.
  #to(at, m) {
    const low = Math.max(this.pieces[at - 1][0], 1) + 1;
    const high = (this.pieces[at + 1]?.[0] ?? this.chart.scene.last_m + 1) - 1;
    const held = Math.min(Math.max(m, Math.min(low, high)), high);
    if (held === this.pieces[at][0]) return;
    this.#set(this.pieces.map((piece, i) => (i === at ? [held, piece[1]] : piece)));
  }

  #set(pieces) {
    this.pieces = pieces;
    this.link.set({ thresholds: pieces });
    this.#build();
  }

  #open(at, m) {
    const [first, last] = this.#ends(at);
    const name = this.pieces[at][1];
    const change = (provider) => this.pieces.map((piece, i) => (i === at ? [piece[0], provider] : piece));
    const item = (words, action, checked = null) => el("button", { type: "button", role: checked === null ? "menuitem" : "menuitemradio", "aria-checked": checked ?? undefined,
      on: { click: () => { this.close(); action(); } } }, words);
    const others = this.answer.allowed.filter(([provider]) => provider !== name);
    const split = m > first && m <= last && others.length > 0;
    const halves = () => [...this.pieces.slice(0, at + 1), [m, others[0][0]], ...this.pieces.slice(at + 1)];
    fill(this.menu, ...this.answer.allowed.map(([provider, title]) => item([title], () => this.#set(change(provider)), provider === name)),
      el("hr"), split ? item(`Split at M = ${m.toLocaleString("en")}`, () => this.#set(halves())) : null,
      at > 0 ? item("Join with the piece before", () => this.#set(this.pieces.filter((_, i) => i !== at))) : null);
    this.opener = this.blocks[at];
    show(this.menu, true);
    const [x] = this.chart.axes.span(Math.max(m, 1), Math.max(m, 1));
    this.menu.style.left = `${Math.min(x, this.chart.axes.width - this.menu.offsetWidth - 4)}px`;
    this.menu.style.top = `${this.chart.rows.rule + RULE + 4}px`;
    this.menu.querySelector("button").focus();
  }

  close() {
    if (this.menu.hidden) return;
    show(this.menu, false);
    this.opener?.focus();
  }

  #menuKey(event) {
    const items = [...this.menu.querySelectorAll("button")];
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") this.close();
    else if (by) items[(items.indexOf(document.activeElement) + by + items.length) % items.length].focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
