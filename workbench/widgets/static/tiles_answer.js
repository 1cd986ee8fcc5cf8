// The answer: a sentence, the configuration beside the default and the best, what limits an SM, and machine code.

import { el, fill, show } from "./dom.js";

// In place of what is not known of the configuration on screen.
function unknown(state) {
  return state === "refused" ? "Nothing is compiled for a combination that cannot run." : "Known when it is compiled.";
}

export class TilesAnswer {
  constructor(link, headings) {
    this.link = link;
    this.headings = headings;
    this.header = el("span", { className: "wb-facts" });
    this.footer = el("span", {});
    this.sentence = el("p", { className: "wb-sentence", "aria-live": "polite" });
    this.table = el("table", { className: "wb-t-compared" });
    this.limits = el("div", { className: "wb-t-limits" });
    this.code = el("div", { className: "wb-t-code" });
    this.node = el("div", { className: "wb-answer" }, this.sentence, this.table, el("div", { className: "wb-t-below" },
      el("section", {}, el("h4", {}, "CTAs an SM that each resource allows"), this.limits),
      el("section", {}, el("h4", {}, "Machine code"), this.code)));
  }

  show(frame) {
    const { header, footer, sentence, rows, limits, code, work } = frame;
    fill(this.header, ...header.map((fact) => el("span", {}, fact)));
    fill(this.footer, ...footer.map((text) => el("span", {}, text)));
    const compiling = { compiling: "Compiling. ", waiting: "Not compiled. " }[work.state] ?? "";
    fill(this.sentence, compiling ? el("span", { className: "wb-t-compiling" }, compiling) : null, ...sentence.map(({ text, kind }) => {
      if (kind === "strong") return el("strong", {}, text);
      return kind === "refused" ? el("strong", { className: "wb-t-bad" }, text) : text;
    }), work.problem ? el("span", { className: "wb-t-bad" }, ` ${work.problem}`) : null);
    const heads = this.headings.map((words, at) => el("th", { scope: "col", className: `wb-tcol-${at}` }, words));
    fill(this.table, el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...rows.map((row) => this.#row(row))));
    this.#limits(limits, work.state);
    this.#code(code, work.state);
  }

  #row({ key, title, differs, values, cells, mark, words, interval, problem }) {
    const name = key === "here" ? el("span", {}, title)
      : el("button", { type: "button", className: "wb-t-link", title: "Put it on screen", on: { click: () => this.link.set({ values }) } }, title);
    const time = 6; // the column of microseconds: its mark says where they are from
    return el("tr", { "data-row": key, title: problem || null }, el("th", { scope: "row" }, el("i", { className: `wb-t-dot wb-t-dot-${key}` }), name),
      el("td", { className: "wb-tcol-1", title: differs }, differs),
      ...cells.map((text, at) => (at === time
        ? el("td", { className: "wb-tcol-8", title: [words, interval].filter(Boolean).join(", ") }, el("b", {}, text), " ", el("span", { className: "wb-mark" }, mark))
        : el("td", { className: `wb-tcol-${at + 2}` }, text))));
  }

  #limits(limits, state) {
    if (limits.length === 0) {
      fill(this.limits, el("p", { className: "wb-hint" }, unknown(state)));
      return;
    }
    fill(this.limits, ...limits.map(({ title, allows, share, limiting }) => el("div", { className: `wb-t-limit${limiting ? " wb-t-limiting" : ""}`, title: limiting ? "stops the next CTA" : null },
      el("span", {}, title), el("div", { className: "wb-fbar", "aria-hidden": true }, el("i", { style: { width: `${100 * share}%` } })), el("b", {}, allows))));
  }

  #code(code, state) {
    if (code === null || code.words) {
      fill(this.code, el("p", { className: "wb-hint" }, code === null ? unknown(state) : code.words));
      return;
    }
    fill(this.code, el("dl", {}, ...code.counts.flatMap(([name, number, detail]) => [el("dt", { title: detail || null }, name), el("dd", {}, number), el("dd", { className: "wb-muted", title: detail || null }, detail)])));
  }
}
