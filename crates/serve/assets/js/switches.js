// Switches for heads and layers: a grid of buttons for each kind of attention, and the factor of the chosen head.

import { element, replace } from "./dom.js";
import { slider } from "./controls.js";
import { shade } from "./colour.js";
import { fixed } from "./format.js";

/** The controls and the grids; `onChange` is called after every change, with the trace that is shown. */
export function switches(onChange) {
  const factors = new Map();
  const skipped = new Set();
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
  const controls = element("div", { class: "controls factor" }, scale.node, scaled, reset);
  let chosen = null;
  let shown = null;

  function changed() {
    draw(shown);
    onChange();
  }

  /** Shows the switches of the model of a trace. */
  function draw(trace) {
    shown = trace;
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

  /** The changes as a request has them. */
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
  return { controls, grids, draw, request };
}

/** True if a request for changes has none. */
export function isUnchanged({ heads, layers }) {
  return heads.length + layers.length === 0;
}
