// One view of the profile browser. Python owns the state and every number; this draws what it sends.

import { el, fill, show } from "./dom.js";
import { Link } from "./link.js";
import { Help, Shell } from "./shell.js";
import { ProfileChart } from "./profiles_chart.js";
import { ProfileTable } from "./profiles_table.js";
import { Compare, Legend } from "./profiles_compare.js";
import { Schedules } from "./profiles_bins.js";
import { Notes, copyText } from "./profiles_notes.js";
import { Filters } from "./profiles_filters.js";
import { ProfileFiles } from "./profiles_files.js";

const NARROW = 960; // pixels of the widget below which the filters stand above the table

const KEYS = [
  ["\u2191 \u2193", "in the table: next capture"], ["Space", "pick it, or drop it"], ["Alt Space", "pick it alone"],
  ["1 2 3 4 5", "side by side, roofline, parameter, schedule, notes"], ["/", "filter by configuration"], ["r", "read the store again"], ["Esc", "drop all picks"], ["?", "this list"],
];

function render({ model, el: host }) {
  const constants = model.get("constants");
  const link = new Link(model, () => shell.draw(), "profile browser");
  const filters = new Filters(link);
  const table = new ProfileTable(link, constants);
  const legend = new Legend(link);
  const compare = new Compare();
  const chart = new ProfileChart();
  const schedules = new Schedules(link);
  const notes = new Notes(link);
  const files = new ProfileFiles(link, () => shell.theme.name);
  table.clear = () => filters.clear();
  const parts = { compare: compare.node, roofline: chart.node, parameter: chart.node, schedule: schedules.node, notes: notes.node };
  const tabs = constants.views.map(([name, title]) => el("button", { type: "button", role: "tab", "data-view": name, on: { click: () => link.set({ view: name }) } }, title));
  const bar = el("div", { className: "wb-prof-tabs", role: "tablist", "aria-label": "View of the picked captures" }, ...tabs);
  bar.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    const next = tabs[(tabs.indexOf(event.target) + by + tabs.length) % tabs.length];
    next.focus();
    next.click();
    event.preventDefault();
    event.stopPropagation();
  });
  const sentence = el("p", { className: "wb-sentence", role: "status" });
  const hint = el("p", { className: "wb-muted wb-prof-hint" });
  const cautions = el("div", { className: "wb-prof-cautions" });
  const view = el("div", { className: "wb-prof-view", role: "tabpanel" }, hint, cautions, ...new Set(Object.values(parts)));
  const empty = el("div", { className: "wb-prof-empty" });
  const facts = el("div", { className: "wb-facts" });
  const footer = el("footer", { className: "wb-footer" });
  const again = el("button", { type: "button", className: "wb-quiet", title: "Read the store again", on: { click: () => reload() } }, "Reload ", el("kbd", {}, "r"));
  const help = new Help(KEYS);
  const content = el("div", {}, table.node, legend.node, bar, view);
  const main = el("div", { className: "wb-main" }, sentence, empty, content);
  const root = el("div", { className: "wb-explorer wb-profiles", role: "region", "aria-label": "Profile browser" });
  const shell = new Shell(root, link, constants, {
    below: { "wb-narrow": NARROW }, leastRoom: 400, colours: ({ requests }) => ({ "request-0": requests[0] }), draw,
  });

  function reload() {
    schedules.forget();
    link.queue({ kind: "reload" });
  }

  root.addEventListener("keydown", (event) => {
    if (event.target.matches("input, select, textarea") || event.ctrlKey || event.metaKey) return;
    const at = "12345".indexOf(event.key);
    if (event.key === "?") help.toggle();
    else if (event.key === "Escape" && help.open) help.toggle(false);
    else if (event.key === "Escape") link.set({ picks: [] });
    else if (event.key === "r") reload();
    else if (event.key === "/") filters.focus();
    else if (at >= 0) link.set({ view: constants.views[at][0] });
    else return;
    event.preventDefault();
    event.stopPropagation();
  });

  function step([words, code]) {
    return el("div", {}, el("p", {}, words), el("pre", {}, el("code", {}, code), el("button", { type: "button", className: "wb-quiet", on: { click: (event) => copyText(code, event.target) } }, "copy")));
  }

  function draw(frame, theme, width) {
    const open = frame.settings.view;
    const nothing = frame.empty.length > 0;
    fill(facts, ...frame.facts.map((fact) => el("span", {}, fact)));
    fill(sentence, frame.sentence);
    fill(footer, el("span", {}, ...frame.problems.map((words) => el("span", { className: "wb-prof-problem" }, words)),
      el("span", {}, "alone: by Nsight Compute, kernel by kernel, caches flushed; not comparable with times of a benchmark")));
    show(empty, nothing);
    show(content, !nothing);
    show(filters.node, !nothing);
    fill(empty, ...frame.empty.map(step), nothing ? el("p", {}, "Looked in ", el("code", {}, frame.looked)) : null);
    filters.show(frame);
    files.show(frame);
    if (!nothing) {
      table.show(frame, theme);
      legend.show(frame, theme);
      tabs.forEach((tab) => {
        const chosen = tab.dataset.view === open;
        tab.setAttribute("aria-selected", chosen);
        tab.tabIndex = chosen ? 0 : -1;
      });
      const needs = frame.legend.length === 0 && open !== "parameter";
      fill(hint, needs ? "Pick captures in the table above; the first one is the base." : "");
      show(hint, needs);
      for (const node of new Set(Object.values(parts))) show(node, node === parts[open] && !needs);
      fill(cautions, ...(open === "roofline" ? frame.view.cautions : []).map((words) => el("p", {}, words)));
      if (open === "compare") compare.show(frame, theme, width);
      else if (open === "schedule") schedules.show(frame, theme, width);
      else if (open === "notes") notes.show(frame, theme);
      else chart.draw(frame.view.chart, theme, width);
    }
  }

  shell.open(host, {
    title: "Profiles", facts, tools: [again, files.node, help.button], side: filters.node, main, footer, help: help.node,
  });
  return () => shell.close();
}

export default { render };
