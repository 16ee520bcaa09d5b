// Distributions of next tokens as parts of views: the list of the most probable tokens, the colour of a surprisal, the choice of
// a position.

import { element } from "./dom.js";
import { list } from "./controls.js";
import { shade } from "./colour.js";
import { bar } from "./figures.js";
import { fixed, grouped } from "./format.js";
import { visible } from "./tokens.js";

/** The surprisal in bits at which the colour is strongest; an average token of a good model has some 4 bits. */
const STRONGEST = 12;

/** Surprisal of a token in bits; null for the first. */
export function surprisal(predictions, position) {
  const following = predictions[position - 1]?.following;
  return following ? bits(following.log_probability) : null;
}

function bits(logProbability) {
  return logProbability === null ? Infinity : -logProbability / Math.LN2;
}

/** Background and ink for a surprisal. */
export function surpriseShade(own) {
  return shade(own === null ? 0 : 0.8 * Math.min(own / STRONGEST, 1));
}

/** What is known about the token at a position, as a sentence. */
export function said(trace, position) {
  const own = surprisal(trace.json.predictions, position);
  if (own === null) return "the first token: nothing is before it";
  const { log_probability: log, rank } = trace.json.predictions[position - 1].following;
  return `probability ${share(log)}, rank ${grouped(rank)}, surprisal ${fixed(own)} bits`;
}

function share(log) {
  const probability = Math.exp(log ?? -Infinity);
  return probability >= 0.0001 || probability === 0 ? fixed(probability, 4) : probability.toExponential(1);
}

/**
 * The most probable tokens of a distribution. `followingId` is the token in the text, marked as `mark`; `onPick(id)` makes each
 * a button.
 */
export function distribution(prediction, followingId, onPick, mark = "follows") {
  const rows = prediction.alternatives.map((own) => {
    const isNext = own.id === followingId;
    const name = element("bdi", { dir: "auto" }, visible(own.label));
    const label = onPick
      ? element("button", { type: "button", class: "pick", title: own.piece, onclick: () => onPick(own.id) }, name)
      : element("span", { class: "pick", title: own.piece }, name);
    const note = isNext && element("span", { class: "quiet" }, mark);
    return element("li", { class: isNext ? "own" : "" }, label, bar(Math.exp(own.log_probability)), note);
  });
  return element("ol", { class: "alternatives" }, rows);
}

/** The entropy of a distribution, and the rank of the token in the text, if there is one; `name` is what it is. */
export function facts(prediction, name = "what follows") {
  const { following } = prediction;
  const fact = (term, value) => element("div", {}, element("dt", {}, term), element("dd", { class: "number" }, value));
  return element(
    "dl",
    { class: "facts" },
    fact("entropy", `${fixed(prediction.entropy)} bits`),
    following && fact(`rank of ${name}`, grouped(following.rank)),
    following && fact("its probability", share(following.log_probability)),
    following && fact("its surprisal", `${fixed(bits(following.log_probability))} bits`),
  );
}

/** A list that chooses the position that all views share. */
export function positionList(app) {
  const self = list("After token", [], "0", (value) => app.choose(Number(value)));
  return {
    node: self.node,
    refresh: (trace) =>
      self.options(
        trace.text.map((token, own) => [String(own), `${own}: ${visible(token.label)}`]),
        String(app.place.position),
      ),
  };
}
