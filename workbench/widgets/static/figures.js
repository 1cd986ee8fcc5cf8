// What records hold of the workload: times of ours and of others, each with its source.

import { badge, el, fill, show } from "./dom.js";
import { offerButtons } from "./timelines.js";

const IDLE_MS = 300; // longer than a step takes while a trace is played or a slider moved

export class Figures {
  constructor(link) {
    this.link = link;
    this.all = false;
    this.onTimelines = () => {};
    this.sentence = el("span", { className: "wb-figures-words", role: "status" });
    this.more = el("button", { type: "button", className: "wb-quiet", on: { click: () => this.toggle() } });
    this.offers = el("span", { className: "wb-offers" });
    this.table = el("table", { className: "wb-figures-table" });
    this.note = el("p", { className: "wb-hint", hidden: true });
    this.node = el("section", { className: "wb-figures", "aria-label": "Recorded times", hidden: true },
      el("div", { className: "wb-figures-head" }, el("b", {}, "Recorded"), this.sentence, this.offers, el("span", { className: "wb-right" }), this.more),
      this.table, this.note);
    link.listen("figures", (content) => this.#arrived(content));
  }

  // What was said of another screen is greyed until this one's answer is here; a step that is passed over asks for nothing.
  show(frame) {
    this.frame = frame;
    show(this.node, frame.scene !== null && Boolean(this.card));
    clearTimeout(this.timer);
    const fresh = frame.settings.records_key === this.key;
    this.node.setAttribute("aria-busy", !fresh);
    if (frame.scene && !fresh) this.timer = setTimeout(() => this.#ask(), IDLE_MS);
  }

  close() {
    clearTimeout(this.timer);
  }

  #ask() {
    if (this.link.unsettled) return;
    this.link.ask("figures", { frame: this.frame.number });
  }

  toggle() {
    this.all = !this.all;
    this.#draw();
  }

  #arrived({ frame, card, timelines }) {
    if (frame !== this.frame.number) return;
    this.onTimelines(timelines);
    this.card = card;
    this.key = this.frame.settings.records_key;
    this.node.setAttribute("aria-busy", false);
    show(this.node, true);
    this.#draw();
  }

  #draw() {
    const { sentence, detail, lines, offers, problem, mark } = this.card;
    fill(this.sentence, sentence);
    this.sentence.title = detail;
    fill(this.offers, ...offerButtons(this.link, offers));
    const shown = lines.filter(({ brief }) => brief || this.all);
    const hidden = lines.length - lines.filter(({ brief }) => brief).length;
    show(this.more, hidden > 0);
    fill(this.more, this.all ? "fewer" : `${hidden} more`, " ", el("kbd", {}, "r"));
    show(this.table, lines.length > 0);
    fill(this.table, ...(lines.length ? [this.#heading(mark), el("tbody", {}, ...shown.map((line) => this.#line(line)))] : []));
    fill(this.note, problem);
    show(this.note, problem !== "");
  }

  #heading(mark) {
    const titles = ["", "\u00b5s a call", "", "95 %", "error", `${mark} modelled`, "from"];
    return el("thead", {}, el("tr", {}, ...titles.map((title, at) => el("th", { scope: "col", className: `wb-fcol-${at}` }, title))));
  }

  #line(line) {
    const marks = [...line.key].map((key) => badge(key));
    const bar = el("div", { className: `wb-fbar wb-fbar-${line.kind}`, "aria-hidden": true },
      el("i", { style: { width: `${100 * line.share}%` } }),
      line.high > line.low ? el("s", { style: { left: `${100 * line.low}%`, width: `${100 * (line.high - line.low)}%` } }) : null);
    return el("tr", { className: `wb-figure-${line.kind}`, "data-figure": line.title },
      el("th", { scope: "row", title: line.detail }, el("span", { className: "wb-name" }, line.title), ...marks),
      el("td", { className: "wb-fcol-1" }, line.median), el("td", { className: "wb-fcol-2" }, bar),
      el("td", { className: "wb-fcol-3 wb-muted" }, line.interval), el("td", {}, line.error),
      el("td", {}, line.modelled), el("td", { className: "wb-fcol-6 wb-muted", title: `${line.source}. ${line.detail}` }, line.source));
  }
}
