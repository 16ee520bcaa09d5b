// Intervene: switch heads and layers off, or scale a head, and see how the translation changes.

import { element, replace } from "../dom.js";
import { errorText, postTrace } from "../api.js";
import { fixed, percent } from "../format.js";
import { isUnchanged, switches } from "../switches.js";
import { readable, tokenNode } from "../tokens.js";

export const interveneView = {
  id: "intervene",
  title: "Intervene",
  about:
    "Click a head to switch it off, or scale its output; click a layer's name to skip it. Left: original; right: with changes.",
  needsModel: true,
  build,
};

function build(app) {
  const sides = element("div", { class: "sides" });
  const own = switches(changed);
  const node = element("div", {}, sides, own.controls, own.grids);
  let waiting = 0;
  let pending = null;
  let last = null;

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
    const { trace } = app;
    const { text, from, to, as_is: asIs, beam_size: beamSize, prefix } = app.request;
    const segment = app.translation?.segment ?? null;
    pending?.abort();
    pending = new AbortController();
    const intervention = own.request();
    const base = { text, from, to, as_is: asIs, segment, prefix, beam_size: beamSize, without_weights: true, intervention };
    try {
      const [found, rescored] = isUnchanged(intervention)
        ? [trace.json, trace.json]
        : await Promise.all([
            postTrace(base, pending.signal),
            postTrace({ ...base, beam_size: 1, prefix: trace.target.map((token) => token.id) }, pending.signal),
          ]);
      if (app.trace !== trace) return;
      last = { trace, found, rescored };
      drawSides();
    } catch (error) {
      if (error.name !== "AbortError")
        replace(sides, element("p", { class: "status bad" }, errorText(error)));
    }
  }

  function drawSides() {
    const { trace, found, rescored } = last;
    const before = trace.json;
    const old = new Set(before.target.tokens.map((token) => token.label));
    replace(
      sides,
      side("Original", before, () => false, [
        ["score", before.score],
        ["log-probability", before.log_probability],
      ]),
      side("With changes", found, (token) => !old.has(token.label), [
        ["score", found.score, before.score],
        ["log-probability", found.log_probability, before.log_probability],
        ["log-probability of the original", rescored.log_probability, before.log_probability],
      ]),
    );
  }
  return { node, update };
}

function side(title, json, isNew, facts) {
  const tokens = json.target.tokens.map((token, index) => {
    const probability = Math.exp(json.steps[index].log_probability);
    const own = tokenNode(token, { as: "span", class: isNew(token) ? "new" : "" });
    own.title = percent(probability);
    own.append(
      element("span", { class: "sure", style: { width: `${Math.round(probability * 100)}%` }, "aria-hidden": "true" }),
    );
    return own;
  });
  const fact = ([name, number, before]) =>
    element(
      "div",
      {},
      element("dt", {}, name),
      element(
        "dd",
        { class: "number" },
        fixed(number, 3),
        before !== undefined &&
          number !== before &&
          element(
            "span",
            { class: number < before ? "down" : "up" },
            ` ${number < before ? "▼" : "▲"} ${fixed(Math.abs(number - before), 3)}`,
          ),
      ),
    );
  return element(
    "section",
    { class: "panel" },
    element("h3", {}, title),
    element("p", { class: "plain", dir: "auto" }, readable(json.target.text || " ")),
    element("div", { class: "tokens" }, tokens),
    element("dl", { class: "facts" }, facts.map(fact)),
  );
}
