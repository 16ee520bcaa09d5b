// Lesson: a six-word vocabulary. One distribution for each position, cross-entropy, label smoothing, and training by hand.

import { element, paragraph, replace } from "../dom.js";
import { slider } from "../controls.js";
import { numberTable } from "../figures.js";
import { fixed } from "../format.js";
import { softmax, sum } from "../maths.js";

const WORDS = ["a", "am", "I", "thanks", "student", "<eos>"];
const RIGHT = [2, 1, 0, 4, 5];
const TAUGHT = [0.93, 0.8, 0.99, 0.94, 0.98];

export const smoothingLesson = { id: "smoothing", title: "Loss and label smoothing", build };

function build() {
  let logits = untrained();
  let steps = 0;
  const smoothing = slider(
    "Label smoothing ε",
    { min: 0, max: 0.4, step: 0.05, value: 0.1, show: (x) => fixed(x) },
    draw,
  );
  const targets = element("div");
  const outputs = element("div");
  const readout = element("p", { class: "result", "aria-live": "polite" });
  const train = (count) => () => {
    for (let step = 0; step < count; step += 1) logits = logits.map((row, index) => learned(row, target(index)));
    steps += count;
    draw();
  };
  const button = (text, onclick, kind = "") => element("button", { type: "button", class: kind, onclick }, text);
  const target = (index) =>
    WORDS.map((_, id) => (id === RIGHT[index] ? 1 - smoothing.value : 0) + smoothing.value / WORDS.length);
  const rows = RIGHT.map((_, index) => String(index + 1));
  function draw() {
    const chances = logits.map((row) => softmax(row));
    replace(
      targets,
      numberTable({
        caption: "target distribution at each position",
        rows,
        columns: WORDS,
        data: RIGHT.map((_, index) => target(index)),
        scale: 1.1,
      }),
    );
    replace(
      outputs,
      numberTable({
        caption: "output of the model",
        rows,
        columns: WORDS,
        data: chances,
        scale: 1.1,
        id: "smoothing-outputs",
      }),
    );
    const loss =
      sum(chances.map((row, index) => -sum(target(index).map((t, id) => t * Math.log(row[id]))))) / RIGHT.length;
    const floor =
      sum(RIGHT.map((_, index) => -sum(target(index).map((t) => (t > 0 ? t * Math.log(t) : 0))))) / RIGHT.length;
    const best = chances.map((row) => WORDS[row.indexOf(Math.max(...row))]).join(" ");
    replace(
      readout,
      `After ${steps} steps the most probable words are “${best}”. Cross-entropy `,
      element("strong", { class: "number" }, fixed(loss, 3)),
      ` (minimum ${fixed(floor, 3)}).`,
    );
  }
  draw();
  return {
    node: element(
      "div",
      {},
      paragraph(
        "“je suis étudiant” → “I am a student <eos>”: the model gives one distribution over six words for each position, and the loss is the cross-entropy with the right word. Label smoothing takes ε from the right word and spreads it over all words, so that the model is not trained towards full certainty.",
      ),
      element(
        "div",
        { class: "knobs" },
        smoothing.node,
        element(
          "div",
          { class: "buttons" },
          button("Train 10 steps", train(10), "primary"),
          button("The lecture's table", () => {
            logits = taught();
            steps = 0;
            draw();
          }),
          button("Reset", () => {
            logits = untrained();
            steps = 0;
            draw();
          }),
        ),
      ),
      element("div", { class: "panel side-by-side" }, targets, outputs),
      readout,
      paragraph(
        "The lecture's trained model gives 0.93, 0.8, 0.99, 0.94 and 0.98 to the right words. With ε = 0.1 the optimum is 0.917. Train with and without smoothing to compare.",
      ),
    ),
    draw,
  };
}

/** One step of gradient descent: the gradient of the loss with respect to the logits is softmax − target. */
function learned(row, target) {
  const chances = softmax(row);
  return row.map((logit, id) => logit - 1.0 * (chances[id] - target[id]));
}

/** Fixed initial logits, untrained. */
function untrained() {
  return RIGHT.map((_, index) => WORDS.map((_word, id) => Math.sin(3 * index + 5 * id) * 0.6));
}

function taught() {
  return RIGHT.map((right, index) =>
    WORDS.map((_, id) => Math.log(id === right ? TAUGHT[index] : (1 - TAUGHT[index]) / (WORDS.length - 1))),
  );
}
