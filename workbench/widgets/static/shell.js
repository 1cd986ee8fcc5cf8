// What stands around every widget's content: header, the line to Python, shortcuts, theme and width.

import { el, show } from "./dom.js";
import { watchTheme } from "./theme.js";

// The list of keys with its button; `keys` are pairs of keys and what they do.
export class Help {
  constructor(keys, ...notes) {
    const list = keys.flatMap(([names, words]) => [el("dt", {}, ...names.split(" ").map((name) => el("kbd", {}, name))), el("dd", {}, words)]);
    const close = el("button", { type: "button", className: "wb-close", "aria-label": "Close", on: { click: () => this.toggle(false) } }, "\u00d7");
    this.node = el("div", { className: "wb-help", role: "dialog", "aria-label": "Shortcuts", hidden: true },
      el("h4", {}, "Shortcuts"), close, el("dl", {}, ...list), ...notes.map((words) => el("p", { className: "wb-muted" }, words)));
    this.button = el("button", { type: "button", className: "wb-quiet", on: { click: () => this.toggle() } }, "Shortcuts ", el("kbd", {}, "?"));
  }

  get open() {
    return !this.node.hidden;
  }

  toggle(open = !this.open) {
    show(this.node, open);
    (open ? this.node.querySelector("button") : this.button).focus();
  }
}

export class Shell {
  // `below`: classes of the whole by the width below which it has them; `mainBelow`: by the room of its content.
  constructor(root, link, constants, { below, mainBelow = {}, leastRoom, colours, draw }) {
    Object.assign(this, { root, link, below, mainBelow, leastRoom, theme: null, width: 0, content: draw });
    this.slow = el("span", { className: "wb-status", role: "status", hidden: true }, "waiting for the kernel");
    this.lost = el("span", { className: "wb-status wb-lost", role: "alert", hidden: true }, "no kernel behind this view: run its cell again");
    this.constants = constants;
    this.colours = colours;
    link.onSlow = (waiting) => show(this.slow, waiting);
    link.onLost = () => {
      show(this.slow, false);
      show(this.lost, true);
    };
  }

  // Fills the root, puts it on the page, and draws as soon as theme and width are known.
  open(host, { title, facts, tools, side, main, footer, help }) {
    this.root.append(
      el("header", { className: "wb-header" }, el("b", {}, title), facts, el("span", { className: "wb-right" }), this.slow, this.lost, ...tools),
      el("div", { className: "wb-body" }, side, main), footer, help);
    // The picture for readers without a kernel is not for those who see this view.
    const { picture, themes } = this.constants;
    host.append(el("style", {}, `.jp-OutputArea-child:has(.${picture}), .${picture} { display: none; }`), this.root);
    this.unwatch = watchTheme(this.root, themes, (theme) => {
      this.theme = theme;
      for (const [name, colour] of Object.entries(this.colours(theme))) this.root.style.setProperty(`--wb-${name}`, colour);
      this.draw();
    });
    this.resized = new ResizeObserver(() => this.#resize(main));
    this.resized.observe(this.root);
  }

  #resize(main) {
    const mark = (classes, width) => Object.entries(classes).forEach(([name, limit]) => this.root.classList.toggle(name, width < limit));
    mark(this.below, this.root.clientWidth);
    const style = getComputedStyle(main);
    const room = Math.floor(Math.max(main.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight), this.leastRoom));
    mark(this.mainBelow, room);
    if (room === this.width) return;
    this.width = room;
    this.draw();
  }

  draw() {
    if (!this.theme || this.width === 0) return;
    const started = performance.now();
    const { frame } = this.link;
    this.content(frame, this.theme, this.width);
    this.root.dataset.frame = frame.number;
    this.root.dispatchEvent(new CustomEvent("wb-drawn", { detail: { number: frame.number, started, ended: performance.now() } }));
  }

  close() {
    this.resized.disconnect();
    this.unwatch();
    this.link.close();
  }
}
