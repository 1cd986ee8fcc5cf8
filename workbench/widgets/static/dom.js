// Elements without markup: every text from Python becomes a text node, so no name can be read as HTML.

const FOCUSABLE = new Set(["button", "input", "select", "textarea"]);

export function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  // Keeps JupyterLab's single-key shortcuts away; it looks at the focused element before those around it.
  if (FOCUSABLE.has(tag) || "tabindex" in props) node.setAttribute("data-lm-suppress-shortcuts", "true");
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined) continue;
    if (name.startsWith("aria-")) node.setAttribute(name, String(value));
    else if (value === false) continue;
    else if (name === "on") for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
    else if (name === "style") Object.assign(node.style, value);
    else node.setAttribute(name === "className" ? "class" : name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export function fill(node, ...children) {
  node.replaceChildren(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

const SVG = "http://www.w3.org/2000/svg";

// A small picture from path data in a box of 12 by 12, in the colour of the text.
export function icon(data) {
  const svg = document.createElementNS(SVG, "svg");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", data);
  path.setAttribute("fill", "currentColor");
  for (const [name, value] of Object.entries({ viewBox: "0 0 12 12", width: 12, height: 12, "aria-hidden": true })) svg.setAttribute(name, value);
  svg.append(path);
  return svg;
}

// A letter in a box: the mark of policy A or B.
export function badge(key) {
  return el("span", { className: `wb-badge wb-badge-${key.toLowerCase()}` }, key);
}

export function show(node, visible) {
  node.hidden = !visible;
}

// Whether a key press belongs to a field that is being typed in.
export function isTyping(target) {
  return target.matches("input:not([type=range]), textarea, select");
}
