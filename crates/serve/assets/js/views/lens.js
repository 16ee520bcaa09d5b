// Lens: what the model would predict if each layer were the last one.

import { element, replace } from "../dom.js";
import { errorText, postLens } from "../api.js";
import { slider } from "../controls.js";
import { shade } from "../colour.js";
import { percent } from "../format.js";
import { arrowKeys, rove } from "../keys.js";
import { distribution, facts } from "../prediction.js";
import { tokensOf } from "../app.js";
import { visible } from "../tokens.js";

/** Positions at once. */
const PAGE = 48;

export const lensView = {
  id: "lens",
  title: "Lens",
  about:
    "The logit lens: the final norm and the output layer, applied after each layer. A cell has the most probable next token; the stronger its colour, the more probable it is. Framed cells predict the token that follows. The last row is the model's output.",
  build,
};

function build(app) {
  const page = slider("From token", { min: 0, max: 0, value: 0 }, () => load());
  const table = element("div", { class: "scrolls panel" });
  const detail = element("div", { class: "choices" });
  const node = element("div", {}, element("div", { class: "controls" }, page.node), table, detail);
  let shown = null;
  let chosen = null;
  let pending = null;

  function update(trace) {
    if (!trace) return;
    const most = Math.max(trace.text.length - PAGE, 0);
    page.node.hidden = most === 0;
    page.node.querySelector("input").max = most;
    page.set(Math.min(page.value, most));
    load();
  }

  async function load() {
    const { trace } = app;
    const count = Math.min(PAGE, trace.text.length - page.value);
    if (shown?.trace === trace && shown.first === page.value) return draw();
    pending?.abort();
    pending = new AbortController();
    try {
      const lens = await found(trace, page.value, count, pending.signal);
      if (app.trace !== trace) return undefined;
      shown = { trace, first: page.value, layers: lens };
      const position = Math.min(Math.max(app.place.position - page.value, 0), count - 1);
      chosen = { layer: lens.length - 1, position };
      draw();
    } catch (error) {
      if (error.name !== "AbortError") {
        shown = null;
        replace(table, element("p", { class: "status bad" }, errorText(error)));
        replace(detail);
      }
    }
    return undefined;
  }

  /** The layers with the distributions at some positions. */
  async function found(trace, first, count, signal) {
    if (app.isLive) {
      const { intervention } = trace.json;
      return (await postLens({ ...tokensOf(trace), first, count, intervention }, signal)).layers;
    }
    const { start, layers } = trace.json.lens;
    const own = (layer) => ({ ...layer, predictions: layer.predictions.slice(first - start, first - start + count) });
    return layers.map(own);
  }

  function draw() {
    const { trace, first, layers } = shown;
    const tokens = trace.text.slice(first, first + layers[0].predictions.length);
    const head = tokens.map((token, own) =>
      element(
        "th",
        { scope: "col", title: `position ${first + own}` },
        element("bdi", { dir: "auto" }, visible(token.label)),
      ),
    );
    const cells = [];
    const rows = layers.map(({ layer, predictions }, row) =>
      element(
        "tr",
        {},
        element("th", { scope: "row" }, nameOf(layer)),
        predictions.map((prediction, column) => {
          const cell = button(prediction, trace.text[first + column + 1]?.id, { row, column, name: nameOf(layer) });
          cells.push(cell);
          return element("td", {}, cell);
        }),
      ),
    );
    const body = element("tbody", {}, rows);
    replace(
      table,
      element(
        "table",
        { class: "lens" },
        element("thead", {}, element("tr", {}, element("td", {}), head)),
        body,
      ),
    );
    const width = tokens.length;
    rove(cells, cells[chosen.layer * width + chosen.position]);
    grid(body, cells, width);
    describe();
  }

  function button(prediction, followingId, { row, column, name }) {
    const [best] = prediction.alternatives;
    const probability = Math.exp(best.log_probability);
    const { background, ink } = shade(0.85 * probability);
    const isNext = best.id === followingId;
    return element(
      "button",
      {
        type: "button",
        class: `cell${isNext ? " hit" : ""}`,
        style: { background, color: ink },
        "aria-label": `${name}, position ${shown.first + column}: ${visible(best.label)}, ${percent(probability)}${isNext ? ", follows" : ""}`,
        title: percent(probability),
        onclick: () => choose(row, column),
        onfocus: () => choose(row, column),
      },
      element("bdi", { dir: "auto" }, visible(best.label)),
    );
  }

  function choose(layer, position) {
    if (chosen.layer === layer && chosen.position === position) return;
    chosen = { layer, position };
    app.choose(shown.first + position);
    describe();
  }

  function describe() {
    const { trace, first, layers } = shown;
    const { layer, predictions } = layers[chosen.layer];
    const prediction = predictions[chosen.position];
    const position = first + chosen.position;
    table
      .querySelectorAll(".cell")
      .forEach((cell, own) =>
        cell.classList.toggle("chosen", own === chosen.layer * predictions.length + chosen.position),
      );
    replace(
      detail,
      element(
        "div",
        { class: "panel" },
        element(
          "h3",
          {},
          `After position ${position}, `,
          element("bdi", {}, visible(trace.text[position].label)),
          `: ${layer === null ? "the embedding alone" : `as if layer ${layer} were the last`}`,
        ),
        distribution(prediction, trace.text[position + 1]?.id, null),
        facts(prediction),
      ),
    );
  }
  return { node, update };
}

/** Arrow keys up and down move by rows, left and right by columns. */
function grid(box, cells, width) {
  arrowKeys(box, () => cells, { vertical: false });
  box.addEventListener("keydown", (event) => {
    const step = { ArrowDown: width, ArrowUp: -width }[event.key];
    const next = step && cells[cells.indexOf(document.activeElement) + step];
    if (!next) return;
    event.preventDefault();
    rove(cells, next);
    next.focus();
  });
}

function nameOf(layer) {
  return layer === null ? "embedding" : `layer ${layer}`;
}
