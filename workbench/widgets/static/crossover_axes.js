// Axes of the crossover chart, and SVG elements without markup.

const SVG = "http://www.w3.org/2000/svg";
const BEFORE = 0.72; // where the axis of M begins: half a row to the left of 1, and some room
const BEYOND = 1.12;

export const LEFT = 62;
export const PLOT = 280;

export function svg(tag, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export function place(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
}

export class Axes {
  constructor(scene, width, right) {
    this.scene = scene;
    this.width = width;
    this.from = LEFT;
    this.to = width - right;
    this.low = Math.log2(BEFORE);
    this.high = Math.log2(scene.last_m * BEYOND);
    this.us = scene.us.map(Math.log);
  }

  x(m) {
    return this.from + ((Math.log2(Math.max(m, BEFORE)) - this.low) / (this.high - this.low)) * (this.to - this.from);
  }

  // The whole number of rows whose half-open cell holds a pixel.
  m(x) {
    const value = 2 ** (this.low + ((x - this.from) / (this.to - this.from)) * (this.high - this.low));
    return Math.min(Math.max(Math.round(value), 1), this.scene.last_m);
  }

  y(us) {
    return PLOT - ((Math.log(us) - this.us[0]) / (this.us[1] - this.us[0])) * PLOT;
  }

  // Left edge and width of some neighbouring M.
  span(low, high) {
    const [start, end] = [this.x(low - 0.5), this.x(high + 0.5)];
    return [start, Math.max(end - start, 1)];
  }
}
