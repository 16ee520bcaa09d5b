// Lesson: the contexts of word2vec. A window slides over a sentence; each word is predicted from the words around it.

import { element, paragraph, replace } from "../dom.js";
import { choice, slider } from "../controls.js";

const WORDS =
  "the professor is scribbling on the board and the student is writing down the scribbles".split(" ");

export const contextsLesson = { id: "contexts", title: "Contexts of words (word2vec)", build };

/** Positions at most `width` away from `position`, without itself. */
export function context(position, width, length) {
  const first = Math.max(position - width, 0);
  const last = Math.min(position + width, length - 1);
  return Array.from({ length: last - first + 1 }, (_, index) => first + index).filter((at) => at !== position);
}

function build() {
  const names = WORDS.map((word, at) => [String(at), `${at + 1}: ${word}`]);
  const word = choice("Word", names, "1", draw);
  const width = slider("Window", { min: 1, max: 5, step: 1, value: 2, show: String }, draw);
  const sentence = element("p", { class: "panel", id: "contexts-sentence" });
  const readout = element("p", { class: "result", "aria-live": "polite" });
  const pairs = element("ul", { id: "contexts-pairs" });
  function draw() {
    const position = Number(word.value);
    const around = context(position, width.value, WORDS.length);
    replace(
      sentence,
      WORDS.map((own, at) => [
        at > 0 && " ",
        at === position ? element("strong", {}, own) : around.includes(at) ? element("mark", {}, own) : own,
      ]),
    );
    replace(
      readout,
      `The context of “${WORDS[position]}” is {`,
      element("span", { id: "contexts-context" }, around.map((at) => WORDS[at]).join(", ")),
      "}.",
    );
    replace(
      pairs,
      around.map((at) => element("li", {}, `${WORDS[at]} → ${WORDS[position]}`)),
    );
  }
  draw();
  return {
    node: element(
      "div",
      {},
      paragraph(
        "Words with similar contexts have similar meanings: professor and student both stand before “is”. word2vec turns that into a training objective. Skip-gram predicts a word from each word of its context; CBOW predicts it from their mean. Each prediction moves the vectors of both words together, and those of random words (negative samples) apart.",
      ),
      element("div", { class: "knobs" }, word.node, width.node),
      sentence,
      readout,
      paragraph("Pairs that skip-gram trains on:"),
      pairs,
      paragraph("Train vectors on a text of your own with polyhead vectors train."),
    ),
    draw,
  };
}
