// One view of the crossover tuner. Python owns the state and every number; this draws what it sends.

import { el, show } from "./dom.js";
import { Link } from "./link.js";
import { Help, Shell } from "./shell.js";
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
  let drawn = "";
  const link = new Link(model, () => shell.draw(), "crossover tuner");
  const controls = new CrossoverControls(link, constants);
  const answer = new CrossoverAnswer(link);
  const chart = new Chart(link, `wb-undecided-${link.view}`);
  const rule = new Rule(link, chart);
  const files = new CrossoverFiles(link, () => shell.theme.name);
  const help = new Help(KEYS, "Drag a threshold to see its price. Click a piece of the rule to change it.");
  const main = el("div", { className: "wb-main" }, files.notice, answer.node, chart.node);
  chart.node.append(rule.node);
  const root = el("div", { className: "wb-explorer wb-crossover", role: "region", "aria-label": "Crossover tuner" });
  const shell = new Shell(root, link, constants, {
    below: { "wb-narrow": NARROW, "wb-tight": TIGHT }, leastRoom: 420, colours: ({ requests }) => ({ "request-0": requests[0] }), draw,
  });

  root.addEventListener("keydown", (event) => {
    if (event.target.matches("input[type=text], select")) return;
    if (event.key === "?") help.toggle();
    else if (event.key === "Escape" && help.open) help.toggle(false);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });

  function draw(frame, theme, width) {
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
  }

  shell.open(host, {
    title: "Crossover", facts: answer.header, tools: [files.node, help.button], side: controls.node, main,
    footer: el("footer", { className: "wb-footer" }, answer.footer), help: help.node,
  });
  return () => shell.close();
}

export default { render };
