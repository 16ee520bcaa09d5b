// Built-in examples. Each sets text, languages and view, and finds the head that shows best what it is about, so that its
// claim is true of any model.

import { fixed } from "./format.js";
import { visible } from "./tokens.js";

const CODES = { en: /^en/, de: /^(de|ger)/, fr: /^fr/, tr: /^tu?r/ };

export const EXAMPLES = [
  {
    name: "cat and mouse",
    text: "The cat ate the mouse.",
    from: "en",
    to: "tr",
    view: "translate",
    claim: aligned("mouse"),
  },
  {
    name: "two banks",
    text: "I bank only at my local bank.",
    from: "en",
    to: "de",
    view: "heads",
    claim: contrasted("bank"),
  },
  {
    name: "what is “it”?",
    text: "The animal didn't cross the street because it was too tired.",
    from: "en",
    to: "de",
    view: "heads",
    claim: attended("it", "animal"),
  },
  {
    name: "preserved text",
    text: "MAIL ANN@EXAMPLE.ORG BEFORE 5 PM! 😀",
    from: "en",
    to: "de",
    view: "translate",
    claim: prepared,
  },
  {
    name: "two hops",
    text: "Ich habe den Schlüssel verloren.",
    from: "de",
    to: "fr",
    view: "translate",
    claim: routed,
  },
];

/** The code of a language among those of a model; null if it has none, or no choice. */
export function codeOf(language, codes) {
  return codes.find((code) => CODES[language].test(code)) ?? null;
}

/** True if a model has the languages of an example. */
export function isPossible({ from, to }, { sources, languages }) {
  const has = (language, codes) => !codes.length || codeOf(language, codes) !== null;
  // A model without a list of sources translates from English here.
  return has(to, languages) && (sources.length ? has(from, sources) : from === "en");
}

/** The position of the n-th token of a word; −1 if it is not one token. */
function place(tokens, word, n = 0) {
  const found = [...tokens.keys()].filter((own) => tokens[own].label.toLowerCase() === word);
  return found[n] ?? -1;
}

/** The encoder head with the largest value of `rate(matrix)`: `{ layer, head, rate, matrix }`. */
async function bestHead(trace, rate) {
  let best = null;
  for (let layer = 0; layer < trace.layers("encoder"); layer += 1) {
    const heads = await trace.attention("encoder", layer);
    for (const head of heads.heads) {
      const matrix = heads.matrix(head);
      const own = rate(matrix);
      if (!best || own > best.rate) best = { layer, head, rate: own, matrix };
    }
  }
  return best;
}

function select(app, { layer, head }, row) {
  Object.assign(app.selection, { kind: "encoder", layer, head });
  app.focus = { view: "heads", head, row };
}

/** A query word and a key word: the head in which one attends to the other most. */
function attended(query, key) {
  return async (app) => {
    const { source } = app.trace;
    const [row, column] = [place(source, query), place(source, key)];
    if (row < 0 || column < 0) return null;
    const best = await bestHead(app.trace, (matrix) => matrix.at(row, column));
    select(app, best, row);
    return `“${query}” attends to “${key}” most in encoder layer ${best.layer}, head ${best.head}: weight ${fixed(best.rate)}.`;
  };
}

/** A word that occurs twice: the head in which the two attend to different tokens most. */
function contrasted(word) {
  return async (app) => {
    const { source } = app.trace;
    const rows = [place(source, word), place(source, word, 1)];
    if (rows.some((row) => row < 0)) return null;
    const difference = (matrix) => {
      const [first, second] = rows.map((row) => matrix.row(row));
      return first.reduce((all, weight, key) => all + Math.abs(weight - second[key]) / 2, 0);
    };
    const best = await bestHead(app.trace, difference);
    select(app, best, rows[1]);
    const seen = rows.map((row) => {
      const weights = best.matrix.row(row);
      const key = weights.indexOf(Math.max(...weights));
      return `${visible(source[key].label)} ${fixed(weights[key])}`;
    });
    return `The two differ most in encoder layer ${best.layer}, head ${best.head}: the first “${word}” attends to ${seen[0]}, the second to ${seen[1]}.`;
  };
}

/** A source word: the target token that attends to it most. */
function aligned(word) {
  return async (app) => {
    const { trace } = app;
    const column = place(trace.source, word);
    const site = trace.json.alignment_site;
    if (column < 0 || !site) return null;
    const mean = (await trace.attention(site.kind, site.layer)).mean();
    const weights = trace.target.map((_, row) => mean.at(row, column));
    const row = weights.indexOf(Math.max(...weights));
    app.focus = { view: "translate", row };
    return `“${visible(trace.target[row].label)}” attends to “${word}” most: weight ${fixed(weights[row])}, the mean of the heads of layer ${site.layer}.`;
  };
}

async function prepared(app) {
  const { segments, segment } = app.translation;
  const own = segments[segment];
  return own && own.read !== own.text
    ? "Capitals are read as small letters, and ‹0› and ‹1› stand for preserved text. Both are put back afterwards."
    : "This model reads the text as it is: it has no placeholders.";
}

async function routed(app) {
  const hops = new Set(app.translation.segments.map((own) => own.hop)).size;
  return hops > 1
    ? "The model was not trained from German into French: it translates into English, and that into French. Choose a hop above."
    : null;
}
