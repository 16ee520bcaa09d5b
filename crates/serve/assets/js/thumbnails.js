// A table of small pictures, one for each head of each layer of a kind of attention; clicking one selects the head.

import { element } from "./dom.js";
import { errorText } from "./api.js";
import { fixed } from "./format.js";

/** The table in a panel with the nodes of `title`; `paint(canvas, matrix)` draws a head, `view` is the view of a selected head. */
export function thumbnails(app, { trace, kind, title, paint, view }) {
  const heads = Array.from({ length: trace.headCount(kind) }, (_, head) => head);
  const rows = Array.from({ length: trace.layers(kind) }, (_, layer) => {
    const cells = heads.map((head) => thumbnail(app, { kind, layer, head, view }));
    fill(trace, { kind, layer, cells, paint, isShown: () => app.trace === trace });
    return element(
      "tr",
      {},
      element("th", { scope: "row" }, `layer ${layer}`),
      cells.map((cell) => element("td", {}, cell.button)),
    );
  });
  const columns = heads.map((head) => element("th", { scope: "col" }, `head ${head}`));
  const table = element(
    "table",
    { class: "thumbs" },
    element("thead", {}, element("tr", {}, element("td", {}), columns)),
    element("tbody", {}, rows),
  );
  return element("section", { class: "panel" }, element("h3", {}, title), element("div", { class: "scrolls" }, table));
}

function thumbnail(app, { kind, layer, head, view }) {
  const canvas = element("canvas", { "aria-hidden": "true" });
  const number = element("span", { class: "number" }, " ");
  const open = () => {
    Object.assign(app.selection, { kind, layer, head });
    location.hash = view;
  };
  const label = `${kind}, layer ${layer}, head ${head}`;
  const button = element("button", { type: "button", class: "thumb", "aria-label": label, onclick: open }, canvas, number);
  return { button, canvas, number, head };
}

async function fill(trace, { kind, layer, cells, paint, isShown }) {
  const found = await trace.attention(kind, layer).catch((error) => {
    cells.forEach((cell) => cell.button.setAttribute("title", errorText(error)));
  });
  if (!found || !isShown()) return;
  for (const cell of cells) {
    if (!found.heads.includes(cell.head)) continue;
    paint(cell.canvas, found.matrix(cell.head));
    cell.number.textContent = fixed(found.entropy[found.heads.indexOf(cell.head)], 1);
  }
}
