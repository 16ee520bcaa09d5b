// Heat-map: the weights of one head, or the mean of all, between tokens or words.

import { errorText } from "../api.js";
import { element, replace } from "../dom.js";
import { choice, slider } from "../controls.js";
import { fixed } from "../format.js";
import { SIZES, WeightMap } from "../map.js";
import { picker } from "../picker.js";
import { visible } from "../tokens.js";

export const heatMapView = {
  id: "heat-map",
  title: "Heat-map",
  about: "Rows attend to columns. Arrow keys move between cells; + and −, or Ctrl and the mouse wheel, zoom.",
  build,
};

const UNITS = ["tokens", "words"].map((name) => [name, name]);

function build(app) {
  const pick = picker(app, { withHead: true, withMean: true }, () => load());
  const unit = choice("Show", UNITS, "tokens", () => load());
  const range = { min: SIZES.smallest, max: SIZES.largest, value: 26, show: (size) => `${size} px` };
  const zoom = slider("Zoom", range, (size) => map.zoom(size));
  const readout = element("p", { class: "readout", "aria-live": "polite" });
  const map = new WeightMap({ onCell: describe, onZoom: (size) => zoom.set(size) });
  const controls = element("div", { class: "controls" }, unit.node, zoom.node);
  const node = element("div", {}, pick.node, controls, map.node, readout);
  let last = null;

  function update(trace) {
    if (!trace) return;
    pick.refresh(trace);
    load();
  }

  async function load() {
    const { trace, selection } = app;
    const { kind, layer, head } = selection;
    if (!trace.has(kind, layer)) readout.textContent = "Fetching weights …";
    try {
      const found = await trace.attention(kind, layer);
      if (app.trace !== trace || selection.kind !== kind || selection.layer !== layer || selection.head !== head) return;
      const pieces = head === "mean" ? found.mean() : found.matrix(head);
      const byWords = unit.value === "words" && trace.hasWords;
      const [rows, columns] = byWords
        ? [trace.words(kind, "queries"), trace.words(kind, "keys")]
        : [trace.queries(kind), trace.keys(kind)];
      const labels = (tokens) => tokens.map((token) => visible(token.label));
      map.show(byWords ? trace.byWords(kind, pieces) : pieces, labels(rows), labels(columns), last !== trace);
      last = trace;
    } catch (error) {
      readout.textContent = errorText(error);
    }
  }

  function describe({ matrix, cell: [row, column], rows, columns, most }) {
    const weight = element("strong", { class: "number" }, fixed(matrix.at(row, column), 4));
    const scale = element("span", { class: "quiet" }, ` (darkest: ${fixed(most, 2)})`);
    replace(
      readout,
      element("bdi", {}, rows[row]),
      " attends to ",
      element("bdi", {}, columns[column]),
      " with weight ",
      weight,
      scale,
    );
  }
  return { node, update };
}
