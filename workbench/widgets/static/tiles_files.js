// The export menu. Python writes every file.

import { el, fill, show } from "./dom.js";
import { toPng } from "./files.js";

const ITEMS = [
  ["table", "Configurations (CSV)"], ["sass", "Machine code, marked"], ["png", "Picture (PNG)"], ["svg", "Picture (SVG)"], ["code", "Copy as code"],
];

export class TilesFiles {
  constructor(link, themeName) {
    this.link = link;
    this.status = el("span", { className: "wb-status", role: "status" });
    const item = ([what, label]) =>
      el("button", { type: "button", role: "menuitem", "data-export": what, on: { click: () => this.#ask(what, themeName()) } }, label);
    this.list = el("div", { className: "wb-export-list", role: "menu", hidden: true }, ...ITEMS.map(item));
    this.button = el("button", { type: "button", "aria-haspopup": "menu", "aria-expanded": false, on: { click: () => this.#open(this.list.hidden) } }, "Export \u25be");
    this.node = el("span", { className: "wb-export" }, this.status, this.button, this.list);
    this.list.addEventListener("keydown", (event) => this.#key(event));
    this.node.addEventListener("focusout", (event) => !this.node.contains(event.relatedTarget) && this.#open(false));
    link.listen("file", (content) => this.#arrived(content));
  }

  #open(open) {
    show(this.list, open);
    this.button.setAttribute("aria-expanded", open);
    if (open) this.list.firstChild.focus();
  }

  #key(event) {
    const items = [...this.list.children];
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") {
      this.#open(false);
      this.button.focus();
    } else if (by) items[(items.indexOf(event.target) + by + items.length) % items.length].focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  #ask(what, theme) {
    this.button.focus();
    this.#open(false);
    this.link.ask("file", { what, theme });
  }

  async #arrived({ what, name, mime, text, problem }) {
    if (problem) return this.#say(problem);
    if (what === "code") {
      try {
        await navigator.clipboard.writeText(text);
        return this.#say("copied");
      } catch {
        return this.#download(name, new Blob([text], { type: mime })); // no clipboard here: a file instead
      }
    }
    const blob = new Blob([text], { type: mime });
    return this.#download(name, what === "png" ? await toPng(blob) : blob);
  }

  #download(name, blob) {
    const url = URL.createObjectURL(blob);
    el("a", { href: url, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
    this.#say(`saved ${name}`);
  }

  #say(words) {
    fill(this.status, words);
    setTimeout(() => fill(this.status), 4000);
  }
}
