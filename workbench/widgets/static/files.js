// The export menu that the widgets share. Python writes every file; the browser only turns the SVG into pixels for a PNG.

import { el, fill, show } from "./dom.js";
import { typed } from "./link.js";

const PNG_SCALE = 2;

export class Files {
  // `items`: pairs of a kind of file and its words; `about`: an element above them.
  constructor(link, themeName, items, about = null) {
    this.link = link;
    this.status = el("span", { className: "wb-status", role: "status" });
    this.items = items.map(([what, label]) =>
      el("button", { type: "button", role: "menuitem", "data-export": what, on: { click: () => this.#ask(what, themeName()) } }, label));
    this.list = el("div", { className: "wb-export-list", role: "menu", hidden: true }, about, ...this.items);
    this.button = el("button", { type: "button", "aria-haspopup": "menu", "aria-expanded": false, on: { click: () => this.#open(this.list.hidden) } }, "Export \u25be");
    this.node = el("span", { className: "wb-export" }, this.status, this.button, this.list);
    this.list.addEventListener("keydown", (event) => this.#key(event));
    this.node.addEventListener("focusout", (event) => !this.node.contains(event.relatedTarget) && this.#open(false));
    link.listen("file", (content, buffers) => this.#arrived(content, buffers));
  }

  // What Python says beside a file, or in place of one.
  tell({ problem }) {
    if (problem) this.#say(problem);
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

  async #arrived(content, buffers) {
    this.tell(content);
    const { what, name, mime, text, problem } = content;
    if (problem || name === undefined) return undefined;
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

export async function toPng(svg) {
  const url = URL.createObjectURL(svg);
  const image = new Image();
  image.src = url;
  await image.decode();
  const canvas = el("canvas", { width: image.naturalWidth * PNG_SCALE, height: image.naturalHeight * PNG_SCALE });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(url);
  return new Promise((done) => { canvas.toBlob(done, "image/png"); });
}
