"use strict";
// Hover and arrow keys on the strip. Every word shown was written by Python; this only places it.
(() => {
  const hover = JSON.parse(document.getElementById("hover").textContent);
  const box = document.getElementById("strip-box");
  const drawing = document.getElementById("strip");
  const cursor = document.getElementById("cursor");
  const tip = document.getElementById("tip");
  const last = hover.columns.length - 1;
  let at = -1;

  const show = (column) => {
    at = Math.min(Math.max(column, 0), last);
    tip.replaceChildren(...hover.columns[at].map((words) => {
      const line = document.createElement("div");
      line.textContent = words;
      return line;
    }));
    tip.hidden = false;
    const x = hover.left + (at + 0.5) * hover.pitch;
    cursor.setAttribute("transform", `translate(${x} 0)`);
    cursor.setAttribute("visibility", "visible");
    const scale = drawing.clientWidth / drawing.viewBox.baseVal.width;
    const right = x * scale + 14;
    const fits = right + tip.offsetWidth <= box.clientWidth;
    tip.style.left = `${fits ? right : x * scale - 14 - tip.offsetWidth}px`;
  };
  const hide = () => {
    tip.hidden = true;
    cursor.setAttribute("visibility", "hidden");
  };
  box.addEventListener("pointermove", (event) => {
    const scale = drawing.viewBox.baseVal.width / drawing.clientWidth;
    const x = (event.clientX - drawing.getBoundingClientRect().left) * scale - hover.left;
    const column = Math.floor(x / hover.pitch);
    if (column < 0 || column > last) hide();
    else show(column);
  });
  box.addEventListener("pointerleave", hide);
  box.addEventListener("blur", hide);
  box.addEventListener("keydown", (event) => {
    const far = event.shiftKey ? 20 : 1;
    const target = { ArrowLeft: at - far, ArrowRight: at + far, Home: 0, End: last }[event.key];
    if (event.key === "Escape") hide();
    if (target === undefined) return;
    event.preventDefault();
    show(target);
  });
})();
