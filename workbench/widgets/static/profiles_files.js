// The export menu. Python writes every file; it holds the picked captures, or all on screen where none is picked.

import { el, fill, show } from "./dom.js";
import { toPng } from "./files.js";
import { typed } from "./link.js";

const ITEMS = [["csv", "Table (CSV)"], ["parquet", "Table (Parquet)"], ["html", "Page (HTML)"], ["png", "Picture (PNG)"], ["svg", "Picture (SVG)"], ["code", "Copy as code"]];

export class ProfileFiles {
  constructor(link, themeName) {
    this.link = link;
    this.status = el("span", { className: "wb-status", role: "status" });
    const item = ([what, label]) =>
      el("button", { type: "button", role: "menuitem", "data-export": what, on: { click: () => this.#ask(what, themeName()) } }, label);
    this.about = el("span", { className: "wb-prof-about" });
    this.items = ITEMS.map(item);
    this.list = el("div", { className: "wb-export-list", role: "menu", hidden: true }, this.about, ...this.items);
    this.button = el("button", { type: "button", "aria-haspopup": "menu", "aria-expanded": false, on: { click: () => this.#open(this.list.hidden) } }, "Export \u25be");
    this.node = el("span", { className: "wb-export" }, this.status, this.button, this.list);
    this.list.addEventListener("keydown", (event) => this.#key(event));
    this.node.addEventListener("focusout", (event) => !this.node.contains(event.relatedTarget) && this.#open(false));
    link.listen("file", (content, buffers) => this.#arrived(content, buffers));
  }

  show(frame) {
    const picked = frame.legend.length;
    fill(this.about, picked ? `${picked} picked` : `all ${frame.total.toLocaleString("en")} on screen`);
    show(this.node, frame.empty.length === 0);
  }

  #open(open) {
    show(this.list, open);
    this.button.setAttribute("aria-expanded", open);
    if (open) this.items[0].focus();
  }

  #key(event) {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") {
      this.#open(false);
      this.button.focus();
    } else if (by) this.items[(this.items.indexOf(event.target) + by + this.items.length) % this.items.length].focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  #ask(what, theme) {
    this.button.focus();
    this.#open(false);
    this.link.ask("file", { what, theme });
  }

  async #arrived({ what, name, mime, text, problem }, buffers) {
    if (problem) return this.#say(problem);
    if (what === "code") {
      try {
        await navigator.clipboard.writeText(text);
        return this.#say("copied");
      } catch {
        return this.#download(name, new Blob([text], { type: mime })); // no clipboard here: a file instead
      }
    }
    const blob = new Blob([text ?? typed(Uint8Array, buffers[0])], { type: mime });
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
