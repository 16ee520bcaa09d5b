// The input bar of a language model: a text, how many tokens to generate, and examples.

import { checkbox, slider } from "./controls.js";
import { fixed } from "./format.js";
import { textBar } from "./text_bar.js";

/** Most tokens that the slider offers. */
const MAX_SLIDER = 64;

const EXAMPLES = [
  { name: "what is “it”?", text: "The cat sat on the mat because it was tired.", generate: 0, view: "text" },
  {
    name: "repeated text",
    text: "one two three four, one two three four",
    generate: 0,
    view: "heads",
    claim: repeated,
    needsAttention: true,
  },
  { name: "continue", text: "The cat", generate: 12, view: "text" },
];

/** The bar. */
export function promptBar(app) {
  const { sites, max_generated: mostGenerated } = app.model;
  const generate = slider(
    "New tokens",
    { min: 0, max: Math.min(MAX_SLIDER, mostGenerated), value: 0, show: (n) => (n === 0 ? "0 (none)" : n) },
    () => {},
  );
  const draws = checkbox("Sample", false, () => {});
  return textBar(app, {
    placeholder: "A text to read or to continue",
    settings: [generate.node, draws.node],
    examples: EXAMPLES.filter((own) => !own.needsAttention || sites.length > 0),
    request: (text) => {
      // Each press draws other tokens.
      const seed = draws.value ? Math.floor(Math.random() * 2 ** 32) : null;
      return { text, ids: [], generate: generate.value, seed };
    },
    choose: (example) => {
      generate.set(example.generate);
      draws.set(false);
    },
    summary,
  });
}

function summary({ trace, model }) {
  const { text, json } = trace;
  const count = text.length - 1;
  const mean = -json.log_probability / Math.max(count, 1);
  const isLong = text.length > model.limits.whole && model.sites.length > 0;
  return [
    `${text.length} tokens${json.generated ? `, ${json.generated} of them generated` : ""}`,
    count ? `; perplexity ${fixed(Math.exp(mean))}, ${fixed(mean / Math.LN2)} bits per token after the first` : "",
    isLong ? `. Long text: weights are fetched when needed` : "",
    ".",
  ].join("");
}

/** The head in which repeated tokens attend most to what followed them the first time. */
async function repeated(app) {
  const { trace } = app;
  const pairs = trace.text.flatMap((token, position) => {
    const before = trace.text.slice(0, position).findLastIndex((other) => other.id === token.id);
    return before < 0 || before + 1 >= position ? [] : [[position, before + 1]];
  });
  if (!pairs.length) return null;
  let best = null;
  for (const [kind] of trace.kinds) {
    for (let layer = 0; layer < trace.layers(kind); layer += 1) {
      const heads = await trace.attention(kind, layer);
      for (const head of heads.heads) {
        const matrix = heads.matrix(head);
        const rate = pairs.reduce((sum, [row, column]) => sum + matrix.at(row, column), 0) / pairs.length;
        if (!best || rate > best.rate) best = { kind, layer, head, rate };
      }
    }
  }
  Object.assign(app.selection, { kind: best.kind, layer: best.layer, head: best.head });
  app.focus = { view: "heads", head: best.head, row: pairs.at(-1)[0] };
  return `Layer ${best.layer}, head ${best.head} attends most to what followed a repeated token the first time: mean weight ${fixed(best.rate)}.`;
}
