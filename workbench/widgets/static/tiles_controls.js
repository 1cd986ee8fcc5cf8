// The left column: operator, workload, GPU, and a slider or a choice for each parameter.

import { el, fill, show } from "./dom.js";
import { menu, numberIn, onEnter, row, segmented } from "./fields.js";

const OWN = "\u0000own";
const FEW = 2; // values that are offered as buttons instead of a slider

// What is wrong with a study is told beside it, everything else below the settings.
export function isOfStudy({ field }) {
  return ["study", "method", "most", "applicable"].includes(field);
}

// A text that is sent when it is left or Enter is pressed, once.
function textField(label, placeholder, onChange) {
  const input = el("input", { type: "text", placeholder, "aria-label": label, spellcheck: "false", autocomplete: "off" });
  let sent = null;
  const commit = () => {
    const text = input.value.trim();
    if (text && text !== sent) onChange(text);
    sent = text;
  };
  input.addEventListener("change", commit);
  onEnter(input, commit);
  const display = (value) => {
    if (document.activeElement !== input) input.value = value;
    if (document.activeElement !== input) sent = value;
  };
  return { node: input, show: display };
}

// A whole number; anything else that is typed goes to Python as it is, which says what cannot be.
export function numberField(label, onChange) {
  const field = textField(label, "", (text) => {
    const number = numberIn(field.node);
    onChange(Number.isInteger(number) ? number : text);
  });
  field.node.setAttribute("inputmode", "numeric");
  field.node.classList.add("wb-t-number");
  return field;
}

export class TilesControls {
  constructor(link, constants) {
    this.link = link;
    this.constants = constants;
    const change = (name) => (value) => link.set({ [name]: value });
    const truth = (name) => (value) => link.set({ [name]: value === "true" });
    this.operator = segmented("Operator", constants.operators, change("operator"));
    this.cases = menu("Batch", [], (value) => (value === OWN ? this.lengths.node.focus() : link.set({ lengths: value })));
    this.lengths = textField("KV lengths", "64x4K + 2x32K", change("lengths"));
    this.fields = {
      cache: segmented("Cache", constants.caches, change("cache")),
      group: numberField("Query heads a KV head", change("group")),
      kv_heads: numberField("KV heads", change("kv_heads")),
      q_len: numberField("Query tokens a request", change("q_len")),
      m: numberField("Tokens M", change("m")),
      terms: segmented("Terms of the weight", [["2", "2"], ["3", "3"]], (value) => link.set({ terms: Number(value) })),
      whole: segmented("Values", [["false", "usual"], ["true", "all"]], truth("whole")),
    };
    this.routers = menu("Router", constants.routers, (value) => (value === OWN ? this.shape.node.focus() : link.set({ router: value })));
    this.shape = textField("K and N of another router", "K,N", change("router"));
    this.gpu = menu("GPU", constants.gpus.map((name) => [name, name]), change("gpu"));
    const { cache, group, kv_heads: heads, q_len: query, m, terms } = this.fields;
    this.attention = el("div", {}, this.cases.node, el("div", { className: "wb-t-text" }, this.lengths.node),
      row("Cache", cache), row("Group", group), row("KV heads", heads), row("Query tokens", query));
    this.router = el("div", {}, this.routers.node, el("div", { className: "wb-t-text" }, this.shape.node), row("Tokens M", m), row("Terms", terms));
    this.list = el("div", { className: "wb-t-parameters" });
    this.sliders = new Map();
    this.reset = el("button", { type: "button", className: "wb-quiet wb-right", on: { click: () => this.#default() } }, "default");
    this.fault = el("pre", { className: "wb-fault", role: "alert", hidden: true });
    this.node = el("div", { className: "wb-controls", role: "group", "aria-label": "Settings" },
      el("section", { className: "wb-t-work" }, el("h4", {}, "Operator"), this.operator.node, el("div", { className: "wb-t-gap" }), this.attention, this.router,
        row("GPU", this.gpu), this.fault),
      el("section", { className: "wb-t-section" }, el("h4", {}, "Parameters", this.reset), this.list, el("div", { className: "wb-t-gap" }), row("Values offered", this.fields.whole)));
  }

  #default() {
    this.link.set({ values: Object.fromEntries(this.parameters.map(({ name, values, default: at }) => [name, values[at]])) });
  }

  show(frame) {
    const { settings, parameters, fault } = frame;
    this.parameters = parameters;
    const attention = settings.operator === "attention";
    this.operator.show(settings.operator);
    show(this.attention, attention);
    show(this.router, !attention);
    this.#offer(this.cases, this.lengths, this.constants.cases.map((name) => [name, name]), settings.lengths);
    this.#offer(this.routers, this.shape, this.constants.routers, settings.router);
    for (const [name, field] of Object.entries(this.fields)) field.show(String(settings[name]));
    this.gpu.show(settings.gpu);
    const key = JSON.stringify(parameters.map(({ name, values }) => [name, values]));
    if (key !== this.key) {
      this.sliders = new Map(parameters.map((each) => [each.name, each.values.length > FEW ? this.#slider(each) : this.#choice(each)]));
      fill(this.list, ...[...this.sliders.values()].map(({ node }) => node));
      this.key = key;
    }
    for (const each of parameters) this.sliders.get(each.name).show(each);
    const own = fault !== null && !isOfStudy(fault);
    fill(this.fault, own ? fault.text : "");
    show(this.fault, own);
  }

  #offer(field, text, known, value) {
    const own = known.some(([name]) => name === value) ? [] : [[OWN, value]];
    field.offer([...known, ...own]);
    field.show(own.length ? OWN : value);
    text.show(own.length ? value : "");
  }

  #send(name, value) {
    this.link.set({ values: { ...Object.fromEntries(this.parameters.map((each) => [each.name, each.values[this.sliders.get(each.name).at()]])), [name]: value } });
  }

  #slider({ name, meaning, values }) {
    const value = el("b", {});
    const input = el("input", { type: "range", min: 0, max: values.length - 1, step: 1, "aria-label": `${name}: ${meaning}`, "data-parameter": name });
    const ticks = el("div", { className: "wb-t-ticks", "aria-hidden": true });
    const node = el("div", { className: "wb-t-slider", title: meaning }, el("div", { className: "wb-t-name" }, el("span", {}, name), value), input, ticks);
    let words = [];
    input.addEventListener("input", () => {
      fill(value, words[input.valueAsNumber]);
      this.#send(name, values[input.valueAsNumber]);
    });
    const display = (each) => {
      words = each.words;
      if (!this.link.unsettled) input.value = each.at;
      fill(value, words[input.valueAsNumber]);
      const reason = each.reasons[each.at];
      input.setAttribute("aria-valuetext", `${each.words[each.at]}${reason ? `, cannot run: ${reason}` : ""}`);
      fill(ticks, ...values.map((_, at) => el("i", {
        className: `${each.reasons[at] ? "wb-t-refused" : ""} ${at === each.default ? "wb-t-default" : ""}`, "data-at": at,
        title: `${each.words[at]}${at === each.default ? ", the default" : ""}${each.reasons[at] ? `: ${each.reasons[at]}` : ""}`,
        style: { left: `${(100 * at) / (values.length - 1)}%` } })));
    };
    return { node, show: display, at: () => input.valueAsNumber };
  }

  #choice({ name, meaning, values, words }) {
    const field = segmented(`${name}: ${meaning}`, values.map((_, at) => [String(at), words[at]]), (at) => {
      now = Number(at);
      field.show(at);
      this.#send(name, values[now]);
    });
    let now = 0;
    const node = el("div", { className: "wb-t-slider wb-t-choice", title: meaning, "data-parameter": name }, el("div", { className: "wb-t-name" }, el("span", {}, name)), field.node);
    const display = (each) => {
      if (!this.link.unsettled) now = each.at;
      node.classList.toggle("wb-t-only", values.length === 1);
      field.show(now);
      [...field.node.children].forEach((button, at) => {
        button.classList.toggle("wb-t-refused", Boolean(each.reasons[at]));
        button.title = `${each.words[at]}${at === each.default ? ", the default" : ""}${each.reasons[at] ? `: ${each.reasons[at]}` : ""}`;
      });
    };
    return { node, show: display, at: () => now };
  }
}
