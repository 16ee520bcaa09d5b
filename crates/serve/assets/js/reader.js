// The input bar of an encoder: a text and examples that fit its head.

import { textBar } from "./text_bar.js";

const BANKS = { name: "two banks", text: "I bank only at my local bank.", view: "vectors", needsAttention: true };
const IT = {
  name: "what is “it”?",
  text: "The animal didn't cross the street because it was too tired.",
  view: "heads",
  needsAttention: true,
};

/** The examples of a head. */
function examplesOf({ head, mask, sites }) {
  const own = {
    classes: [{ name: "a mixed text", text: "A wonderful film with a sad end.", view: "text" }],
    token_classes: [{ name: "names", text: "Ada Lovelace lived in London.", view: "text" }],
    masked_words: [{ name: "a masked word", text: `The ${mask} ate the mouse.`, view: "text" }],
    none: [],
  }[head];
  return [...own, BANKS, IT]
    .filter((example) => !example.needsAttention || sites.length > 0)
    .concat(own.length + sites.length ? [] : [{ ...BANKS, view: "text" }]);
}

/** The bar. */
export function readerBar(app) {
  return textBar(app, {
    placeholder: "A text to read",
    settings: [],
    examples: examplesOf(app.model),
    request: (text) => ({ text }),
    choose: () => {},
    summary,
  });
}

function summary({ trace, model }) {
  const { text, json } = trace;
  const cut = json.cut_from ? `, cut from ${json.cut_from}: the model reads at most ${model.max_len}` : "";
  const isLong = text.length > model.limits.whole && model.sites.length > 0;
  return `${text.length} tokens${cut}${isLong ? ". Long text: weights and vectors are fetched when needed" : ""}.`;
}
