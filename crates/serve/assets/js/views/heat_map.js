// Heat-map: the weights of one head, or the mean of all, between tokens or words.

import { element, replace } from "../dom.js";
import { choice, slider } from "../controls.js";
import { fixed } from "../format.js";
import { SIZES, WeightMap } from "../map.js";
import { picker } from "../picker.js";
import { visible } from "../tokens.js";

export const heatMapView = {
  id: "heat-map",
  title: "Heat-map",
  about: "Rows look at columns. Arrow keys walk the cells, + and − zoom, and so does the wheel with Ctrl.",
  build,
};

const UNITS = ["tokens", "words"].map((name) => [name, name]);

function build(app) {
  const pick = picker(app, { withHead: true, withMean: true }, () => load());
  const unit = choice("Show", UNITS, "tokens", () => load());
  const range = { min: SIZES.smallest, max: SIZES.largest, value: 26, show: (size) => `${size} px` };
  const zoom = slider("Zoom", range, (size) => map.zoom(size));
  const told = element("p", { class: "told", "aria-live": "polite" });
  const map = new WeightMap({ onCell: tell, onZoom: (size) => zoom.set(size) });
  const controls = element("div", { class: "controls" }, unit.node, zoom.node);
  const node = element("div", {}, pick.node, controls, told, map.node);
  let last = null;

  function update(trace) {
    if (!trace) return;
    pick.refresh(trace);
    load();
  }

  async function load() {
    const { trace, look } = app;
    const { kind, layer, head } = look;
    if (!trace.has(kind, layer)) told.textContent = "Fetching weights …";
    try {
      const found = await trace.attention(kind, layer);
      if (app.trace !== trace || look.kind !== kind || look.layer !== layer || look.head !== head) return;
      const pieces = head === "mean" ? found.mean() : found.matrix(head);
      const byWords = unit.value === "words" && trace.json.source.words.length && trace.json.target.words.length;
      const [rows, columns] = byWords
        ? [trace.words(kind, "queries"), trace.words(kind, "keys")]
        : [trace.queries(kind), trace.keys(kind)];
      const labels = (tokens) => tokens.map((token) => visible(token.label));
      map.show(byWords ? trace.byWords(kind, pieces) : pieces, labels(rows), labels(columns), last !== trace);
      last = trace;
    } catch (error) {
      told.textContent = `${error.message}. ${error.hint ?? ""}`;
    }
  }

  function tell({ matrix, cell: [row, column], rows, columns, most }) {
    const weight = element("strong", { class: "number" }, fixed(matrix.at(row, column), 4));
    const scale = element("span", { class: "quiet" }, `  darkest ${fixed(most, 2)}`);
    replace(
      told,
      element("bdi", {}, rows[row]),
      " looks at ",
      element("bdi", {}, columns[column]),
      " with ",
      weight,
      scale,
    );
  }
  return { node, update };
}
