// Keys that work anywhere in the widget, and the card that lists them.

import { isTyping } from "./dom.js";
import { Help } from "./shell.js";

const LIST = [
  ["\u2190 \u2192", "next CTA (in a chart)"], ["\u2191 \u2193", "chunk in the CTA"], ["Enter", "select the chunk's request"],
  ["z", "zoom to the selected request, and back"], ["+ \u2212", "zoom in and out; Ctrl + wheel too"], ["Esc", "close, zoom out"],
  ["[ ]", "step back, step on"], ["p n", "previous, next bad step"], ["Space", "play, pause"],
  ["o", "order of the CTAs"], ["u", "\u00b5s or tiles"], ["y", "shared scale or own"],
  ["t", "next timeline"], ["m", "measured, plan, or both"], ["r", "all recorded times"], ["?", "this list"],
];

export class Keys {
  constructor(root, link, constants, { panels, strip, timelines, figures }) {
    this.help = new Help(LIST, "Drag across the bins to zoom, across the trace to compare a range. Click a chunk to select its request.");
    const cycle = (name, options) => {
      const values = options.map(([value]) => value);
      const next = values[(values.indexOf(link.frame.settings[name]) + 1) % values.length];
      link.set({ [name]: next });
    };
    const actions = {
      o: () => cycle("order", constants.orders), u: () => cycle("unit", constants.units), y: () => cycle("scale", constants.scales),
      t: () => timelines.next(), m: () => link.frame.scene.measured.length && cycle("lanes", constants.lanes), r: () => figures.toggle(),
      z: () => panels.zoomToSelection(), "+": () => panels.zoomBy(0.5), "=": () => panels.zoomBy(0.5), "-": () => panels.zoomBy(2),
      "[": () => strip.move(-1), "]": () => strip.move(1), p: () => strip.bad(-1), n: () => strip.bad(1), " ": () => strip.play(),
      "?": () => this.help.toggle(), Escape: () => (this.help.open ? this.help.toggle(false) : panels.clear()),
    };
    root.addEventListener("keydown", (event) => {
      const action = actions[event.key];
      if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key !== "Escape" && (isTyping(event.target) || (event.key === " " && event.target.closest("button")))) return;
      if (link.frame.scene === null && event.key !== "?" && event.key !== "Escape") return;
      if (" []pn".includes(event.key) && link.frame.strip === null) return;
      event.preventDefault();
      event.stopPropagation();
      action();
    });
  }
}
