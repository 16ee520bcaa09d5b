// Small figures: a bar for a share, a table with shaded cells, a grid cell, a strip for a vector.

import { drawn, element } from "./dom.js";
import { shade, signed } from "./colour.js";
import { fixed, percent } from "./format.js";
import { whenResized } from "./lines.js";

/** A bar for a share from 0 to 1, with the number beside it. */
export function bar(share, { text = percent(share), colour } = {}) {
  const fill = element("span", { class: "fill", style: { display: "block", width: `${Math.min(share, 1) * 100}%` } });
  if (colour) fill.style.background = colour;
  return element(
    "span",
    { class: "bar" },
    element("span", { class: "track", "aria-hidden": "true" }, fill),
    element("span", { class: "number" }, text),
  );
}

/**
 * A table of numbers. `data` are rows; `rows` and `columns` their labels; `scale` is the number with the darkest shade, none for
 * no shades; `decimals` may be a list, one for each column; null cells show `–`.
 */
export function numberTable({ caption, rows, columns, data, scale, decimals = 2, id }) {
  const cell = (number, column) => {
    const digits = Array.isArray(decimals) ? decimals[column] : decimals;
    const td = element("td", {}, number === null ? "–" : fixed(number, digits));
    if (scale && number !== null) {
      const { background, ink } = shade((0.8 * number) / scale);
      Object.assign(td.style, { background, color: ink });
    }
    return td;
  };
  const head =
    columns &&
    element(
      "thead",
      {},
      element(
        "tr",
        {},
        rows && element("td", { class: "corner" }),
        columns.map((name) => element("th", { scope: "col" }, name)),
      ),
    );
  const body = data.map((numbers, index) =>
    element("tr", {}, rows && element("th", { scope: "row" }, rows[index]), numbers.map(cell)),
  );
  const table = element(
    "table",
    { class: "numbers", id },
    caption && element("caption", {}, caption),
    head,
    element("tbody", {}, body),
  );
  return scrolling(caption ?? "Table", table);
}

/** A box that scrolls where its content is wider; only then the keyboard reaches it. */
function scrolling(label, content) {
  const box = element("div", { class: "scrolls" }, content);
  whenResized(box, () => {
    const attributes = { tabindex: "0", role: "group", "aria-label": label };
    const isWide = box.scrollWidth > box.clientWidth;
    for (const [name, value] of Object.entries(attributes))
      if (isWide) box.setAttribute(name, value);
      else box.removeAttribute(name);
  });
  return box;
}

/** One cell of a drawn grid, ten units wide; `kind` is its class. */
export function square(column, row, kind) {
  return drawn("rect", { x: column * 10 + 0.6, y: row * 10 + 0.6, width: 8.8, height: 8.8, rx: 1.6, class: kind });
}

/** A vector as a strip of cells, blue-green above zero and orange below. */
export function strip(vector, largest, { height = 16, width = 4 } = {}) {
  const canvas = element("canvas", { "aria-hidden": "true", class: "strip" });
  canvas.width = vector.length;
  canvas.height = 1;
  canvas.style.height = `${height}px`;
  canvas.style.width = width === "full" ? "100%" : `${vector.length * width}px`;
  const context = canvas.getContext("2d");
  vector.forEach((number, index) => {
    context.fillStyle = signed(number, largest);
    context.fillRect(index, 0, 1, 1);
  });
  return canvas;
}
