// The input bar: text, languages, beam size, examples, and a status line.

import { element, replace } from "./dom.js";
import { checkbox, list, slider } from "./controls.js";
import { languageName } from "./format.js";
import { errorText } from "./api.js";
import { arrive } from "./frame.js";
import { EXAMPLES, codeOf, isPossible } from "./examples.js";
import { resultBlock } from "./result.js";

/** The bar; it runs requests of `app` and shows their status. */
export function sentenceBar(app) {
  const { sources, languages, beam_size: beamSize, limits } = app.model;
  const text = element("textarea", {
    rows: 1,
    maxlength: limits.text,
    "aria-label": "Sentence",
    placeholder: "A text to translate",
    spellcheck: "false",
    dir: "auto",
  });
  const button = element("button", { class: "primary", type: "submit" }, "Translate");
  const from = sources.length > 1 ? list("From", named(sources, true), "", send) : null;
  const to = languages.length
    ? list("To", named(languages, from !== null), from ? "" : preferred(languages), send)
    : null;
  const beam = slider(
    "Beam size",
    { min: 1, max: 10, value: Math.min(beamSize, 10), show: (n) => (n === 1 ? "1 (greedy)" : n) },
    later(send),
  );
  const asIs = checkbox("As one sentence, unprepared", false, send);
  const result = resultBlock(app);
  const status = element("p", { class: "status", role: "status", "aria-live": "polite" });
  const example = (own) => element("button", { type: "button", class: "example", onclick: () => show(own) }, own.name);
  const node = element(
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
      from?.node,
      to?.node,
      beam.node,
      asIs.node,
      element(
        "div",
        { class: "examples", role: "group", "aria-label": "Examples" },
        EXAMPLES.filter((own) => isPossible(own, app.model)).map(example),
      ),
    ),
  );
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      send();
    }
  });
  function send() {
    return app.run({
      text: text.value,
      from: from?.value || null,
      to: to?.value || null,
      beam_size: beam.value,
      as_is: asIs.value,
      prefix: [],
    });
  }
  /** Runs an example and shows what it claims. */
  async function show(own, begun = location.hash) {
    text.value = own.text;
    from?.set(codeOf(own.from, sources) ?? "");
    to?.set(codeOf(own.to, languages) ?? "");
    asIs.set(false);
    await send();
    if (!app.trace || app.request.text !== own.text) return;
    const claim = await own.claim(app);
    if (claim) result.claim(claim);
    arrive(app, own.view, begun);
  }
  const say = (message, isBad = false) => {
    status.classList.toggle("bad", isBad);
    replace(status, message);
  };
  app.on("started", (request) => {
    text.value = request.text;
    say("Translating …");
  });
  app.on("growth", (growth) => say(`${growth.tokens} tokens …`));
  app.on("ended", (error) => {
    if (!error) say(summary(app));
    else say(errorText(error), true);
  });
  return {
    node: element("section", { "aria-label": "Sentence" }, node, status, result.node),
    // A link to a view shows that view.
    start: () => show(EXAMPLES[0], ""),
  };
}

function summary({ trace, translation, model }) {
  const route = translation ? translation.route : trace.json.route;
  const via = route?.through ? ` via ${languageName(route.through)}` : "";
  const direction = route
    ? `${languageName(route.from)}${route.guessed ? " (detected)" : ""} → ${languageName(route.to)}${via}, `
    : "";
  if (!trace) return `${direction}nothing was given to the model${translation.text.trim() ? ": the text was copied" : ""}.`;
  const sizes = `${direction}${trace.source.length} source and ${trace.target.length} target tokens`;
  const isLong = Math.max(trace.source.length, trace.target.length) > model.limits.neurons;
  return isLong
    ? `${sizes}. Long text: weights are fetched when needed; Neurons shows up to ${model.limits.neurons} tokens on each side.`
    : `${sizes}.`;
}

/** Languages to choose from; a model that declares its directions can also choose automatically. */
function named(codes, isAutomatic) {
  return [...(isAutomatic ? [["", "automatic"]] : []), ...codes.map((code) => [code, languageName(code)])];
}

/** The default target language: Turkish, as in the lectures, else the first that is not English. */
function preferred(languages) {
  return languages.find((code) => /^tu?r/.test(code)) ?? languages.find((code) => !/^en/.test(code)) ?? languages[0];
}

function later(work) {
  let waiting = 0;
  return () => {
    clearTimeout(waiting);
    waiting = setTimeout(work, 250);
  };
}
