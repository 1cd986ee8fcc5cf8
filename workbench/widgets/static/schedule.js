// One view of the explorer. Python owns the state and every number; this draws the frame that it sends.

import { Answer } from "./answer.js";
import { Controls } from "./controls.js";
import { el, show } from "./dom.js";
import { Figures } from "./figures.js";
import { Files } from "./files.js";
import { Keys } from "./keys.js";
import { Link } from "./link.js";
import { Panels } from "./panels.js";
import { Strip } from "./strip.js";
import { watchTheme } from "./theme.js";

const NARROW = 960; // pixels of the widget below which the settings stand above the bins
const SLIM = 720; // pixels of the widget below which every row of it has to do with less
const COMPACT = 900; // pixels of the answer below which its table leaves things out

function render({ model, el: host }) {
  const constants = model.get("constants");
  let theme = null;
  let width = 0;
  const link = new Link(model, () => draw());
  const controls = new Controls(link, constants);
  const answer = new Answer(link, constants);
  const panels = new Panels(link);
  const figures = new Figures(link);
  const strip = new Strip(link, constants);
  const files = new Files(link, () => theme.name);
  const slow = el("span", { className: "wb-status", role: "status", hidden: true }, "waiting for the kernel");
  const lost = el("span", { className: "wb-status wb-lost", role: "alert", hidden: true }, "no kernel behind this view: run its cell again");
  const root = el("div", { className: "wb-explorer", role: "region", "aria-label": "Schedule explorer" });
  const keys = new Keys(root, link, constants, { panels, strip, figures, timelines: controls.timelines });
  const main = el("div", { className: "wb-main" }, answer.node, panels.node, strip.node, figures.node);
  root.append(
    el("header", { className: "wb-header" }, el("b", {}, "Schedule"), answer.header, el("span", { className: "wb-right" }), slow, lost, files.node, keys.button),
    el("div", { className: "wb-body" }, controls.node, main),
    el("footer", { className: "wb-footer" }, answer.footer), keys.help);
  // The picture for readers without a kernel is not for those who see this view.
  host.append(el("style", {}, `.jp-OutputArea-child:has(.${constants.picture}), .${constants.picture} { display: none; }`), root);
  link.onSlow = (waiting) => show(slow, waiting);
  link.onLost = () => {
    show(slow, false);
    show(lost, true);
    strip.stop();
  };
  panels.onRedraw = () => draw();
  figures.onTimelines = (menu) => controls.timelines.arrived(menu);

  function draw() {
    if (!theme || width === 0) return;
    const started = performance.now();
    const frame = link.frame;
    controls.show(frame);
    answer.show(frame);
    panels.show(frame, theme, width);
    figures.show(frame);
    strip.show(frame, theme, panels.space?.width ?? width - 192);
    root.dataset.frame = frame.number;
    root.dispatchEvent(new CustomEvent("wb-drawn", { detail: { number: frame.number, started, ended: performance.now() } }));
  }

  const unwatch = watchTheme(root, constants.themes, (chosen) => {
    theme = chosen;
    theme.requests.forEach((colour, at) => root.style.setProperty(`--wb-request-${at}`, colour));
    for (const [stage, colour] of Object.entries(theme.stages)) root.style.setProperty(`--wb-stage-${stage}`, colour);
    draw();
  });
  const resized = new ResizeObserver(() => {
    root.classList.toggle("wb-narrow", root.clientWidth < NARROW);
    root.classList.toggle("wb-slim", root.clientWidth < SLIM);
    const style = getComputedStyle(main);
    const room = Math.max(main.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight), 320);
    root.classList.toggle("wb-compact", room < COMPACT);
    if (room === width) return;
    width = room;
    draw();
  });
  resized.observe(root);
  return () => {
    resized.disconnect();
    unwatch();
    controls.close();
    answer.close();
    figures.close();
    strip.close();
    link.close();
  };
}

export default { render };
