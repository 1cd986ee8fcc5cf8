// A study: what it tries, how far it is, what it found, and the default that comes of it.

import { el, fill, show } from "./dom.js";
import { row, segmented } from "./fields.js";
import { isOfStudy, numberField } from "./tiles_controls.js";

export class TilesStudy {
  constructor(link, constants) {
    this.link = link;
    this.method = segmented("Search", constants.methods.map((name) => [name, name]), (method) => link.set({ method }));
    this.most = numberField("Configurations to try", (most) => link.set({ most }));
    this.part = segmented("What is tried: anything, or only what could be the default", [["false", "anything"], ["true", "applicable"]], (value) => link.set({ applicable: value === "true" }));
    this.settings = el("div", { className: "wb-t-plan" }, row("Search", this.method), row("Configurations", this.most), row("Try", this.part));
    this.buttons = el("span", { className: "wb-t-actions" });
    this.bar = el("progress", { max: 1, value: 0, "aria-label": "Trials finished" });
    this.counts = el("span", { className: "wb-muted wb-t-counts" });
    this.words = el("p", { className: "wb-hint", role: "status" });
    this.verdict = el("p", { className: "wb-t-verdict" });
    this.apply = el("button", { type: "button", on: { click: () => link.queue({ kind: "act", action: "apply" }) } }, "Apply as the default");
    this.failures = el("details", {}, el("summary", {}), el("ul", {}));
    this.fault = el("pre", { className: "wb-fault", role: "alert", hidden: true });
    this.node = el("section", { className: "wb-t-study" }, el("h4", {}, "Study"),
      el("div", { className: "wb-t-run" }, this.settings, el("div", { className: "wb-t-state" }, el("div", { className: "wb-t-line" }, this.buttons, this.bar, this.counts), this.words, el("div", { className: "wb-t-line" }, this.verdict, this.apply), this.failures, this.fault)));
  }

  show({ study, settings, fault }) {
    const { actions, share, counts, eta, failed, failures, unavailable, words, verdict, status, total } = study;
    this.method.show(settings.method);
    this.part.show(settings.applicable);
    this.most.show(String(settings.most));
    show(this.settings, !unavailable);
    const key = JSON.stringify(actions);
    if (key !== this.key) {
      fill(this.buttons, ...actions.map(([action, title]) => el("button", { type: "button", "data-action": action, className: action === "start" || action === "resume" ? "wb-t-main" : "", on: { click: () => this.link.queue({ kind: "act", action }) } }, title)));
      this.key = key;
    }
    show(this.bar, total > 0 && !["idle", "finished"].includes(status));
    if (status === "finals" || status === "starting") this.bar.removeAttribute("value");
    else this.bar.value = share;
    fill(this.counts, [counts, failed, eta].filter(Boolean).join(", "));
    fill(this.words, ...(unavailable ? [unavailable, el("br", {}), `A study needs a GPU. Here: ${words}.`] : [words]));
    fill(this.verdict, verdict);
    show(this.verdict, verdict !== "");
    show(this.apply, study.can_apply);
    show(this.failures, failures.length > 0);
    fill(this.failures.firstChild, failed);
    fill(this.failures.lastChild, ...failures.map((each) => el("li", {}, each)));
    const wrong = fault !== null && isOfStudy(fault);
    const said = wrong ? fault.text : study.applied;
    fill(this.fault, said);
    this.fault.classList.toggle("wb-t-good", !wrong);
    show(this.fault, said !== "");
  }
}
