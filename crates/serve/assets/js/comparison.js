// Words compared in their contexts: the occurrences, their vectors in the plane layer by layer, and their cosines.

import { drawn, element, replace } from "./dom.js";
import { slider } from "./controls.js";
import { headVariable } from "./colour.js";
import { numberTable } from "./figures.js";
import { fixed } from "./format.js";
import { projectionNote, scatter } from "./scatter.js";
import { layerName } from "./trace.js";
import { visible } from "./tokens.js";

/** Pairs with a line and a column of their own. */
const MAX_PAIRS = 6;

/** The figure; `show(comparison)` shows the JSON of a comparison, with its last layer. */
export function comparisonFigure() {
  const list = element("ol", { class: "occurrences" });
  const layer = slider("Layer", { min: 0, max: 0, value: 0 }, () => draw());
  const readout = element("p", { class: "result", "aria-live": "polite", id: "comparison-readout" });
  const plane = element("div", { class: "panel plane" });
  const lines = element("div", { class: "panel" });
  const node = element(
    "div",
    { class: "comparison" },
    list,
    element("div", { class: "knobs" }, layer.node),
    readout,
    plane,
    lines,
  );
  let shown = null;

  function show(comparison) {
    shown = comparison;
    const { layers, occurrences } = comparison;
    replace(list, occurrences.map((own, index) => element("li", {}, disc(index), context(comparison, own))));
    const input = layer.node.querySelector("input");
    input.max = layers.length - 1;
    layer.set(layers.length - 1);
    draw();
  }

  function draw() {
    if (!shown) return;
    const { layers, points, occurrences } = shown;
    const own = layers[layer.value];
    layer.node.querySelector("output").textContent = layerName(own.layer);
    layer.node.querySelector("input").setAttribute("aria-valuetext", layerName(own.layer));
    replace(readout, said(shown, own));
    const picture = scatter(
      points.map(({ label, occurrence }, index) => ({
        place: own.places[index],
        label,
        number: occurrence === null ? null : occurrence + 1,
        isQuiet: occurrence === null,
      })),
      { label: `${layerName(own.layer)}: ${occurrences.length} vectors of the word among those of the other tokens` },
    );
    replace(plane, picture, projectionNote(own.variance));
    replace(lines, chart(shown, layer.value), table(shown));
  }
  return { node, show, draw };
}

/** The number of an occurrence in its colour. */
function disc(index) {
  return element("span", { class: "disc number", style: { "--own": headVariable(index) } }, String(index + 1));
}

/** An occurrence in its text, with its word marked. */
function context({ texts }, { text, start, end }) {
  const bytes = new TextEncoder().encode(texts[text].text);
  const part = (from, to) => visible(new TextDecoder().decode(bytes.subarray(from, to)));
  const around = (own) => (own === "␣" ? "" : own);
  return element(
    "span",
    { dir: "auto" },
    around(part(0, start)),
    element("mark", {}, part(start, end)),
    around(part(end, bytes.length)),
  );
}

/** The cosines of a layer as a sentence. */
function said({ occurrences }, { layer, similarities, others }) {
  const cosines = pairsOf(occurrences.length).map(([a, b]) => similarities[a][b]);
  const mean = cosines.reduce((sum, own) => sum + own, 0) / cosines.length;
  const name = layer === "embedding" ? "the embedding" : layer === "output" ? "the last norm" : layerName(layer);
  return [
    `After ${name} the cosine of `,
    cosines.length === 1 ? "the two vectors is " : `the ${cosines.length} pairs is on average `,
    element("strong", { class: "number" }, fixed(mean)),
    others === null ? "." : ["; of other tokens it is ", element("span", { class: "number" }, fixed(others)), "."],
  ];
}

function pairsOf(count) {
  return Array.from({ length: count }, (_, a) => Array.from({ length: count - a - 1 }, (_other, b) => [a, a + 1 + b])).flat();
}

/** Lines of the chart: each pair, or their mean, and the mean of other tokens. */
function seriesOf({ occurrences, layers }) {
  const pairs = pairsOf(occurrences.length);
  const series =
    pairs.length <= MAX_PAIRS
      ? pairs.map(([a, b], index) => ({
          name: `${a + 1} and ${b + 1}`,
          colour: headVariable(index),
          values: layers.map(({ similarities }) => similarities[a][b]),
        }))
      : [
          {
            name: `mean of ${pairs.length} pairs`,
            colour: headVariable(0),
            values: layers.map(({ similarities }) => pairs.reduce((sum, [a, b]) => sum + similarities[a][b], 0) / pairs.length),
          },
        ];
  const others = layers.map((own) => own.others);
  if (others.every((own) => own !== null)) series.push({ name: "others", colour: "var(--soft)", dash: "5 4", values: others });
  return series;
}

function chart(comparison, current) {
  const [width, height, left, right] = [innerWidth < 560 ? 300 : 460, 150, 26, 8];
  const series = seriesOf(comparison);
  const count = comparison.layers.length;
  const least = Math.min(0, ...series.flatMap(({ values }) => values));
  const x = (index) => left + ((width - left - right) * index) / Math.max(count - 1, 1);
  const y = (value) => 8 + ((height - 16) * (1 - value)) / (1 - least);
  const path = (values) => values.map((value, index) => `${index ? "L" : "M"}${x(index).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  const tick = (value) => [
    drawn("line", { x1: left, x2: width - right, y1: y(value), y2: y(value), class: "grid" }),
    drawn("text", { x: left - 6, y: y(value) + 4, class: "tick" }, fixed(value, 1)),
  ];
  return drawn(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, class: "cosines", role: "img", "aria-label": "Cosines after each layer; the table has the numbers" },
    [0, 0.5, 1].map(tick),
    drawn("line", { x1: x(current), x2: x(current), y1: 4, y2: height - 4, class: "mark" }),
    series.map(({ values, colour, dash }) =>
      drawn("path", { d: path(values), style: { stroke: colour }, "stroke-dasharray": dash, class: "line" }),
    ),
  );
}

function table(comparison) {
  const series = seriesOf(comparison);
  return numberTable({
    caption: "cosine after each layer; others: mean of all other pairs of tokens",
    id: "comparison-cosines",
    rows: comparison.layers.map(({ layer }) => layerName(layer)),
    columns: series.map(({ name }) => name),
    data: comparison.layers.map((_, index) => series.map(({ values }) => values[index])),
    decimals: 3,
  });
}
