// Vectors: the tokens of a text in the plane, and the cosines of all pairs, after the embedding and after each layer.

import { element, replace } from "../dom.js";
import { errorText } from "../api.js";
import { choice, slider } from "../controls.js";
import { fixed } from "../format.js";
import { SIZES, WeightMap } from "../map.js";
import { projectionNote, scatter } from "../scatter.js";
import { tokenRow, visible } from "../tokens.js";

export const vectorsView = {
  id: "vectors",
  title: "Vectors",
  about:
    "The vector of each token, layer by layer: tokens with similar vectors are near to each other. The same word has the same vector at first, up to its position; then each layer adds its context. Click a token to follow it.",
  build,
};

function build(app) {
  const layer = slider("Layer", { min: 0, max: 0, value: 0 }, () => draw());
  const shows = choice("Show", [["points", "points"], ["cosines", "cosines"]], "points", () => draw());
  const zoom = slider("Zoom", { min: SIZES.smallest, max: SIZES.largest, value: 26, show: (size) => `${size} px` }, (size) =>
    map.zoom(size),
  );
  const tokens = element("div", { class: "stage" });
  const figure = element("div", { class: "panel plane" });
  const readout = element("p", { class: "readout", "aria-live": "polite" });
  const map = new WeightMap({ onCell: describe, onZoom: (size) => zoom.set(size), about: "cosines" });
  const node = element(
    "div",
    { class: "strip-view" },
    element("div", { class: "controls" }, layer.node, shows.node, zoom.node),
    tokens,
    figure,
    map.node,
    readout,
  );
  let layers = null;
  let last = null;
  let nodes = [];

  app.on("place", () => {
    if (node.offsetParent && layers) draw();
  });

  async function update(trace) {
    if (!trace) return;
    if (last === trace) return draw();
    layers = null;
    readout.textContent = "Fetching vectors …";
    try {
      const found = await trace.states();
      if (app.trace !== trace) return undefined;
      layers = found;
    } catch (error) {
      readout.textContent = errorText(error);
      [tokens, figure, map.node].forEach((part) => (part.hidden = true));
      return undefined;
    }
    const isNew = last === null;
    last = trace;
    const input = layer.node.querySelector("input");
    input.max = layers.length - 1;
    layer.set(isNew ? layers.length - 1 : Math.min(layer.value, layers.length - 1));
    const row = tokenRow("Tokens", trace.text, (_, position) => ({ onclick: () => app.choose(position) }));
    nodes = row.nodes;
    replace(tokens, row.box);
    tokens.hidden = false;
    draw();
    return undefined;
  }

  function draw() {
    const { trace } = app;
    if (!layers || !trace) return;
    const own = layers[layer.value];
    const { position } = app.place;
    layer.node.querySelector("output").textContent = own.name;
    layer.node.querySelector("input").setAttribute("aria-valuetext", own.name);
    nodes.forEach((token, at) => {
      token.classList.toggle("chosen", at === position);
      token.setAttribute("aria-pressed", String(at === position));
    });
    const isPlane = shows.value === "points";
    [figure.hidden, map.node.hidden, zoom.node.hidden] = [!isPlane, isPlane, isPlane];
    if (isPlane) {
      const points = trace.text.map((token, at) => ({
        place: own.places[at],
        label: token.label,
        isChosen: at === position,
        isQuiet: token.id !== trace.text[position].id,
      }));
      const label = `${own.name}: vectors of ${trace.text.length} tokens in the plane`;
      replace(figure, scatter(points, { label, onPick: (at) => app.choose(at) }), projectionNote(own.variance));
      replace(readout, ...near(trace, own, position));
    } else {
      const labels = trace.text.map((token) => visible(token.label));
      map.show(own.similarities, labels, labels, map.trace !== trace);
      map.trace = trace;
    }
  }

  function describe({ cell: [row, column], matrix }) {
    if (shows.value === "points" || !app.trace) return;
    const name = (at) => element("bdi", {}, visible(app.trace.text[at].label));
    replace(
      readout,
      "Cosine of ",
      name(row),
      ` (${row}) and `,
      name(column),
      ` (${column}): `,
      element("strong", { class: "number" }, fixed(matrix.at(row, column), 4)),
    );
  }
  return { node, update };
}

/** The tokens that are most similar to one, as a sentence. */
function near(trace, { name, similarities }, position) {
  const row = similarities.row(position);
  const others = [...row.keys()].filter((other) => other !== position).sort((a, b) => row[b] - row[a]);
  const some = others.slice(0, 4).flatMap((other, index) => [
    index > 0 && ", ",
    element("bdi", {}, visible(trace.text[other].label)),
    ` (${other}) ${fixed(row[other])}`,
  ]);
  return [
    `${name[0].toUpperCase()}${name.slice(1)}: most similar to `,
    element("bdi", {}, visible(trace.text[position].label)),
    ` (${position}) `,
    some.length ? "are " : "is no other token",
    ...some,
    ".",
  ];
}
