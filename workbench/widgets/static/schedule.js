// One view of the explorer. Python owns the state and every number; this draws the frame that it sends.

import { Answer } from "./answer.js";
import { Controls } from "./controls.js";
import { el } from "./dom.js";
import { Figures } from "./figures.js";
import { Files } from "./files.js";
import { Keys } from "./keys.js";
import { Link } from "./link.js";
import { Panels } from "./panels.js";
import { Shell } from "./shell.js";
import { Strip } from "./strip.js";

const NARROW = 960; // pixels of the widget below which the settings stand above the bins
const SLIM = 720; // pixels of the widget below which every row of it has to do with less
const COMPACT = 900; // pixels of the answer below which its table leaves things out

const EXPORTS = [
  ["png", "Picture (PNG)"], ["svg", "Picture (SVG)"], ["plans", "Plans and metrics (JSON)"],
  ["trace", "Timeline (Chrome, Perfetto)"], ["code", "Copy as code"],
];

function render({ model, el: host }) {
  const constants = model.get("constants");
  const link = new Link(model, () => shell.draw(), "schedule explorer");
  const controls = new Controls(link, constants);
  const answer = new Answer(link, constants);
  const panels = new Panels(link);
  const figures = new Figures(link);
  const strip = new Strip(link, constants);
  const files = new Files(link, () => shell.theme.name, EXPORTS);
  const root = el("div", { className: "wb-explorer", role: "region", "aria-label": "Schedule explorer" });
  const keys = new Keys(root, link, constants, { panels, strip, figures, timelines: controls.timelines });
  const main = el("div", { className: "wb-main" }, answer.node, panels.node, strip.node, figures.node);
  const shell = new Shell(root, link, constants, {
    below: { "wb-narrow": NARROW, "wb-slim": SLIM }, mainBelow: { "wb-compact": COMPACT }, leastRoom: 320, colours, draw,
  });
  const { onLost } = link;
  link.onLost = () => {
    onLost();
    strip.stop();
  };
  panels.onRedraw = () => shell.draw();
  figures.onTimelines = (menu) => controls.timelines.arrived(menu);

  function draw(frame, theme, width) {
    controls.show(frame);
    answer.show(frame);
    panels.show(frame, theme, width);
    figures.show(frame);
    strip.show(frame, theme, panels.space?.width ?? width - 192);
  }

  shell.open(host, {
    title: "Schedule", facts: answer.header, tools: [files.node, keys.help.button], side: controls.node, main,
    footer: el("footer", { className: "wb-footer" }, answer.footer), help: keys.help.node,
  });
  return () => {
    for (const part of [controls, answer, figures, strip, shell]) part.close();
  };
}

function colours({ requests, stages }) {
  const named = (kind, found) => Object.entries(found).map(([name, colour]) => [`${kind}-${name}`, colour]);
  return Object.fromEntries([...named("request", requests), ...named("stage", stages)]);
}

export default { render };
