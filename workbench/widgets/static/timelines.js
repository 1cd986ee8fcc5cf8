// The choice of a timeline: what is laid over the plans, how, and what could be under other settings.

import { el, fill, show } from "./dom.js";
import { menu, row, segmented } from "./fields.js";

export class Timelines {
  constructor(link, constants) {
    this.link = link;
    this.choice = menu("Timeline", [["none", "none"]], (timeline) => link.set({ timeline }));
    this.lanes = segmented("Lanes", constants.lanes.map(([value, text]) => [value, { both: "Both", measured: "Meas.", planned: "Plan" }[value] ?? text]),
      (lanes) => link.set({ lanes }));
    this.rows = row("Lanes", this.lanes, "m");
    this.note = el("p", { className: "wb-hint", role: "status", hidden: true });
    this.offers = el("div", { className: "wb-offers", hidden: true });
    this.node = el("div", {}, row("Shown", this.choice, "t"), this.rows, this.note, this.offers);
    this.options = [["none", "none"]];
  }

  show({ settings, scene }) {
    this.settings = settings;
    if (!this.options.some(([value]) => value === settings.timeline)) this.options = [...this.options, [settings.timeline, settings.timeline]];
    this.choice.offer(this.options);
    this.choice.show(settings.timeline);
    this.lanes.show(settings.lanes);
    show(this.rows, Boolean(scene?.measured.length));
    if (scene?.measured.length) this.#say("", []);
  }

  // What Python found in the records after the frame was drawn.
  arrived({ options, note, offers }) {
    this.options = options;
    this.choice.offer(options);
    this.choice.show(this.settings.timeline);
    this.#say(note, offers);
  }

  // The next option; does nothing where there is but one.
  next() {
    const values = this.options.map(([value]) => value);
    const value = values[(values.indexOf(this.settings.timeline) + 1) % values.length];
    if (value !== this.settings.timeline) this.link.set({ timeline: value });
  }

  #say(note, offers) {
    fill(this.note, note);
    show(this.note, note !== "");
    fill(this.offers, ...offerButtons(this.link, offers));
    show(this.offers, offers.length > 0);
  }
}

// Buttons that change settings to those under which there is something to see.
export function offerButtons(link, offers) {
  return offers.map(({ label, changes }) =>
    el("button", { type: "button", className: "wb-offer", on: { click: () => link.set(changes) } }, label));
}
