// One view of the tile tuner. Python owns the state and every number; this draws what it sends.

import { el, show } from "./dom.js";
import { Link } from "./link.js";
import { watchTheme } from "./theme.js";
import { TilesControls } from "./tiles_controls.js";
import { TilesAnswer } from "./tiles_answer.js";
import { Scatter } from "./tiles_scatter.js";
import { Parallel } from "./tiles_parallel.js";
import { TilesTable } from "./tiles_table.js";
import { TilesStudy } from "./tiles_study.js";
import { TilesFiles } from "./tiles_files.js";

const NARROW = 960; // pixels of the widget below which the settings stand above the answer
const BESIDE = 720; // pixels of the answer from which the two scatter charts stand side by side
const GAP = 24;

const KEYS = [
  ["\u2190 \u2192", "on a slider: next value; in a chart: next configuration"], ["Enter", "in a chart or the table: put it on screen"],
  ["\u2191 \u2193", "next row of the table"], ["Space", "on a value of an axis: keep only its lines"], ["d", "back to the default"], ["Esc", "close"], ["?", "this list"],
];

function render({ model, el: host }) {
  const constants = model.get("constants");
  let theme = null;
  let width = 0;
  let drawn = "";
  const link = new Link(model, () => draw());
  const controls = new TilesControls(link, constants);
  const answer = new TilesAnswer(link, constants.compared);
  const occupancy = new Scatter(link, "occupancy", "Time over occupancy", "");
  const error = new Scatter(link, "error", "Error over time", "dashed: none is better in both");
  const parallel = new Parallel(link, () => redraw());
  const table = new TilesTable(link);
  table.onSort = () => redraw();
  const study = new TilesStudy(link, constants);
  const files = new TilesFiles(link, () => theme.name);
  const slow = el("span", { className: "wb-status", role: "status", hidden: true }, "waiting for the kernel");
  const lost = el("span", { className: "wb-status wb-lost", role: "alert", hidden: true }, "no kernel behind this view: run its cell again");
  const help = el("div", { className: "wb-help", role: "dialog", "aria-label": "Shortcuts", hidden: true }, el("h4", {}, "Shortcuts"),
    el("button", { type: "button", className: "wb-close", "aria-label": "Close", on: { click: () => toggle(false) } }, "\u00d7"),
    el("dl", {}, ...KEYS.flatMap(([keys, words]) => [el("dt", {}, ...keys.split(" ").map((key) => el("kbd", {}, key))), el("dd", {}, words)])),
    el("p", { className: "wb-muted" }, "Ticks below a slider: struck ones cannot run with the other values, the tall one is the default."));
  const button = el("button", { type: "button", className: "wb-quiet", on: { click: () => toggle(help.hidden) } }, "Shortcuts ", el("kbd", {}, "?"));
  const charts = el("div", { className: "wb-t-charts" }, occupancy.node, error.node);
  const main = el("div", { className: "wb-main" }, answer.node, charts, parallel.node, table.node, study.node);
  const root = el("div", { className: "wb-explorer wb-tiles", role: "region", "aria-label": "Tile tuner" });
  root.append(
    el("header", { className: "wb-header" }, el("b", {}, "Tiles"), answer.header, el("span", { className: "wb-right" }), slow, lost, files.node, button),
    el("div", { className: "wb-body" }, controls.node, main),
    el("footer", { className: "wb-footer" }, answer.footer), help);
  // The picture for readers without a kernel is not for those who see this view.
  host.append(el("style", {}, `.jp-OutputArea-child:has(.${constants.picture}), .${constants.picture} { display: none; }`), root);
  link.onSlow = (waiting) => show(slow, waiting);
  link.onLost = () => {
    show(slow, false);
    show(lost, true);
  };

  function toggle(open) {
    show(help, open);
    (open ? help.querySelector("button") : button).focus();
  }

  root.addEventListener("keydown", (event) => {
    if (event.target.matches("input[type=text], select") || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "?") toggle(help.hidden);
    else if (event.key === "d") controls.reset.click();
    else if (event.key === "Escape" && !help.hidden) toggle(false);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });

  function redraw() {
    drawn = "";
    draw();
  }

  function draw() {
    if (!theme || width === 0) return;
    const started = performance.now();
    const frame = link.frame;
    const scene = model.get("scene");
    const key = `${scene.number} ${width} ${theme.name}`;
    parallel.options = frame.parameters;
    if (key !== drawn) {
      const beside = width >= BESIDE;
      charts.classList.toggle("wb-t-beside", beside);
      const each = beside ? Math.floor((width - GAP) / 2) : width;
      parallel.draw(scene, theme, width);
      for (const chart of [occupancy, error]) chart.draw(scene, theme, each, parallel.passes);
      table.draw(scene, parallel.passes);
      drawn = key;
    }
    controls.show(frame);
    answer.show(frame);
    occupancy.drawHere(frame.here.occupancy);
    error.drawHere(frame.here.error);
    parallel.drawHere(frame.here.line);
    table.mark(frame.parameters, frame.work);
    study.show(frame);
    root.dataset.frame = frame.number;
    root.dispatchEvent(new CustomEvent("wb-drawn", { detail: { number: frame.number, started, ended: performance.now(), ack: frame.ack[link.view] ?? 0, state: frame.work.state } }));
  }

  const unwatch = watchTheme(root, constants.themes, (chosen) => {
    theme = chosen;
    root.style.setProperty("--wb-request-0", theme.requests[0]);
    root.style.setProperty("--wb-t-best", theme.requests[2]);
    draw();
  });
  const resized = new ResizeObserver(() => {
    root.classList.toggle("wb-narrow", root.clientWidth < NARROW);
    const style = getComputedStyle(main);
    const room = Math.floor(Math.max(main.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight), 420));
    if (room === width) return;
    width = room;
    draw();
  });
  resized.observe(root);
  return () => {
    resized.disconnect();
    unwatch();
    link.close();
  };
}

export default { render };
