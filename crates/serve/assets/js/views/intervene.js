// Intervene: switch heads and layers off, or scale a head, and see how the translation changes.

import { element, replace } from "../dom.js";
import { errorText, postTrace } from "../api.js";
import { slider } from "../controls.js";
import { shade } from "../colour.js";
import { fixed, percent } from "../format.js";
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
  const factors = new Map();
  const skipped = new Set();
  const sides = element("div", { class: "sides" });
  const grids = element("div", { class: "grids" });
  const scale = slider(
    "Factor",
    { min: 0, max: 2, step: 0.05, value: 1, show: (number) => fixed(number) },
    (number) => {
      if (chosen) {
        factors.set(chosen, number);
        changed();
      }
    },
  );
  const scaled = element("span", { class: "quiet" }, "Select a head, then set its factor.");
  const reset = element(
    "button",
    {
      type: "button",
      onclick: () => {
        factors.clear();
        skipped.clear();
        chosen = null;
        scale.set(1);
        changed();
      },
    },
    "Reset",
  );
  const node = element(
    "div",
    {},
    sides,
    element("div", { class: "controls factor" }, scale.node, scaled, reset),
    grids,
  );
  let chosen = null;
  let waiting = 0;
  let pending = null;
  let last = null;

  function update(trace) {
    if (!trace) return;
    drawGrids(trace);
    if (last?.trace !== trace) run();
    else drawSides();
  }

  function changed() {
    drawGrids(app.trace);
    clearTimeout(waiting);
    waiting = setTimeout(run, 180);
  }

  function drawGrids(trace) {
    const focused = document.activeElement?.dataset?.name;
    replace(
      grids,
      trace.kinds.map(([kind, name]) =>
        element(
          "section",
          { class: "panel" },
          element("h3", {}, name),
          element(
            "div",
            { class: "scrolls" },
            element(
              "table",
              { class: "switches" },
              element(
                "tbody",
                {},
                Array.from({ length: trace.layers(kind) }, (_, layer) => row(trace, kind, layer)),
              ),
            ),
          ),
        ),
      ),
    );
    if (focused) grids.querySelector(`[data-name="${focused}"]`)?.focus();
    scaled.textContent = chosen
      ? `of ${chosen.replace(/ (\d+) /, " layer $1 head ")}`
      : "Select a head, then set its factor.";
    reset.disabled = factors.size + skipped.size === 0;
  }

  function row(trace, kind, layer) {
    const { stack } = trace.sites.get(kind);
    const layerName = `${stack} ${layer}`;
    const isOff = skipped.has(layerName);
    const toggle = () => {
      if (!skipped.delete(layerName)) skipped.add(layerName);
      changed();
    };
    const button = element(
      "button",
      {
        type: "button",
        class: "layer",
        "data-name": `${kind}-${layerName}`,
        "aria-pressed": String(!isOff),
        onclick: toggle,
      },
      `layer ${layer}`,
    );
    const heads = Array.from({ length: trace.headCount(kind) }, (_, head) => {
      const name = `${kind} ${layer} ${head}`;
      const factor = factors.get(name) ?? 1;
      const press = () => {
        const wasChosen = chosen === name;
        chosen = name;
        if (wasChosen || !factors.has(name)) {
          if (factors.has(name)) factors.delete(name);
          else factors.set(name, 0);
        }
        scale.set(factors.get(name) ?? 1);
        changed();
      };
      const { background, ink } = shade(isOff ? 0 : Math.min(factor, 2) * 0.36);
      return element(
        "td",
        {},
        element(
          "button",
          {
            type: "button",
            class: `head${chosen === name ? " chosen" : ""}${factor === 0 || isOff ? " off" : ""}`,
            "data-name": name,
            disabled: isOff,
            "aria-label": `${kind}, layer ${layer}, head ${head}: ${factor === 0 ? "off" : fixed(factor)}`,
            "aria-pressed": String(factor !== 0),
            style: { background, color: ink },
            onclick: press,
          },
          factor === 1 ? String(head) : factor === 0 ? "off" : `×${fixed(factor)}`,
        ),
      );
    });
    return element("tr", {}, element("th", { scope: "row" }, button), heads);
  }

  function request() {
    const heads = [...factors]
      .filter(([, factor]) => factor !== 1)
      .map(([name, factor]) => {
        const [kind, layer, head] = name.split(" ");
        return { kind, layer: Number(layer), head: Number(head), factor };
      });
    const layers = [...skipped].map((name) => ({ stack: name.split(" ")[0], layer: Number(name.split(" ")[1]) }));
    return { heads, layers };
  }

  async function run() {
    const { trace } = app;
    const { text, from, to, as_is: asIs, beam_size: beamSize, prefix } = app.request;
    const segment = app.translation?.segment ?? null;
    pending?.abort();
    pending = new AbortController();
    const intervention = request();
    const base = { text, from, to, as_is: asIs, segment, prefix, beam_size: beamSize, without_weights: true, intervention };
    try {
      const isPlain = intervention.heads.length + intervention.layers.length === 0;
      const [found, rescored] = isPlain
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
