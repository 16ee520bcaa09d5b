// The input bar of a language model: a text, how many tokens to generate, examples, and a status line.

import { element, replace } from "./dom.js";
import { checkbox, slider } from "./controls.js";
import { errorText } from "./api.js";
import { fixed } from "./format.js";

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

/** The bar; it runs requests of `app` and shows their status. */
export function promptBar(app) {
  const { limits, sites, max_generated: mostGenerated } = app.model;
  const text = element("textarea", {
    rows: 1,
    maxlength: limits.text,
    "aria-label": "Text",
    placeholder: "A text to read or to continue",
    spellcheck: "false",
    dir: "auto",
  });
  const button = element("button", { class: "primary", type: "submit" }, "Read");
  const generate = slider(
    "New tokens",
    { min: 0, max: Math.min(MAX_SLIDER, mostGenerated), value: 0, show: (n) => (n === 0 ? "0 (none)" : n) },
    () => {},
  );
  const draws = checkbox("Sample", false, () => {});
  const claim = element("p", { class: "claim", role: "status" });
  const outcome = element("div", { class: "outcome" }, claim);
  const status = element("p", { class: "status", role: "status", "aria-live": "polite" });
  const example = (own) => element("button", { type: "button", class: "example", onclick: () => show(own) }, own.name);
  const examples = EXAMPLES.filter((own) => !own.needsAttention || sites.length > 0);
  const form = element(
    "form",
    {
      class: "sentence",
      onsubmit: (event) => {
        event.preventDefault();
        send();
      },
    },
    text,
    element("div", { class: "go" }, button),
    element(
      "div",
      { class: "settings" },
      generate.node,
      draws.node,
      element("div", { class: "examples", role: "group", "aria-label": "Examples" }, examples.map(example)),
    ),
  );
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      send();
    }
  });
  function send() {
    app.place = { position: 0, token: null };
    // Each press draws other tokens.
    const seed = draws.value ? Math.floor(Math.random() * 2 ** 32) : null;
    return app.run({ text: text.value, ids: [], generate: generate.value, seed });
  }
  async function show(own) {
    text.value = own.text;
    generate.set(own.generate);
    draws.set(false);
    const begun = location.hash;
    await send();
    if (!app.trace || app.request.text !== own.text) return;
    const found = await own.claim?.(app);
    replace(claim, found ?? null);
    if (location.hash === `#${own.view}`) app.emit("focus");
    // Who has gone to another view meanwhile stays there.
    else if (location.hash === begun) location.hash = own.view;
  }
  const say = (message, isBad = false) => {
    status.classList.toggle("bad", isBad);
    replace(status, message);
  };
  app.on("started", () => {
    replace(claim);
    say("Reading …");
  });
  app.on("growth", (growth) => say(`${growth.tokens} new tokens …`));
  app.on("ended", (error) => {
    if (!error) say(summary(app));
    else say(errorText(error), true);
  });
  return {
    node: element("section", { "aria-label": "Text" }, form, status, outcome),
    start: () => show(EXAMPLES[0]),
  };
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
