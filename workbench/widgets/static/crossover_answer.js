// The answer above the chart: a sentence, and every rule with its price.

import { el, fill, show } from "./dom.js";

const PRESETS = [["best choice", null, "the best choice"], ["table in use", "in use", "the table in use"], ["one threshold", "one", "the best single threshold"]];

export class CrossoverAnswer {
  constructor(link) {
    this.link = link;
    this.header = el("span", { className: "wb-facts" });
    this.sentence = el("p", { className: "wb-sentence", "aria-live": "polite" });
    this.table = el("table", { className: "wb-cross-table" });
    this.fault = el("p", { className: "wb-fault", role: "alert", hidden: true });
    this.buttons = PRESETS.map(([key, value, title]) =>
      el("button", { type: "button", className: "wb-quiet", "data-preset": key, title: `Make ${title} the rule`, on: { click: () => link.set({ thresholds: value }) } }, key));
    this.presets = el("div", { className: "wb-cross-presets", role: "group", "aria-label": "Start from" }, el("span", { className: "wb-muted" }, "Start from"), ...this.buttons);
    this.footer = el("span", {});
    this.node = el("div", { className: "wb-answer" }, this.sentence, this.table, this.presets, this.fault);
  }

  show(frame, hue) {
    const { answer, fault, header, footer, live } = frame;
    fill(this.header, ...header.map((fact) => el("span", {}, fact)));
    fill(this.footer, ...footer.map((text) => el("span", {}, text)));
    show(this.table, answer !== null);
    show(this.presets, answer !== null);
    show(this.fault, fault?.field === "thresholds");
    fill(this.fault, fault?.field === "thresholds" ? fault.text : "");
    if (answer === null) {
      const words = live.status === "running" ? "The first points are being measured." : live.unavailable || "Nothing was measured yet: press Measure here.";
      fill(this.sentence, words);
      return;
    }
    fill(this.sentence, ...answer.sentence.map(({ text, kind, provider }) => {
      if (kind === "strong") return el("strong", {}, text);
      return kind === "provider" ? el("span", { className: "wb-cross-named" }, el("i", { className: "wb-cross-dot", style: { background: hue(provider) } }), text) : text;
    }));
    const heads = answer.headings.map((words, at) => el("th", { scope: "col", className: `wb-ccol-${at}` }, words));
    fill(this.table, el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...answer.rows.map((row) => this.#row(row))));
    for (const button of this.buttons) button.setAttribute("aria-pressed", button.dataset.preset === "best choice" && !answer.own);
  }

  #row({ key, title, cost, lost, interval, a_pass, share, low, high, problem, ours }) {
    const name = el("th", { scope: "row", title }, title);
    if (problem) return el("tr", { "data-rule": key }, name, el("td", { colspan: 5, className: "wb-cross-problem", title: problem }, problem));
    const bar = el("div", { className: "wb-fbar", "aria-hidden": true }, el("i", { style: { width: `${100 * share}%` } }),
      high > low ? el("s", { style: { left: `${100 * low}%`, width: `${100 * (high - low)}%` } }) : null);
    return el("tr", { "data-rule": key, className: ours ? "wb-cross-ours" : "" }, name, el("td", {}, cost), el("td", { className: "wb-ccol-2" }, bar),
      el("td", { "data-lost": key }, lost), el("td", { className: "wb-muted wb-ccol-4" }, interval), el("td", { className: "wb-ccol-5" }, a_pass));
  }
}
