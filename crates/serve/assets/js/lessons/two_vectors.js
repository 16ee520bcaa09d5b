// Lesson: one word, two vectors. The vectors of a word in its contexts, layer by layer, as the loaded model computes them.

import { element, freshId, paragraph } from "../dom.js";
import { errorText, postCompare } from "../api.js";
import { comparisonFigure } from "../comparison.js";

const TEXT = "I bank only at my local bank.";
const WORD = "bank";

export const twoVectorsLesson = { id: "two-vectors", title: "One word, two vectors", build };

function build(app) {
  const [textId, wordId] = [freshId("texts"), freshId("word")];
  const texts = element("textarea", { id: textId, rows: 3, spellcheck: "false", dir: "auto" });
  const word = element("input", { id: wordId, type: "text", spellcheck: "false", dir: "auto", autocomplete: "off" });
  [texts.value, word.value] = [TEXT, WORD];
  const status = element("p", { class: "status", role: "status", "aria-live": "polite" });
  const figure = comparisonFigure();
  figure.node.hidden = true;
  let pending = null;

  async function compare() {
    pending?.abort();
    pending = new AbortController();
    status.classList.remove("bad");
    status.textContent = "Reading …";
    const lines = texts.value.split("\n").map((line) => line.trim());
    const request = { texts: lines.filter(Boolean), words: word.value.split(",").map((own) => own.trim()).filter(Boolean) };
    try {
      const found = await postCompare(request, pending.signal);
      figure.node.hidden = false;
      figure.show(found);
      const cut = found.texts.some((own) => own.cut_from !== null);
      status.textContent = cut ? "A text was cut to the longest that the model reads." : "";
    } catch (error) {
      if (error.name === "AbortError") return;
      figure.node.hidden = true;
      status.classList.add("bad");
      status.textContent = errorText(error);
    }
  }

  const form = element(
    "form",
    {
      class: "compared",
      onsubmit: (event) => {
        event.preventDefault();
        compare();
      },
    },
    element("div", { class: "control" }, element("label", { for: textId }, "Texts, one on each line"), texts),
    element("div", { class: "control" }, element("label", { for: wordId }, "Word"), word),
    element("button", { class: "primary", type: "submit" }, "Compare"),
  );
  if (app.isLive) compare();
  else status.textContent = "This page is a file without a model. polyhead explore computes the vectors of a model.";
  return {
    node: element(
      "div",
      {},
      paragraph(
        "A table of embeddings has one vector for a word, whatever it means. In “I bank only at my local bank” the first ",
        element("em", {}, "bank"),
        " is a verb and the second a place. Before the first layer their vectors differ by their positions alone. Each layer then adds to a vector what it attends to, so that a word has a vector of its context: two of them here. Classifiers, search and translation work with these.",
      ),
      app.isLive && paragraph(described(app)),
      app.isLive && form,
      status,
      figure.node,
      paragraph(
        "The vectors of all tokens become more similar from layer to layer in most models. So compare a cosine with that of other tokens (the dashed line), not with 0. Try texts in which the word means different things: “We sat on the bank of the river.” and “The bank lends money.”",
      ),
    ),
    draw: () => figure.draw(),
  };
}

/** Whose vectors they are. */
function described({ model, isEncoder, isText }) {
  if (isEncoder) return `The vectors are those of the encoder ${model.name}.`;
  if (isText) {
    return `The vectors are those of the language model ${model.name}, in which a token attends to those before it only: the first occurrence knows nothing of what follows.`;
  }
  return `The vectors are those of the encoder of ${model.name}, the translator that is loaded.`;
}
