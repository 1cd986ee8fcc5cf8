// The list of policies: what each call takes, and which two are shown as A and B.

import { el, fill } from "./dom.js";
import { numberIn, onEnter } from "./fields.js";

const IDLE_MS = 120;

export class Policies {
  constructor(link, ranges) {
    this.link = link;
    this.ranges = ranges;
    this.node = el("div", { className: "wb-policies", role: "group", "aria-label": "Policies" });
    this.entries = [];
    link.listen("rank", (content) => this.#arrived(content));
  }

  show(frame) {
    this.frame = frame;
    this.entries = frame.policies.map((entry) => ({ ...entry }));
    this.#draw();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#askNext(), IDLE_MS);
  }

  close() {
    clearTimeout(this.timer);
  }

  // Policies other than A and B are asked for one at a time, once the reader pauses.
  #askNext() {
    if (this.link.unsettled) return;
    const missing = this.entries.find((entry) => entry.call_us === null && !entry.problem);
    if (missing) this.link.ask("rank", { frame: this.frame.number, name: missing.name });
  }

  #arrived({ frame, entry }) {
    if (frame !== this.frame.number) return;
    this.entries[this.entries.findIndex((known) => known.name === entry.name)] = { ...entry };
    this.#times();
    this.#askNext();
  }

  #draw() {
    const active = document.activeElement?.dataset?.focus;
    const { value, defaultValue } = document.activeElement ?? {};
    fill(this.node, ...this.entries.map((entry) => this.#line(entry)));
    this.#times();
    if (active && this.node.getRootNode().activeElement?.dataset?.focus !== active) {
      const again = [...this.node.querySelectorAll("[data-focus]")].find((node) => node.dataset.focus === active);
      again?.focus();
      if (again && value !== defaultValue) again.value = value; // what is being typed stays
    }
  }

  // What is known of each call, written into the lines that are there: a button replaced under the pointer loses its click.
  #times() {
    const times = this.entries.map((entry) => entry.call_us).filter((time) => time !== null);
    const [best, worst] = [Math.min(...times), Math.max(...times)];
    this.entries.forEach((entry, at) => {
      const line = this.node.children[at];
      const time = line.querySelector(".wb-policy-time");
      line.title = entry.problem;
      time.textContent = entry.problem ? "no plan" : entry.text || "\u00b7";
      time.classList.toggle("wb-best", entry.call_us === best);
      line.querySelector(".wb-policy-bar").style.width = `${entry.call_us === null ? 0 : (100 * entry.call_us) / worst}%`;
    });
  }

  #line(entry) {
    const { settings } = this.frame;
    const side = (letter, name) => {
      const on = settings[name] === entry.name;
      return el("button", {
        type: "button", className: `wb-pick wb-pick-${letter.toLowerCase()}`, "aria-pressed": on,
        "aria-label": `Show ${entry.title} as ${letter}`, "data-focus": `${letter} ${entry.base}`,
        on: { click: () => this.link.set({ [name]: entry.name }) },
      }, letter);
    };
    return el("div", { className: "wb-policy" },
      side("A", "policy_a"), side("B", "policy_b"),
      el("span", { className: "wb-policy-name", title: entry.title }, entry.title),
      entry.parameter === null ? null : this.#parameter(entry),
      el("span", { className: "wb-policy-time", "data-policy": entry.name }), el("span", { className: "wb-policy-bar" }));
  }

  #parameter(entry) {
    const input = el("input", {
      type: "text", inputmode: "numeric", value: entry.parameter, "data-focus": `parameter ${entry.base}`,
      "aria-label": `Parameter of ${entry.title}`, size: Math.max(2, String(entry.parameter).length),
    });
    const [low, high] = this.ranges[entry.base];
    const commit = () => {
      const typed = numberIn(input);
      const value = Number.isFinite(typed) ? Math.min(Math.max(Math.round(typed), low), high) : entry.parameter;
      input.value = value;
      if (value !== entry.parameter) this.link.queue({ kind: "parameter", policy: entry.name, value });
    };
    input.addEventListener("change", commit);
    onEnter(input, commit);
    return input;
  }
}
