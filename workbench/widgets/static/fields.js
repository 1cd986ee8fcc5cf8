// The three kinds of field: a number with steps, a choice of a few, a menu. Each has `node` and `show(value)`.

import { el, fill } from "./dom.js";

// The number typed into a field, or NaN.
export function numberIn(input) {
  return input.value.trim() === "" ? NaN : Number(input.value.replaceAll(",", ""));
}

// Enter commits what is typed: in a field outside a form it need not count as a change.
export function onEnter(input, commit) {
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    commit();
  });
}

export function stepper(label, range, step, onChange) {
  const [low, high] = range;
  const input = el("input", { type: "text", inputmode: "numeric", "aria-label": label, autocomplete: "off" });
  let shown = "";
  const commit = (value) => {
    if (!Number.isFinite(value)) return void (input.value = shown);
    input.value = Math.min(high, Math.max(low, Math.round(value)));
    if (input.value !== shown) onChange(Number(input.value));
    shown = input.value;
    return undefined;
  };
  const move = (by) => commit(Number(input.value) + by * step);
  const typed = () => commit(numberIn(input));
  input.addEventListener("change", typed);
  onEnter(input, typed);
  input.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowUp" && event.key !== "ArrowDown") return;
    event.preventDefault();
    move(event.key === "ArrowUp" ? 1 : -1);
  });
  const button = (text, by, name) =>
    el("button", { type: "button", "aria-label": `${name} ${label}`, tabindex: -1, on: { click: () => move(by) } }, text);
  const node = el("span", { className: "wb-stepper" }, button("\u2212", -1, "less"), input, button("+", 1, "more"));
  const show = (value) => {
    shown = String(value);
    if (document.activeElement !== input) input.value = value;
  };
  return { node, show };
}

export function segmented(label, options, onChange) {
  const buttons = options.map(([value, text]) =>
    el("button", { type: "button", role: "radio", "data-value": value, on: { click: () => onChange(value) } }, text));
  const node = el("span", { className: "wb-segmented", role: "radiogroup", "aria-label": label }, ...buttons);
  node.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
    if (!by) return;
    event.preventDefault();
    event.stopPropagation();
    const at = buttons.indexOf(event.target);
    const next = buttons[(at + by + buttons.length) % buttons.length];
    next.focus();
    next.click();
  });
  const show = (value) => {
    for (const button of buttons) {
      const chosen = button.dataset.value === String(value);
      button.setAttribute("aria-checked", chosen);
      button.tabIndex = chosen ? 0 : -1;
    }
  };
  return { node, show };
}

export function menu(label, options, onChange) {
  const select = el("select", { "aria-label": label });
  const node = el("span", { className: "wb-menu" }, select);
  let shown = "";
  const offer = (items) => {
    if (JSON.stringify(items) === shown) return;
    shown = JSON.stringify(items);
    fill(select, ...items.map(([value, text]) => el("option", { value }, text)));
  };
  offer(options);
  select.addEventListener("change", () => onChange(select.value));
  return { node, offer, show: (value) => { select.value = value; } };
}

// A row: a label, the key that changes it, and the field.
export function row(label, field, key = null) {
  const name = el("span", { className: "wb-label" }, label, key ? el("kbd", {}, key) : null);
  return el("div", { className: "wb-row" }, name, field.node);
}
