// All steps of the trace: the worst step of each pixel, so that bad ones survive; a slider, playing, a brush.

import { badge, el, fill, icon, show } from "./dom.js";
import { menu } from "./fields.js";
import { typed } from "./link.js";
import { LEFT } from "./plot.js";

const HEIGHT = 84;
const LANE = 6;
const LANES = 3;
const IDLE_MS = 250;
const PLAY_MS = 110;
const DRAG_FROM = 4;
const ICONS = {
  play: "M3 1.5v9l7.5-4.5z", pause: "M2.5 1.5h2.5v9h-2.5zM7 1.5h2.5v9h-2.5z", back: "M9.5 1.5v9l-7-4.5z", on: "M2.5 1.5v9l7-4.5z",
  badBack: "M1 1.5h1.6v9h-1.6zM10.5 1.5v9l-7-4.5z", badOn: "M9.4 1.5h1.6v9h-1.6zM1.5 1.5v9l7-4.5z",
};

export class Strip {
  constructor(link, constants) {
    this.link = link;
    this.metric = menu("What the strip shows", constants.strips, (value) => link.set({ strip: value }));
    this.note = el("span", { className: "wb-note" });
    this.words = el("span", { className: "wb-right wb-brush", "aria-live": "polite" });
    this.playing = el("button", { type: "button", "aria-label": "Play", on: { click: () => this.play() } }, icon(ICONS.play));
    const button = (name, label, action) => el("button", { type: "button", "aria-label": label, title: label, on: { click: action } }, icon(ICONS[name]));
    this.position = el("span", { className: "wb-position" });
    this.buttons = el("span", { className: "wb-transport" },
      button("badBack", "Previous bad step (p)", () => this.bad(-1)), button("back", "Step back ([)", () => this.move(-1)),
      this.playing, button("on", "Step on (])", () => this.move(1)), button("badOn", "Next bad step (n)", () => this.bad(1)));
    this.canvas = el("canvas", { "aria-hidden": true });
    this.slider = el("input", { type: "range", min: 0, step: 1, "aria-label": "Step of the trace" });
    this.slider.addEventListener("input", () => this.go(Number(this.slider.value)));
    this.ticks = el("div", { className: "wb-strip-ticks" });
    this.table = el("table", { className: "wb-strip-table" });
    this.box = el("div", { className: "wb-strip-box" }, this.canvas, this.ticks, this.slider, this.table);
    this.node = el("section", { className: "wb-strip", "aria-label": "Trace" },
      el("div", { className: "wb-strip-head" }, el("h4", {}, "Trace"), this.metric.node, this.note, this.words, this.buttons, this.position),
      this.box);
    this.key = null;
    link.listen("more", (content, buffers) => this.#more(content, buffers));
    link.listen("brush", (content) => this.#brushed(content));
    this.#listen();
  }

  show(frame, theme, width) {
    const { strip, settings } = frame;
    show(this.node, strip !== null);
    if (strip === null) return this.stop();
    Object.assign(this, { theme, width, settings, total: strip.total });
    if (strip.key !== this.key) {
      this.key = strip.key;
      this.values = [0, 1].map(() => new Float32Array(strip.total).fill(NaN));
      Object.assign(this, { have: 0, facts: null, brush: null });
      this.lives ??= null;
      fill(this.note);
      this.#say("");
      this.#schedule();
    }
    this.metric.show(settings.strip);
    if (!this.link.unsettled) this.step = settings.step;
    this.slider.max = strip.total - 1;
    this.slider.value = this.step;
    this.slider.setAttribute("aria-valuetext", `step ${settings.step_text} of ${settings.steps_text}`);
    fill(this.position, el("b", {}, settings.step_text), ` / ${settings.steps_text}`);
    this.#draw();
    return undefined;
  }

  go(step) {
    const next = Math.min(Math.max(step, 0), this.total - 1);
    if (next === this.step) return;
    this.step = next;
    this.slider.value = next;
    this.link.set({ step: next });
    this.#draw();
  }

  move(by) {
    if (this.key !== null) this.go(this.step + by);
  }

  bad(direction) {
    const steps = this.facts?.bad ?? [];
    const next = direction > 0 ? steps.find((step) => step > this.step) : steps.findLast((step) => step < this.step);
    if (next !== undefined) this.go(next);
  }

  play() {
    if (this.timer) return this.stop();
    const tick = () => {
      if (this.step >= this.total - 1) return this.stop();
      if (!this.link.unsettled) this.move(1);
      return undefined;
    };
    this.timer = setInterval(tick, PLAY_MS);
    fill(this.playing, icon(ICONS.pause));
    this.playing.setAttribute("aria-label", "Pause");
    return undefined;
  }

  stop() {
    clearInterval(this.timer);
    this.timer = null;
    fill(this.playing, icon(ICONS.play));
    this.playing.setAttribute("aria-label", "Play");
  }

  close() {
    this.stop();
    clearTimeout(this.pause);
  }

  // Asks for further steps only while the reader does nothing else.
  #schedule() {
    clearTimeout(this.pause);
    const quiet = performance.now() - this.link.lastInput > IDLE_MS && !this.link.unsettled;
    if (quiet) this.link.ask("more", { strip: this.key, have: this.have });
    else this.pause = setTimeout(() => this.#schedule(), IDLE_MS);
  }

  #more(content, buffers) {
    if (content.strip !== this.key) return;
    if (content.from === this.have) {
      for (const row of [0, 1]) this.values[row].set(typed(Float32Array, buffers[row]), content.from);
      if (buffers.length > 2) this.lives = typed(Int32Array, buffers[2]);
      this.have = content.to;
      this.facts = content.facts ?? this.facts;
      this.#draw();
    }
    if (!content.finished && !content.problem) this.#schedule();
  }

  #brushed(content) {
    if (content.strip !== this.key || !this.brush) return;
    this.#say(content.text);
    this.#table(content.statistics, this.facts.headings);
  }

  // The comparison of a brushed range stands in place of the note.
  #say(words) {
    fill(this.words, words);
    this.words.title = words;
    show(this.note, words === "");
  }

  #listen() {
    const stepAt = (event) => {
      const x = event.clientX - this.canvas.getBoundingClientRect().left;
      return Math.min(Math.max(Math.floor((x / this.width) * this.total), 0), this.total - 1);
    };
    let start = null;
    this.canvas.addEventListener("pointerdown", (event) => {
      start = { x: event.clientX, step: stepAt(event) };
      this.canvas.setPointerCapture(event.pointerId);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (!start || Math.abs(event.clientX - start.x) <= DRAG_FROM) return;
      this.brush = [start.step, stepAt(event)].sort((a, b) => a - b);
      this.#draw();
    });
    this.canvas.addEventListener("pointerup", (event) => {
      const dragged = start && Math.abs(event.clientX - start.x) > DRAG_FROM;
      start = null;
      if (dragged) this.link.ask("brush", { strip: this.key, low: this.brush[0], high: this.brush[1] + 1 });
      else {
        this.brush = null;
        this.#say("");
        this.go(this.#worstNear(stepAt(event)));
        this.#draw();
      }
    });
  }

  // A pixel may hold many steps: a click goes to the worst of them, which is the one drawn.
  #worstNear(step) {
    const span = Math.max(Math.ceil(this.total / this.width), 1);
    let best = step;
    for (let at = step; at < Math.min(step + span, this.total); at += 1) {
      const [value, most] = [this.#worst(at), this.#worst(best)];
      if (value > most) best = at;
    }
    return best;
  }

  #worst(step) {
    return Math.max(...this.values.map((row) => (Number.isNaN(row[step]) ? 0 : row[step])));
  }

  #table(statistics, headings) {
    const rows = statistics.map((cells, at) => el("tr", {}, el("th", { scope: "row" }, badge("AB"[at])), ...cells.map((text) => el("td", {}, text))));
    fill(this.table, el("thead", {}, el("tr", {}, el("th"), ...headings.map((text) => el("th", { scope: "col" }, text)))), el("tbody", {}, ...rows));
  }

  #draw() {
    const ratio = window.devicePixelRatio || 1;
    const height = HEIGHT + LANES * LANE + 6;
    const [w, h] = [Math.round(this.width * ratio), Math.round(height * ratio)];
    if (this.canvas.width !== w || this.canvas.height !== h) Object.assign(this.canvas, { width: w, height: h });
    Object.assign(this.canvas.style, { width: `${this.width}px`, height: `${height}px`, marginLeft: `${LEFT}px` });
    Object.assign(this.slider.style, { width: `${this.width + 14}px`, marginLeft: `${LEFT - 7}px` });
    this.table.style.left = `${LEFT + this.width + 14}px`;
    const context = this.canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, this.width, height);
    const most = this.#most();
    const y = (value) => HEIGHT - (value / most) * (HEIGHT - 10);
    this.#texts(y);
    context.fillStyle = this.theme.grid;
    for (const [value] of this.facts?.ticks ?? []) context.fillRect(0, Math.round(y(value)), this.width, 1);
    this.#series(context, this.values[1], y, this.theme.slate, true);
    this.#series(context, this.values[0], y, this.theme.ink, false);
    this.#lanes(context);
    this.#marks(context, height);
  }

  #most() {
    let most = 0;
    for (const row of this.values) for (let i = 0; i < this.have; i += 1) if (row[i] > most) most = row[i];
    return most || 1;
  }

  #series(context, values, y, colour, filled) {
    const columns = Math.max(Math.floor(this.width), 1);
    context.beginPath();
    let drawn = 0;
    for (let x = 0; x < columns; x += 1) {
      const low = Math.floor((x / columns) * this.total);
      const high = Math.max(Math.floor(((x + 1) / columns) * this.total), low + 1);
      let value = NaN;
      for (let i = low; i < high && i < this.have; i += 1) if (!(values[i] <= value)) value = Number.isNaN(values[i]) ? value : values[i];
      if (low >= this.have) break;
      const at = Number.isNaN(value) ? HEIGHT : y(value);
      if (drawn === 0) context.moveTo(0, at);
      context.lineTo(x, at);
      context.lineTo(x + 1, at);
      drawn = x + 1;
    }
    context.strokeStyle = colour;
    context.lineWidth = filled ? 1 : 1.4;
    context.stroke();
    if (!filled || drawn === 0) return;
    context.lineTo(drawn, HEIGHT);
    context.lineTo(0, HEIGHT);
    context.fillStyle = `${colour}33`;
    context.fill();
  }

  // How long heavy requests stay in the batch, the selected one coloured.
  #lanes(context) {
    const lives = this.lives ?? [];
    for (let i = 0; i < lives.length; i += 4) {
      const [request, first, stop, lane] = lives.slice(i, i + 4);
      context.fillStyle = request === this.settings.selection_row ? this.theme.requests[0] : this.theme.requests[7];
      const left = (first / this.total) * this.width;
      context.fillRect(left, HEIGHT + 4 + lane * LANE, Math.max(((stop - first) / this.total) * this.width, 1), LANE - 2);
    }
  }

  #marks(context, height) {
    const x = (step) => ((step + 0.5) / this.total) * this.width;
    if (this.brush) {
      context.fillStyle = `${this.theme.accent}2e`;
      context.fillRect(x(this.brush[0]), 0, Math.max(x(this.brush[1]) - x(this.brush[0]), 1), height);
    }
    context.fillStyle = this.theme.ink;
    for (const step of this.facts?.bad ?? []) {
      context.beginPath();
      context.moveTo(x(step) - 3, 0);
      context.lineTo(x(step) + 3, 0);
      context.lineTo(x(step), 5);
      context.fill();
    }
    context.fillStyle = this.theme.accent;
    context.fillRect(Math.round(x(this.step)) - 1, 0, 2, height);
  }

  #texts(y) {
    const ticks = (this.facts?.ticks ?? []).map(([value, text]) => el("span", { className: "wb-tick", style: { top: `${y(value)}px` } }, text));
    const scale = this.width / Math.max(this.total, 1);
    const roomy = (this.facts?.steps ?? []).filter(([step]) => step === 0 || step * scale >= 64); // clear of the first label
    const steps = roomy.map(([step, text], at) =>
      el("span", { className: at ? "" : "wb-first", style: { left: `${LEFT + step * scale}px` } }, at ? text : `step ${text}`));
    fill(this.ticks, ...ticks, el("div", { className: "wb-axis" }, ...steps));
    if (!this.facts) return;
    if (!this.brush) this.#table(this.facts.statistics, this.facts.headings);
    fill(this.note, this.facts.problem || this.facts.progress || "worst step in each pixel");
  }
}
