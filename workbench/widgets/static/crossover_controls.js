// The left column: router, precision, figures, providers, traffic.

import { el, fill, show } from "./dom.js";
import { menu, onEnter, row, segmented, stepper } from "./fields.js";
import { svg } from "./crossover_axes.js";

const OWN = "\u0000own";

export class CrossoverControls {
  constructor(link, constants) {
    this.link = link;
    this.constants = constants;
    const change = (name) => (value) => link.set({ [name]: value });
    this.router = menu("Router", [], (value) => (value === OWN ? this.shape.focus() : link.set({ router: value })));
    this.shape = el("input", { type: "text", placeholder: "K,N", "aria-label": "K and N of another router", spellcheck: "false", autocomplete: "off" });
    let sent = ""; // leaving the field after Enter is no second change
    const typed = () => {
      const text = this.shape.value.trim();
      if (text && text !== sent) link.set({ router: text });
      sent = text;
    };
    this.shape.addEventListener("change", typed);
    onEnter(this.shape, typed);
    this.precision = segmented("Least accurate class", constants.classes.map(([name, title]) => [name, title]), change("precision"));
    this.bound = el("p", { className: "wb-hint" });
    this.figures = segmented("Figures", constants.modes, change("figures"));
    this.gpu = menu("GPU of the records", [], change("gpu"));
    this.action = el("button", { type: "button", className: "wb-cross-action", on: { click: () => this.#act() } });
    this.bar = el("progress", { max: 1, value: 0, "aria-label": "Points measured" });
    this.count = el("span", { className: "wb-muted" });
    this.words = el("p", { className: "wb-hint", role: "status" });
    this.live = el("div", { className: "wb-cross-live" }, el("div", { className: "wb-row" }, this.action, this.count), this.bar, this.words);
    this.providers = el("div", { className: "wb-cross-providers", role: "group", "aria-label": "Providers to compare" });
    this.traffic = menu("Traffic", [], change("traffic"));
    this.mixed = segmented("Prefill and decode", [["false", "apart"], ["true", "mixed"]], (value) => link.set({ mixed: value === "true" }));
    this.batch = stepper("Largest batch", constants.max_batch, 16, change("max_batch"));
    this.mixedRow = row("Passes", this.mixed);
    this.batchRow = row("Max batch", this.batch);
    this.faults = {};
    this.node = el("div", { className: "wb-controls", role: "group", "aria-label": "Settings" },
      this.#section("Router", "router", this.router.node, el("div", { className: "wb-cross-shape" }, this.shape)),
      this.#section("Precision", "precision", this.precision.node, this.bound),
      this.#section("Figures", "figures", this.figures.node, this.gpu.node, this.live),
      this.#section("Compare", "providers", this.providers),
      this.#section("Traffic", "traffic", this.traffic.node, this.mixedRow, this.batchRow));
  }

  #section(title, name, ...content) {
    this.faults[name] = el("pre", { className: "wb-fault", role: "alert", hidden: true });
    return el("section", { className: `wb-cross-section-${name}` }, el("h4", {}, title), ...content, this.faults[name]);
  }

  #act() {
    this.link.queue({ kind: "live", action: this.action.dataset.action === "cancel" ? "cancel" : "start" });
  }

  show(frame, theme, styles) {
    const { settings, live, fault } = frame;
    const own = settings.own_router ? [[OWN, `K,N: ${settings.own_router}`]] : [];
    this.router.offer([...this.constants.routers, ...own]);
    this.router.show(settings.own_router ? OWN : settings.router);
    if (document.activeElement !== this.shape) this.shape.value = settings.own_router;
    this.precision.show(settings.precision);
    fill(this.bound, this.constants.classes.find(([name]) => name === settings.precision)[2]);
    this.figures.show(settings.figures);
    const recorded = settings.figures === "recorded";
    const known = settings.gpus.map((name) => [name, name]);
    const listed = settings.gpus.find((name) => name === settings.gpu || name.endsWith(settings.gpu)) ?? settings.gpu;
    this.gpu.offer(settings.gpus.includes(listed) ? known : [[listed, listed], ...known]);
    this.gpu.show(listed);
    show(this.gpu.node, recorded);
    this.#live(live, recorded);
    fill(this.providers, ...settings.providers.map((provider) => this.#provider(provider, settings, theme, styles)));
    this.traffic.offer(settings.traffics);
    this.traffic.show(settings.traffic);
    this.mixed.show(settings.mixed);
    this.batch.show(settings.max_batch);
    show(this.mixedRow, settings.passes);
    show(this.batchRow, settings.simulated);
    const place = { mixed: "traffic", max_batch: "traffic", gpu: "figures", live: "figures" }[fault?.field] ?? fault?.field;
    for (const [name, node] of Object.entries(this.faults)) {
      fill(node, name === place ? fault.text : "");
      show(node, name === place);
    }
  }

  #live({ status, done, total, words, action, unavailable }, recorded) {
    show(this.live, !recorded || status !== "idle" || !unavailable);
    const titles = { measure: "Measure here", cancel: "Cancel", resume: "Resume" };
    this.action.dataset.action = action;
    this.action.disabled = action === "";
    fill(this.action, titles[action] ?? (status === "finished" ? "Finished" : status === "stopping" ? "Stopping" : "Measure here"));
    fill(this.count, total ? `${done} of ~${total} points` : "");
    show(this.bar, total > 0 || status === "running");
    if (total) this.bar.value = done / total;
    else this.bar.removeAttribute("value");
    fill(this.words, unavailable && !words ? unavailable : words);
  }

  #provider({ name, title, class: own, compared, allowed, mark, origin }, settings, theme, styles) {
    const box = el("input", { type: "checkbox", checked: compared });
    box.addEventListener("change", () => {
      const on = settings.providers.filter((each) => (each.name === name ? box.checked : each.compared)).map((each) => each.name);
      this.link.set({ providers: on.length === settings.providers.length ? null : on });
    });
    const style = styles[name];
    const line = svg("svg", { width: 22, height: 8, "aria-hidden": true },
      svg("path", { d: "M0 4h22", stroke: style?.[theme.name] ?? theme.muted, "stroke-width": 2, "stroke-dasharray": style?.dash || null }));
    return el("label", { className: `wb-cross-provider${compared && allowed ? "" : " wb-cross-off"}`, title: compared && !allowed ? `less accurate than ${settings.precision}; ${origin}` : origin, "data-provider": name },
      box, line, el("span", {}, title), el("span", { className: "wb-muted wb-right" }, `${own} ${mark}`));
  }
}
