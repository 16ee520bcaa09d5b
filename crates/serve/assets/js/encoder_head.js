// What the head of an encoder computes, as parts of views: classes, entities, words in place of tokens, the vector of a text.

import { element } from "./dom.js";
import { shade } from "./colour.js";
import { bar, strip } from "./figures.js";
import { distribution, facts } from "./prediction.js";
import { dot } from "./maths.js";
import { readArray } from "./arrays.js";
import { fixed, percent } from "./format.js";
import { visible } from "./tokens.js";

/** Classes that a list shows. */
const MAX_CLASSES = 12;

/** Labels with their probabilities as bars. */
export function classBars(classes) {
  const row = ({ label, probability }) =>
    element("li", {}, element("span", { class: "pick" }, visible(label)), bar(probability));
  return element("ol", { class: "alternatives" }, classes.slice(0, MAX_CLASSES).map(row));
}

/** The entities of a text, each with its class. */
export function entityList({ text, entities }) {
  if (!entities.length) return element("p", { class: "quiet" }, "No entities.");
  const bytes = new TextEncoder().encode(text.text);
  const own = ({ label, start, end, probability }) =>
    element(
      "li",
      {},
      element("bdi", { class: "pick" }, visible(new TextDecoder().decode(bytes.subarray(start, end)))),
      bar(probability),
      element("span", { class: "quiet" }, visible(label)),
    );
  return element("ol", { class: "alternatives" }, entities.map(own));
}

/** The result for the whole text; null where the head has one for each token only. `before` is that of the unchanged model. */
export function textResult(json, before = null) {
  if (json.head === "classes") return classBars(json.classes);
  if (json.head === "token_classes") return entityList(json);
  if (json.head !== "none") return null;
  const vector = [...readArray(json.vector).data];
  const largest = Math.max(...vector.map(Math.abs));
  return [
    element("div", { class: "text-vector" }, strip(vector, largest, { width: "full" })),
    element("p", { class: "quiet" }, `The vector of the text: ${vector.length} numbers, as polyhead embed prints them.`),
    before && element("p", {}, "Cosine with the original: ", element("strong", { class: "number", id: "vector-cosine" }, fixed(cosineOf(vector, before), 4))),
  ];
}

function cosineOf(vector, before) {
  const other = [...readArray(before.vector).data];
  return dot(vector, other) / Math.sqrt(dot(vector, vector) * dot(other, other));
}

/** The result for a token; null where the head has one for the whole text only. */
export function tokenResult(json, position) {
  if (json.head === "token_classes") return classBars(json.token_classes[position]);
  if (json.head !== "masked_words") return null;
  const own = json.masked_words[position];
  return [distribution(own, json.text.tokens[position].id, null, "is here"), facts(own, "the token")];
}

/** The shade of a token and what it means; null where there is none. */
export function tokenShade(json, position) {
  if (json.head === "token_classes") {
    const [best] = json.token_classes[position];
    const { background, ink } = shade(best.label === "O" ? 0 : 0.7 * best.probability);
    return { background, ink, said: `${visible(best.label)} ${percent(best.probability)}` };
  }
  if (json.head !== "masked_words") return null;
  const log = json.masked_words[position].following.log_probability;
  const probability = Math.exp(log ?? -Infinity);
  const { background, ink } = shade(0.8 * (1 - probability));
  return { background, ink, said: `probability ${percent(probability)}` };
}
