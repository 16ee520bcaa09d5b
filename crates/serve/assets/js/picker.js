// Which attention is looked at: kind, layer and, where it matters, head. All views share the choice.

import { element } from "./dom.js";
import { choice } from "./controls.js";

/** The controls; `withHead` adds the heads and their mean. */
export function picker(app, { withHead = false, withMean = false }, onChange) {
  const { look } = app;
  const kind = choice("Attention", [], look.kind, (value) => {
    look.kind = value;
    clamp();
    refresh(app.trace);
    onChange();
  });
  const layer = choice("Layer", [], 0, (value) => {
    look.layer = value;
    onChange();
  });
  const head = choice("Head", [], 0, (value) => {
    look.head = value;
    onChange();
  });
  let known = null;
  const node = element("div", { class: "controls" }, kind.node, layer.node, withHead && head.node);

  function clamp() {
    look.layer = Math.min(look.layer, app.trace.layers(look.kind) - 1);
    if (look.head !== "mean") look.head = Math.min(look.head, app.trace.headCount(look.kind) - 1);
  }
  function refresh(trace) {
    if (!withMean && look.head === "mean") look.head = 0;
    const kinds = trace.kinds.join(" ");
    if (kinds === known) kind.choose(look.kind);
    else kind.options(trace.kinds, look.kind);
    known = kinds;
    layer.options(places(trace.layers(look.kind)), look.layer);
    head.options([...places(trace.headCount(look.kind)), ...(withMean ? [["mean", "mean"]] : [])], look.head);
  }
  return { node, refresh };
}

function places(count) {
  return Array.from({ length: count }, (_, place) => [place, String(place)]);
}
