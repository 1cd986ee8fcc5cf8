// Light or dark, as the notebook around the widget is; colours come from Python.

const PAGE_BACKGROUNDS = ["--jp-layout-color0", "--vscode-editor-background", "--colab-primary-surface-color"];

function luminance(colour) {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d");
  canvas.fillStyle = colour;
  canvas.fillRect(0, 0, 1, 1);
  const [r, g, b] = canvas.getImageData(0, 0, 1, 1).data;
  return (0.2126 * r + 0.7152 * g + 0.0722 * b) / 255;
}

function pageIsDark() {
  const style = getComputedStyle(document.body);
  for (const name of PAGE_BACKGROUNDS) {
    const colour = style.getPropertyValue(name).trim();
    if (colour) return luminance(colour) < 0.5;
  }
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

// Calls `apply(theme, name)` now and whenever the page changes between light and dark; returns how to stop.
export function watchTheme(root, themes, apply) {
  let current = "";
  const check = () => {
    const name = pageIsDark() ? "dark" : "light";
    if (name === current) return;
    current = name;
    const theme = themes[name];
    root.classList.toggle("wb-dark", name === "dark");
    for (const key of ["background", "ink", "slate", "muted", "line", "grid", "accent", "later", "earlier"]) {
      root.style.setProperty(`--wb-${key}`, theme[key]);
    }
    apply({ ...theme, name });
  };
  const observer = new MutationObserver(() => setTimeout(check, 60));
  for (const node of [document.documentElement, document.body]) {
    observer.observe(node, { attributes: true, attributeFilter: ["class", "theme", "data-jp-theme-name", "style"] });
  }
  const media = matchMedia("(prefers-color-scheme: dark)");
  media.addEventListener("change", check);
  // JupyterLab swaps the style sheet of its theme after the attribute; the load event of a sheet does not bubble.
  document.addEventListener("load", check, true);
  check();
  return () => {
    observer.disconnect();
    media.removeEventListener("change", check);
    document.removeEventListener("load", check, true);
  };
}

export function rgb(hex) {
  return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
}
