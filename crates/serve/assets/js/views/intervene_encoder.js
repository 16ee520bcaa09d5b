// Intervene, for an encoder: switch heads and layers off, or scale a head, and see how the output changes.

import { element, replace } from "../dom.js";
import { errorText, postEncoder } from "../api.js";
import { list } from "../controls.js";
import { textResult, tokenResult, tokenShade } from "../encoder_head.js";
import { isUnchanged, switches } from "../switches.js";
import { tokenNode, visible } from "../tokens.js";

export const interveneEncoderView = {
  id: "intervene",
  title: "Intervene",
  about:
    "Click a head to switch it off, or scale its output; click a layer's name to skip it. Left: original; right: with changes.",
  needsModel: true,
  build,
};

function build(app) {
  const position = list("Token", [], "0", (value) => app.choose(Number(value)));
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
    own.draw(trace);
    if (last?.trace !== trace) run();
    else drawSides();
  }

  function changed() {
    clearTimeout(waiting);
    waiting = setTimeout(run, 180);
  }

  async function run() {
    const { trace, request } = app;
    pending?.abort();
    pending = new AbortController();
    const intervention = own.request();
    try {
      const found = isUnchanged(intervention)
        ? trace.json
        : await postEncoder({ text: request.text, intervention, without_weights: true }, pending.signal);
      if (app.trace !== trace) return;
      last = { trace, found };
      drawSides();
    } catch (error) {
      if (error.name !== "AbortError") replace(sides, element("p", { class: "status bad" }, errorText(error)));
    }
  }

  function drawSides() {
    const { trace, found } = last;
    const hasTokens = ["masked_words", "token_classes"].includes(trace.json.head);
    position.node.hidden = !hasTokens;
    position.options(
      trace.text.map((token, at) => [String(at), `${at}: ${visible(token.label)}`]),
      String(app.place.position),
    );
    replace(sides, side("Original", trace, trace.json, null), side("With changes", trace, found, trace.json));
  }

  function side(title, trace, json, before) {
    const { position: at } = app.place;
    const tokens = trace.text.map((token, index) => {
      const shaded = tokenShade(json, index);
      const style = shaded && { background: shaded.background, color: shaded.ink };
      const isChosen = shaded && index === at;
      return tokenNode(token, { as: "span", class: isChosen ? "chosen" : "", style, title: shaded?.said });
    });
    const own = tokenResult(json, at);
    return element(
      "section",
      { class: "panel" },
      element("h3", {}, title),
      element("div", { class: "tokens" }, tokens),
      textResult(json, before),
      own && element("h4", {}, "Token ", element("bdi", {}, visible(trace.text[at].label))),
      own,
    );
  }
  return { node, update };
}
