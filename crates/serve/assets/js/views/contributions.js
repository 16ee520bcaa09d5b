// Contributions: what the embedding, each attention and each feed-forward sub-layer add to the logit of a token.

import { element, replace } from "../dom.js";
import { ApiError, errorText, postContributions } from "../api.js";
import { list } from "../controls.js";
import { fixed } from "../format.js";
import { positionList } from "../prediction.js";
import { tokensOf } from "../app.js";
import { visible } from "../tokens.js";

export const contributionsView = {
  id: "contributions",
  title: "Contributions",
  about:
    "A logit is a sum: every layer adds to the residual stream, which the output layer reads. The final norm divides by the size of the whole sum; with that divisor held fixed, the bars add up to the logit.",
  build,
};

function build(app) {
  const position = positionList(app);
  const token = list("Logit of", [], "", (value) => app.choose(app.place.position, value === "" ? null : Number(value)));
  const panel = element("div", { class: "panel" });
  const node = element("div", {}, element("div", { class: "controls" }, position.node, token.node), panel);
  let pending = null;

  app.on("place", () => {
    // A hidden view has no box, and fetches nothing.
    if (node.offsetParent && app.trace) update(app.trace);
  });

  function update(trace) {
    if (!trace) return;
    position.refresh(trace);
    const { position: at, token: chosen } = app.place;
    const following = trace.text[at + 1];
    const { alternatives } = trace.json.predictions[at];
    const others = alternatives.filter((own) => own.id !== following?.id);
    const own = following ? [[String(following.id), `${visible(following.label)} (follows)`]] : [];
    const options = [...own, ...others.map(({ id, label }) => [String(id), visible(label)])];
    const wanted = String(chosen ?? options[0][0]);
    if (!options.some(([value]) => value === wanted)) options.push([wanted, `#${wanted}`]);
    token.options(options, wanted);
    load(trace, at, Number(wanted));
  }

  async function load(trace, at, id) {
    pending?.abort();
    pending = new AbortController();
    try {
      const { parts, targets } = await found(trace, at, id, pending.signal);
      const target = targets.find((own) => own.position === at && own.id === id);
      if (!target)
        throw new ApiError(
          "this logit is not in the file",
          "It has those of the tokens that follow; polyhead explore shows all",
        );
      if (app.trace === trace) draw(trace, parts, target);
    } catch (error) {
      if (error.name !== "AbortError") replace(panel, element("p", { class: "status bad" }, errorText(error)));
    }
  }

  function found(trace, at, id, signal) {
    if (!app.isLive) return trace.json.contributions;
    const { intervention } = trace.json;
    return postContributions({ ...tokensOf(trace), position: at, token: id, intervention }, signal);
  }

  function draw(trace, parts, target) {
    const most = Math.max(...target.values.map(Math.abs), 1e-9);
    const rows = parts.map((part, index) => {
      const value = target.values[index];
      return element(
        "tr",
        {},
        element("th", { scope: "row" }, nameOf(part)),
        element("td", { class: "diverging" }, diverging(value / most)),
        element("td", { class: "number" }, fixed(value, 3)),
        element("td", { class: "number quiet" }, fixed(target.norms[index], 2)),
      );
    });
    const sum = target.values.reduce((all, value) => all + value, 0);
    const columns = ["part", "adds to the logit", "", "length"];
    replace(
      panel,
      element(
        "h3",
        {},
        "Logit of ",
        element("bdi", {}, visible(target.label)),
        ` after position ${target.position}, `,
        element("bdi", {}, visible(trace.text[target.position].label)),
      ),
      element(
        "table",
        { class: "contributions" },
        element(
          "thead",
          {},
          element("tr", {}, columns.map((name) => (name ? element("th", { scope: "col" }, name) : element("td", {})))),
        ),
        element("tbody", {}, rows),
        element(
          "tfoot",
          {},
          element(
            "tr",
            {},
            element("th", { scope: "row" }, "sum"),
            element("td", { class: "quiet" }, `logit of the model: ${fixed(target.logit, 3)}`),
            element("td", { class: "number", id: "contribution-sum" }, fixed(sum, 3)),
            element("td", {}),
          ),
        ),
      ),
      element("p", { class: "quiet" }, "Length: the Euclidean norm of the vector that the part adds."),
    );
  }
  return { node, update };
}

function nameOf({ part, layer }) {
  return {
    embedding: "embedding",
    attention: `layer ${layer}, attention`,
    feed_forward: `layer ${layer}, feed-forward`,
    final_norm: "final norm, bias",
  }[part];
}

/** A bar from the middle: to the right for a positive share, to the left, hatched, for a negative one. */
function diverging(share) {
  const size = `${Math.abs(share) * 50}%`;
  const side = share < 0 ? { right: "50%", width: size } : { left: "50%", width: size };
  const kind = share < 0 ? "fill below" : "fill";
  return element("span", { class: "axis-bar", "aria-hidden": "true" }, element("span", { class: kind, style: side }));
}
