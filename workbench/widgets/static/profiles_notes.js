// Notes about the picked captures, and how to open their reports. A note is text: it is never read as markup.

import { el, fill } from "./dom.js";
import { letter } from "./profiles_compare.js";

export class Notes {
  constructor(link) {
    this.link = link;
    this.fields = new Map();
    this.node = el("div", { className: "wb-prof-noted" });
  }

  show(frame, theme) {
    const { captures } = frame.view;
    const keys = captures.map(({ key }) => key).join(" ");
    if (keys !== this.keys) {
      this.keys = keys;
      this.fields.clear();
      fill(this.node, ...captures.map((one, at) => this.#capture(one, at, theme)));
    }
    for (const one of captures) {
      const field = this.fields.get(one.key);
      if (document.activeElement !== field) field.value = one.note;
      field.closest("section").querySelector(".wb-prof-pick").style.background = theme.requests[captures.indexOf(one)];
    }
    if (!captures.length) fill(this.node, el("p", { className: "wb-muted" }, "Pick a capture to write about it."));
  }

  #capture(one, at, theme) {
    const field = el("textarea", { rows: 3, "aria-label": `Note about ${one.letter}`, placeholder: "A note of yours; kept in your own store" });
    field.addEventListener("change", () => this.link.queue({ kind: "note", key: one.key, text: field.value }));
    field.addEventListener("keydown", (event) => event.stopPropagation());
    this.fields.set(one.key, field);
    const copy = (text) => el("button", { type: "button", className: "wb-quiet", on: { click: (event) => copyText(text, event.target) } }, "copy");
    const line = (name, ...content) => [el("dt", {}, name), el("dd", {}, ...content)];
    return el("section", {}, el("div", { className: "wb-prof-entry" }, letter(theme, at, one.letter), el("b", {}, one.title), el("span", { className: "wb-muted" }, one.rest)),
      field,
      el("dl", {}, ...(one.command ? line("open", el("code", {}, one.command), copy(one.command)) : line("open", one.why)),
        ...line("record", el("code", {}, one.record), copy(one.record)),
        ...(one.kernels.length ? line("kernels", one.kernels.join(", ")) : []),
        ...(one.profiler ? line("tools", one.profiler) : []), ...line("method", one.method)));
  }
}

// Where there is no clipboard the text is selected, so that the reader's own copy works.
export async function copyText(text, button) {
  try {
    await navigator.clipboard.writeText(text);
    const before = button.textContent;
    button.textContent = "copied";
    setTimeout(() => { button.textContent = before; }, 1500);
  } catch {
    getSelection().selectAllChildren(button.previousElementSibling);
  }
}
