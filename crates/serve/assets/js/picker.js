// Controls that choose the attention: kind, layer and, where it matters, head. All views share the selection.

import { element } from "./dom.js";
import { choice } from "./controls.js";

/** The controls; `withHead` adds the heads and their mean. */
export function picker(app, { withHead = false, withMean = false }, onChange) {
  const { selection } = app;
  const kind = choice("Attention", [], selection.kind, (value) => {
    selection.kind = value;
    clamp();
    refresh(app.trace);
    onChange();
  });
  const layer = choice("Layer", [], 0, (value) => {
    selection.layer = value;
    onChange();
  });
  const head = choice("Head", [], 0, (value) => {
    selection.head = value;
    onChange();
  });
  let known = null;
  const node = element("div", { class: "controls" }, kind.node, layer.node, withHead && head.node);

  function clamp() {
    selection.layer = Math.min(selection.layer, app.trace.layers(selection.kind) - 1);
    if (selection.head !== "mean") selection.head = Math.min(selection.head, app.trace.headCount(selection.kind) - 1);
  }
  function refresh(trace) {
    if (!withMean && selection.head === "mean") selection.head = 0;
    const kinds = trace.kinds.join(" ");
    if (kinds === known) kind.choose(selection.kind);
    else kind.options(trace.kinds, selection.kind);
    known = kinds;
    layer.options(places(trace.layers(selection.kind)), selection.layer);
    head.options([...places(trace.headCount(selection.kind)), ...(withMean ? [["mean", "mean"]] : [])], selection.head);
  }
  return { node, refresh };
}

function places(count) {
  return Array.from({ length: count }, (_, index) => [index, String(index)]);
}
