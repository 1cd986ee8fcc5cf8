// One view of the tile tuner. Python owns the state and every number; this draws what it sends.

import { el, isTyping } from "./dom.js";
import { Files } from "./files.js";
import { Link } from "./link.js";
import { Help, Shell } from "./shell.js";
import { TilesControls } from "./tiles_controls.js";
import { TilesAnswer } from "./tiles_answer.js";
import { Scatter } from "./tiles_scatter.js";
import { Parallel } from "./tiles_parallel.js";
import { TilesTable } from "./tiles_table.js";
import { TilesStudy } from "./tiles_study.js";

const NARROW = 960; // pixels of the widget below which the settings stand above the answer
const SLIM = 720; // and every row of it has to do with less
const STACKED = 720; // pixels of the answer below which one scatter chart stands above the other
const GAP = 24;

const EXPORTS = [
  ["table", "Configurations (CSV)"], ["sass", "Machine code, marked"], ["png", "Picture (PNG)"], ["svg", "Picture (SVG)"], ["code", "Copy as code"],
];

const KEYS = [
  ["\u2190 \u2192", "on a slider: next value; in a chart: next configuration"], ["Enter", "in a chart or the table: put it on screen"],
  ["\u2191 \u2193", "next row of the table"], ["Space", "on a value of an axis: keep only its lines"], ["d", "back to the default"], ["Esc", "close"], ["?", "this list"],
];

function render({ model, el: host }) {
  const constants = model.get("constants");
  let drawn = "";
  const link = new Link(model, () => shell.draw(), "tile tuner");
  const controls = new TilesControls(link, constants);
  const answer = new TilesAnswer(link, constants.compared);
  const occupancy = new Scatter(link, "occupancy", "Time over occupancy", "");
  const error = new Scatter(link, "error", "Error over time", "dashed: none is better in both");
  const parallel = new Parallel(link, () => redraw());
  const table = new TilesTable(link);
  table.onSort = () => redraw();
  const study = new TilesStudy(link, constants);
  const files = new Files(link, () => shell.theme.name, EXPORTS);
  const help = new Help(KEYS, "Ticks below a slider: struck ones cannot run with the other values, the tall one is the default.");
  const charts = el("div", { className: "wb-t-charts" }, occupancy.node, error.node);
  const main = el("div", { className: "wb-main" }, answer.node, charts, parallel.node, table.node, study.node);
  const root = el("div", { className: "wb-explorer wb-tiles", role: "region", "aria-label": "Tile tuner" });
  const shell = new Shell(root, link, constants, {
    below: { "wb-narrow": NARROW, "wb-slim": SLIM }, mainBelow: { "wb-t-stacked": STACKED }, leastRoom: 420,
    colours: ({ requests }) => ({ "request-0": requests[0], "t-best": requests[2] }), draw,
  });

  root.addEventListener("keydown", (event) => {
    if (isTyping(event.target) || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "?") help.toggle();
    else if (event.key === "d") controls.reset.click();
    else if (event.key === "Escape" && help.open) help.toggle(false);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });

  // The charts too, and not only what moves with a slider.
  function redraw() {
    drawn = "";
    shell.draw();
  }

  function draw(frame, theme, width) {
    const scene = model.get("scene");
    const key = `${scene.number} ${width} ${theme.name}`;
    parallel.options = frame.parameters;
    if (key !== drawn) {
      const each = width < STACKED ? width : Math.floor((width - GAP) / 2);
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
    Object.assign(root.dataset, { state: frame.work.state, ack: frame.ack[link.view] ?? 0 });
  }

  shell.open(host, {
    title: "Tiles", facts: answer.header, tools: [files.node, help.button], side: controls.node, main,
    footer: el("footer", { className: "wb-footer" }, answer.footer), help: help.node,
  });
  return () => shell.close();
}

export default { render };
