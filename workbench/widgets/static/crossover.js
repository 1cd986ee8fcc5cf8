// One view of the crossover tuner. Python owns the state and every number; this draws what it sends.

import { el, show } from "./dom.js";
import { Link } from "./link.js";
import { watchTheme } from "./theme.js";
import { Chart } from "./crossover_chart.js";
import { Rule } from "./crossover_rule.js";
import { CrossoverControls } from "./crossover_controls.js";
import { CrossoverAnswer } from "./crossover_answer.js";
import { CrossoverFiles } from "./crossover_files.js";

const NARROW = 960; // pixels of the widget below which the settings stand above the chart
const TIGHT = 720; // and in two columns, beside a table that leaves its bars out

const KEYS = [
  ["\u2190 \u2192", "move the threshold by one row; in the chart, next measured M"], ["Shift \u2190 \u2192", "move it further"],
  ["PageUp PageDown", "to the next measured M"], ["Delete", "remove the threshold"], ["Enter", "on a piece: change its provider, split or join it"],
  ["Esc", "close"], ["?", "this list"],
];

function render({ model, el: host }) {
  const constants = model.get("constants");
  let theme = null;
  let width = 0;
  let drawn = "";
  const link = new Link(model, () => draw());
  const controls = new CrossoverControls(link, constants);
  const answer = new CrossoverAnswer(link);
  const chart = new Chart(link, `wb-undecided-${link.view}`);
  const rule = new Rule(link, chart);
  const files = new CrossoverFiles(link, () => theme.name);
  const slow = el("span", { className: "wb-status", role: "status", hidden: true }, "waiting for the kernel");
  const lost = el("span", { className: "wb-status wb-lost", role: "alert", hidden: true }, "no kernel behind this view: run its cell again");
  const help = el("div", { className: "wb-help", role: "dialog", "aria-label": "Shortcuts", hidden: true }, el("h4", {}, "Shortcuts"),
    el("button", { type: "button", className: "wb-close", "aria-label": "Close", on: { click: () => toggle(false) } }, "\u00d7"),
    el("dl", {}, ...KEYS.flatMap(([keys, words]) => [el("dt", {}, ...keys.split(" ").map((key) => el("kbd", {}, key))), el("dd", {}, words)])),
    el("p", { className: "wb-muted" }, "Drag a threshold to see its price. Click a piece of the rule to change it."));
  const button = el("button", { type: "button", className: "wb-quiet", on: { click: () => toggle(help.hidden) } }, "Shortcuts ", el("kbd", {}, "?"));
  const main = el("div", { className: "wb-main" }, files.notice, answer.node, chart.node);
  chart.node.append(rule.node);
  const root = el("div", { className: "wb-explorer wb-crossover", role: "region", "aria-label": "Crossover tuner" });
  root.append(
    el("header", { className: "wb-header" }, el("b", {}, "Crossover"), answer.header, el("span", { className: "wb-right" }), slow, lost, files.node, button),
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
    if (event.target.matches("input[type=text], select")) return;
    if (event.key === "?") toggle(help.hidden);
    else if (event.key === "Escape" && !help.hidden) toggle(false);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });

  function draw() {
    if (!theme || width === 0) return;
    const started = performance.now();
    const frame = link.frame;
    const { scene, styles, number } = model.get("scene");
    const key = `${number} ${width} ${theme.name}`;
    show(chart.node, scene !== null && frame.answer !== null);
    if (scene !== null && key !== drawn) {
      chart.draw(scene, number, styles, theme, width);
      drawn = key;
    }
    controls.show(frame, theme, styles);
    answer.show(frame, (name) => styles[name]?.[theme.name] ?? theme.muted);
    if (scene !== null && frame.answer !== null) {
      chart.drawLost(frame.answer.lost, frame.answer.lost_note);
      rule.draw(frame.answer);
    }
    root.dataset.frame = frame.number;
    root.dispatchEvent(new CustomEvent("wb-drawn", { detail: { number: frame.number, started, ended: performance.now() } }));
  }

  const unwatch = watchTheme(root, constants.themes, (chosen) => {
    theme = chosen;
    root.style.setProperty("--wb-request-0", theme.requests[0]);
    draw();
  });
  const resized = new ResizeObserver(() => {
    root.classList.toggle("wb-narrow", root.clientWidth < NARROW);
    root.classList.toggle("wb-tight", root.clientWidth < TIGHT);
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
