// The left column: filters, the figure, the parameter.

import { el, fill, show } from "./dom.js";
import { menu, onEnter } from "./fields.js";

const MENUS = [["operator", "Operator"], ["case", "Case"], ["gpu", "GPU"], ["policy", "Policy"], ["provider", "Provider"], ["set", "Set of metrics"]];
const CLEAR = { operator: "", case: "", gpu: "", provider: "", policy: "", set: "", config: "", since: "", until: "" };

export class Filters {
  constructor(link) {
    this.link = link;
    this.menus = MENUS.map(([name, title]) => [name, menu(title, [], (value) => link.set({ [name]: value }))]);
    this.config = el("input", { type: "text", "aria-label": "Configuration, kernel or note", placeholder: "stages=3", spellcheck: "false", autocomplete: "off" });
    const typed = () => this.config.value.trim() !== this.sent && link.set({ config: (this.sent = this.config.value.trim()) });
    this.config.addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = setTimeout(typed, 250);
    });
    onEnter(this.config, typed);
    this.days = ["since", "until"].map((name) => {
      const field = el("input", { type: "date", "aria-label": name === "since" ? "Captured since" : "Captured until" });
      field.addEventListener("change", () => link.set({ [name]: field.value }));
      return [name, field];
    });
    this.metric = menu("Figure", [], (value) => link.set({ metric: value }));
    this.parameter = menu("Parameter", [], (value) => link.set({ parameter: value }));
    this.fault = el("pre", { className: "wb-fault", role: "alert", hidden: true });
    this.reset = el("button", { type: "button", className: "wb-quiet wb-right", on: { click: () => this.clear() } }, "clear");
    this.rows = this.menus.map(([, field], at) => el("label", { className: "wb-prof-field" }, MENUS[at][1], field.node));
    this.parameterRow = el("label", { className: "wb-prof-field" }, "Against", this.parameter.node);
    this.node = el("div", { className: "wb-controls", role: "group", "aria-label": "Filters" },
      el("section", { className: "wb-prof-filters" }, el("h4", {}, "Filter", this.reset),
        ...this.rows,
        el("label", { className: "wb-prof-field" }, "Configuration", this.config),
        el("div", { className: "wb-prof-days" }, ...this.days.map(([name, field]) => el("label", { className: "wb-prof-field" }, name === "since" ? "Since" : "Until", field))),
        this.fault),
      el("section", { className: "wb-prof-figure" }, el("h4", {}, "Figure"), this.metric.node, this.parameterRow,
        el("p", { className: "wb-hint" }, "Last column of the table, and the chart against a parameter.")));
  }

  clear() {
    this.sent = "";
    this.link.set({ ...CLEAR });
  }

  focus() {
    this.config.focus();
  }

  show(frame) {
    const { settings, menus, metrics, fault, view } = frame;
    this.menus.forEach(([name, field], at) => {
      show(this.rows[at], menus[name].length > 2 || settings[name] !== "");
      field.offer(menus[name]);
      field.show(settings[name]);
    });
    if (document.activeElement !== this.config) {
      this.config.value = settings.config;
      this.sent = settings.config;
    }
    for (const [name, field] of this.days) if (document.activeElement !== field) field.value = settings[name];
    this.metric.offer(metrics.some(([name]) => name === settings.metric) ? metrics : [...metrics, [settings.metric, `${settings.metric} (none)`]]);
    this.metric.show(settings.metric);
    show(this.parameterRow, view.parameters !== undefined);
    if (view.parameters) {
      this.parameter.offer(view.parameters.map((name) => [name, name]));
      this.parameter.show(settings.parameter);
    }
    show(this.reset, Object.keys(CLEAR).some((name) => settings[name]));
    fill(this.fault, fault?.text ?? "");
    show(this.fault, fault !== null);
  }
}
