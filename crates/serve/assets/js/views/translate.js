// Translate: the growing translation, the attention of each token, its probability, and its alternatives.

import { errorText } from "../api.js";
import { element, replace } from "../dom.js";
import { list } from "../controls.js";
import { shade } from "../colour.js";
import { bar } from "../figures.js";
import { fixed, percent } from "../format.js";
import { curves, sized, whenResized } from "../lines.js";
import { byteLabel, pieceLabels, readable, tokenRow, visible } from "../tokens.js";

export const translateView = {
  id: "translate",
  title: "Translate",
  about: "Point at a token of the translation to see what it attends to; click a token to see alternatives.",
  showsAlways: true,
  build,
};

function build(app) {
  const from = list("Attention from", [["mean", "mean of the heads"]], "mean", () => load());
  const canvas = element("canvas", { class: "between", "aria-hidden": "true" });
  const stage = element("div", { class: "stage" });
  const readout = element("p", { class: "readout quiet", "aria-live": "polite" });
  const choices = element("div", { class: "choices" });
  const node = element(
    "div",
    { class: "translate" },
    element("div", { class: "controls" }, from.node),
    stage,
    readout,
    choices,
  );
  let shown = null;
  let index = 0;
  let last = null;

  app.on("started", (request) => grow({ text: "" }, request));
  app.on("growth", (growth) => grow(growth, app.request));
  app.on("ended", () => update(app.trace));
  app.on("focus", () => {
    if (app.focus?.view === "translate") update(app.trace);
  });

  /** Shows the growing translation. */
  function grow(growth, request) {
    shown = null;
    replace(choices);
    readout.textContent = "";
    const text = growth.text || " ";
    replace(
      stage,
      side("Source", element("p", { class: "plain", dir: "auto" }, request.text)),
      side("Translation", element("p", { class: "plain growing", dir: "auto" }, readable(text))),
    );
  }

  function update(trace) {
    if (app.running) return;
    if (!trace) {
      shown = null;
      replace(stage, element("p", { class: "quiet" }, blank(app)));
      replace(choices);
      readout.textContent = "";
      return;
    }
    const site = trace.json.alignment_site;
    const layers = site ? trace.layers(site.kind) : 0;
    const options = Array.from({ length: layers }, (_, layer) => [String(layer), `layer ${layer}, mean of heads`]);
    if (trace.json.rollout) options.push(["rollout", "all layers (rollout)"]);
    from.options(options, options.some(([own]) => own === from.value) ? from.value : String(site?.layer ?? ""));
    const source = tokenRow("Source tokens", trace.source, () => ({ as: "span" }));
    const target = tokenRow("Target tokens", trace.target, (token, own) => ({
      "aria-label": `${visible(token.label)}, ${percent(Math.exp(trace.json.steps[own].log_probability))}`,
      onpointerenter: () => highlight(own),
      onfocus: () => highlight(own),
      onclick: () => choose(own),
    }));
    trace.json.steps.forEach((step, own) => showProbability(target.nodes[own], step));
    replace(
      stage,
      canvas,
      side(app.isLive ? "Model reads" : "Source", source.box),
      side(app.isLive ? "Model writes" : "Translation", [
        target.box,
        element("p", { class: "plain whole", dir: "auto" }, readable(trace.json.target.text)),
      ]),
    );
    index = app.takeFocus("translate")?.row ?? (last === trace ? index : 0);
    last = trace;
    shown = { trace, source, target, weights: null };
    replace(choices);
    load();
  }

  async function load() {
    const own = shown;
    if (!own) return;
    const weights = await weightsOf(own.trace).catch((error) => {
      readout.textContent = errorText(error);
    });
    if (!weights || shown !== own) return;
    own.weights = weights;
    highlight(index);
  }

  async function weightsOf(trace) {
    const kind = trace.json.alignment_site?.kind;
    if (!kind) return null;
    if (from.value === "rollout") return trace.rollout(kind);
    return (await trace.attention(kind, Number(from.value))).mean();
  }

  function highlight(own) {
    if (!shown?.weights) return;
    index = own;
    const row = shown.weights.row(own);
    const most = Math.max(...row, 1e-9);
    shown.target.nodes.forEach((token, other) => token.classList.toggle("active", other === own));
    shown.source.nodes.forEach((token, key) => {
      const { background, ink } = shade((0.85 * row[key]) / Math.max(most, 0.25));
      token.style.background = background;
      token.style.color = ink;
    });
    draw(row, most);
    const best = [...row.keys()].sort((a, b) => row[b] - row[a]).slice(0, 4);
    const parts = best.map((key) => `${visible(shown.trace.source[key].label)} ${fixed(row[key])}`);
    replace(readout, element("bdi", {}, visible(shown.trace.target[own].label)), ` attends to ${parts.join(", ")}`);
  }

  function draw(row, most) {
    const box = stage.getBoundingClientRect();
    const context = sized(canvas, box.width, box.height);
    const middle = (token, side_) => {
      const own = token.getBoundingClientRect();
      return [own.left + own.width / 2 - box.left, (side_ === "below" ? own.bottom : own.top) - box.top];
    };
    const from_ = middle(shown.target.nodes[index], "above");
    const all = shown.source.nodes.map((token, key) => ({
      from: from_,
      to: middle(token, "below"),
      weight: row[key] / most,
      colour: "var(--accent)",
    }));
    curves(
      context,
      all.filter((curve) => curve.weight > 0.03),
      "y",
    );
  }
  whenResized(stage, () => {
    if (shown?.weights) highlight(index);
  });

  /** Shows the alternatives of a token. */
  function choose(own) {
    const { trace } = shown;
    const step = trace.json.steps[own];
    const token = trace.target[own];
    const pick = (id) =>
      app.run({ ...app.request, prefix: [...trace.target.slice(0, own).map((before) => before.id), id] });
    const labels = pieceLabels([...step.alternatives, ...trace.target].map((other) => other.piece));
    const before = trace.target.slice(0, own).map((token_) => token_.piece);
    const rows = step.alternatives.map((other, rank) => {
      const probability = Math.exp(other.log_probability);
      const isOwn = other.id === token.id;
      const name = element("bdi", { dir: "auto" }, visible(byteLabel(other.piece, before) ?? labels[rank]));
      const button = element(
        "button",
        { type: "button", class: "pick", disabled: isOwn || !app.isLive, onclick: () => pick(other.id) },
        name,
      );
      return element(
        "li",
        { class: isOwn ? "own" : "" },
        button,
        bar(probability),
        isOwn && element("span", { class: "quiet" }, "chosen"),
      );
    });
    const hint = app.isLive
      ? "Click an alternative to decode the rest from there."
      : "In polyhead explore, clicking an alternative decodes the rest from there.";
    replace(
      choices,
      element(
        "div",
        { class: "panel" },
        element("h3", {}, "Position ", String(own + 1), ": alternatives"),
        element("ol", { class: "alternatives" }, rows),
        element("p", { class: "quiet" }, hint),
      ),
    );
  }

  return { node, update };
}

/** Why there is nothing to show. */
function blank({ translation }) {
  if (!translation) return "Nothing to show.";
  return translation.text.trim() ? "The text was copied: the model did not read it." : "Enter a text.";
}

function side(title, content) {
  return element("div", { class: "side" }, element("h3", {}, title), element("div", {}, content));
}

/** Draws a line under a token, as long as its probability. */
function showProbability(token, step) {
  const probability = Math.exp(step.log_probability);
  token.append(
    element("span", { class: "sure", style: { width: `${Math.round(probability * 100)}%` }, "aria-hidden": "true" }),
  );
  token.title = percent(probability);
}
