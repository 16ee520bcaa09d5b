// Intervene, for a language model: switch heads and layers off, or scale a head, and see how the next token changes.

import { element, replace } from "../dom.js";
import { errorText, postText } from "../api.js";
import { fixed } from "../format.js";
import { distribution, facts, positionList, said, surpriseShade, surprisal } from "../prediction.js";
import { isUnchanged, switches } from "../switches.js";
import { tokensOf } from "../app.js";
import { tokenNode } from "../tokens.js";

export const interveneTextView = {
  id: "intervene",
  title: "Intervene",
  about:
    "Click a head to switch it off, or scale its output; click a layer's name to skip it. Left: original; right: with changes.",
  needsModel: true,
  build,
};

function build(app) {
  const position = positionList(app);
  const sides = element("div", { class: "sides" });
  const own = switches(changed);
  const choice = element("div", { class: "controls" }, position.node);
  const node = element("div", {}, choice, sides, own.controls, own.grids);
  let waiting = 0;
  let pending = null;
  let last = null;

  app.on("place", () => {
    if (node.offsetParent && last && last.trace === app.trace) drawSides();
  });

  function update(trace) {
    if (!trace) return;
    position.refresh(trace);
    own.draw(trace);
    if (last?.trace !== trace) run();
    else drawSides();
  }

  function changed() {
    clearTimeout(waiting);
    waiting = setTimeout(run, 180);
  }

  async function run() {
    const { trace } = app;
    pending?.abort();
    pending = new AbortController();
    const intervention = own.request();
    try {
      const found = isUnchanged(intervention)
        ? trace.json
        : await postText({ ...tokensOf(trace), intervention, without_weights: true }, pending.signal);
      if (app.trace !== trace) return;
      last = { trace, found };
      drawSides();
    } catch (error) {
      if (error.name !== "AbortError") replace(sides, element("p", { class: "status bad" }, errorText(error)));
    }
  }

  function drawSides() {
    const { trace, found } = last;
    position.refresh(trace);
    replace(sides, side("Original", trace, trace.json, null), side("With changes", trace, found, trace.json));
  }

  function side(title, trace, json, before) {
    const { position: at } = app.place;
    const tokens = trace.text.map((token, index) => {
      const { background, ink } = surpriseShade(surprisal(json.predictions, index));
      const style = { background, color: ink };
      const isChosen = index === at;
      return tokenNode(token, { as: "span", class: isChosen ? "chosen" : "", style, title: said({ json }, index) });
    });
    const number = json.log_probability;
    const change = before ? number - before.log_probability : 0;
    return element(
      "section",
      { class: "panel" },
      element("h3", {}, title),
      element("div", { class: "tokens" }, tokens),
      element(
        "p",
        { class: "quiet" },
        "Log-probability of the text: ",
        element("span", { class: "number" }, fixed(number, 3)),
        change !== 0 &&
          element("span", { class: "number" }, ` ${change < 0 ? "▼" : "▲"} ${fixed(Math.abs(change), 3)}`),
      ),
      distribution(json.predictions[at], trace.text[at + 1]?.id, null),
      facts(json.predictions[at]),
    );
  }
  return { node, update };
}
