// Bins to pixels. Each device column is computed once, so the cost is that of the pixels, not of the segments.

import { rgb } from "./theme.js";

const GAP_FROM = 4; // CSS pixels a column from which neighbours are parted
const GHOST = 0.55; // opacity of a plan that stands beside its measurement
const DENSE = 4; // device pixels a segment below which edges are blended instead of snapped

// Colours of each shade: body and pale part, as [r, g, b, packed]; of a plan beside its measurement at GHOST of that.
export function shades(theme, background) {
  const pale = (colour) => colour.map((value, i) => value * theme.foot_share + background[i] * (1 - theme.foot_share));
  const packed = (colour) => [...colour, pack(...colour, 255)];
  const bodies = theme.shades.map(rgb);
  const faint = (colour) => colour.map((value, i) => value * GHOST + background[i] * (1 - GHOST));
  const feet = bodies.map(pale);
  return {
    bodies: bodies.map(packed), feet: feet.map(packed),
    ghost: { bodies: bodies.map(faint).map(packed), feet: feet.map(faint).map(packed) },
  };
}

// The column that stands for device pixel x: where several share it, the fullest, so that no straggler is lost.
export function columnAt(panel, x, from, pitch) {
  const first = Math.min(Math.max(Math.floor(from + x / pitch + 1e-6), 0), panel.top.length - 1);
  if (pitch >= 1) return first;
  const last = Math.min(Math.max(Math.ceil(from + (x + 1) / pitch - 1e-6) - 1, first), panel.top.length - 1);
  let fullest = first;
  for (let column = first + 1; column <= last; column += 1) if (panel.top[column] > panel.top[fullest]) fullest = column;
  return fullest;
}

// Lowest top among the columns that share device pixel x.
export function lowestAt(panel, x, from, pitch) {
  const first = Math.min(Math.floor(from + x / pitch + 1e-6), panel.top.length - 1);
  const last = Math.min(Math.max(Math.ceil(from + (x + 1) / pitch - 1e-6) - 1, first), panel.top.length - 1);
  let lowest = panel.top[first];
  for (let column = first + 1; column <= last; column += 1) lowest = Math.min(lowest, panel.top[column]);
  return lowest;
}

// Left and right device pixel of a column; the right one is not included.
export function columnEdges(column, from, pitch, ratio) {
  const left = Math.round((column - from) * pitch);
  const right = Math.max(Math.round((column + 1 - from) * pitch), left + 1);
  return [left, pitch / ratio >= GAP_FROM ? Math.max(right - Math.round(ratio), left + 1) : right];
}

// Draws the visible columns into an ImageData of the plot's size in device pixels, or only one half of each column:
// -1 the left one, 1 the right one.
export function rasterise(panel, { width, height, from, pitch, scale, ratio }, colours, half = 0, image = new ImageData(width, height)) {
  const pixels = new Uint32Array(image.data.buffer);
  const strip = new Uint32Array(height);
  const paint = (column, left, right) => {
    strip.fill(0);
    paintColumn(strip, panel, column, height, scale, colours);
    for (let y = 0; y < height; y += 1) {
      const value = strip[y];
      if (value === 0) continue;
      for (let at = y * width + left, end = y * width + right; at < end; at += 1) pixels[at] = value;
    }
  };
  if (pitch >= 1) {
    const last = Math.min(Math.ceil(from + width / pitch), panel.top.length);
    for (let column = Math.max(Math.floor(from), 0); column < last; column += 1) {
      let [left, right] = columnEdges(column, from, pitch, ratio);
      if (half < 0) right = (left + right) >> 1;
      if (half > 0) left = (left + right) >> 1;
      if (right > 0 && left < width) paint(column, Math.max(left, 0), Math.min(right, width));
    }
  } else {
    for (let x = 0; x < width; x += 1) paint(columnAt(panel, x, from, pitch), x, x + 1);
  }
  return image;
}

function pack(r, g, b, alpha) {
  return ((alpha << 24) | (Math.round(b) << 16) | (Math.round(g) << 8) | Math.round(r)) >>> 0;
}

// One column, bottom pixel last. Few segments: edges snap to pixels. Many: each pixel is the mean of what covers it.
function paintColumn(strip, panel, column, height, scale, colours) {
  const [first, last] = [panel.offsets[column], panel.offsets[column + 1]];
  if (first === last) return;
  const dense = (panel.top[column] * scale) / (2 * (last - first)) < DENSE;
  let [row, cover, r, g, b] = [-1, 0, 0, 0, 0];
  const flush = () => {
    const y = height - 1 - row;
    if (cover > 0 && y >= 0 && y < height) strip[y] = pack(r / cover, g / cover, b / cover, Math.round(255 * Math.min(cover, 1)));
    cover = r = g = b = 0;
  };
  const part = (at, end, colour) => {
    if (end <= at) return;
    const here = Math.floor(at);
    if (here !== row) {
      flush();
      row = here;
    }
    const share = end - at;
    cover += share;
    r += share * colour[0];
    g += share * colour[1];
    b += share * colour[2];
  };
  const piece = (low, high, colour) => {
    const [inner, outer] = [Math.ceil(low), Math.floor(high)];
    if (outer <= inner) {
      part(low, Math.min(inner, high), colour);
      part(Math.max(inner, low), high, colour);
      return;
    }
    part(low, inner, colour);
    strip.fill(colour[3], Math.max(height - outer, 0), Math.max(height - inner, 0));
    part(outer, high, colour);
  };
  const edge = dense ? (value) => value * scale : (value) => Math.round(value * scale);
  for (let i = first; i < last; i += 1) {
    const foot = edge(panel.foot[i]);
    piece(edge(panel.start[i]), foot, colours.feet[panel.colour[i]]);
    piece(foot, edge(panel.end[i]), colours.bodies[panel.colour[i]]);
  }
  flush();
}
