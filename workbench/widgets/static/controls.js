// The left column: everything that can be set.

import { el, fill, show } from "./dom.js";
import { menu, row, segmented, stepper } from "./fields.js";
import { Policies } from "./policies.js";
import { Timelines } from "./timelines.js";

const TYPING_MS = 250;
const GIVEN = "\u0000given";
const PASTED = "\u0000pasted";

export class Controls {
  constructor(link, constants) {
    this.link = link;
    this.constants = constants;
    const change = (name) => (value) => link.set({ [name]: value });
    const number = (name, label, step = 1) => stepper(label, constants.ranges[name], step, change(name));
    this.fields = {
      num_kv_heads: number("num_kv_heads", "KV heads"),
      q_len: number("q_len", "Queries"),
      max_batch: number("max_batch", "Batch cap", 8),
      gpu: menu("GPU", constants.gpus.map(({ name, label }) => [name, label]), change("gpu")),
      ctas_per_sm: number("ctas_per_sm", "CTAs an SM"),
      tile: segmented("Tile", constants.tiles.map((tile) => [tile, tile]), (value) => link.set({ tile: Number(value) })),
      min_process_len: number("min_process_len", "Work floor", 64),
      cache: menu("KV cache", constants.caches, change("cache")),
      order: segmented("Order", constants.orders, change("order")),
      unit: segmented("Unit", constants.units, change("unit")),
      scale: segmented("Scale", constants.scales, change("scale")),
    };
    this.policies = new Policies(link, constants.ranges);
    this.timelines = new Timelines(link, constants);
    this.mark = el("span", { className: "wb-mark wb-right" });
    const f = this.fields;
    this.cap = row("Batch cap", f.max_batch);
    this.node = el("div", { className: "wb-controls", role: "group", "aria-label": "Settings" },
      this.#section("Workload", this.#workload(), this.cap, row("KV heads", f.num_kv_heads), row("Queries", f.q_len)),
      this.#section("GPU", f.gpu.node, row("CTAs / SM", f.ctas_per_sm)),
      this.#section(["Policy", this.mark], this.policies.node),
      this.#section("Kernel", row("Tile", f.tile), row("Floor", f.min_process_len), row("KV cache", f.cache)),
      this.#section("Timeline", this.timelines.node),
      this.#section("View", row("Order", f.order, "o"), row("Unit", f.unit, "u"), row("Scale", f.scale, "y")));
  }

  #section(title, ...content) {
    const name = [title].flat()[0].toLowerCase();
    return el("section", { className: `wb-section-${name}` }, el("h4", {}, ...[title].flat()), ...content);
  }

  #workload() {
    this.preset = menu("Workload", [], (value) => {
      if (value === PASTED) this.box.focus();
      else if (value !== GIVEN) this.link.set({ workload: value });
    });
    this.box = el("textarea", {
      rows: 2, spellcheck: "false", placeholder: "64x4K + 2x32K", "aria-label": "KV lengths: an expression or pasted numbers",
    });
    this.box.addEventListener("input", () => {
      clearTimeout(this.typing);
      this.typing = setTimeout(() => this.link.set({ pasted: this.box.value }), TYPING_MS);
    });
    this.fault = el("pre", { className: "wb-fault", role: "alert" });
    return el("div", {}, this.preset.node, this.box, this.fault);
  }

  show(frame) {
    const { settings, fault } = frame;
    const given = settings.pasted ? PASTED : settings.workload || GIVEN;
    const own = settings.pasted ? [PASTED, "lengths below"] : [GIVEN, settings.workload_name];
    const presets = this.constants.presets.map((name) => [name, name]);
    this.preset.offer(given === settings.workload ? [...presets, [PASTED, "lengths below"]] : [own, ...presets]);
    this.preset.show(given);
    this.preset.node.title = settings.workload_name;
    if (document.activeElement !== this.box) this.box.value = settings.pasted;
    fill(this.fault, fault ? fault.text : "");
    show(this.fault, fault !== null);
    this.box.setAttribute("aria-invalid", fault?.field === "pasted");
    const known = this.constants.gpus.map(({ name, label }) => [name, label]);
    const listed = known.some(([name]) => name === settings.gpu);
    this.fields.gpu.offer(listed ? known : [[settings.gpu, settings.gpu_label], ...known]);
    for (const [name, field] of Object.entries(this.fields)) field.show(settings[name]);
    show(this.cap, settings.capped);
    fill(this.mark, `${frame.scene?.mark ?? ""} \u00b5s a call`);
    this.policies.show(frame);
    this.timelines.show(frame);
  }

  close() {
    clearTimeout(this.typing);
    this.policies.close();
  }
}
