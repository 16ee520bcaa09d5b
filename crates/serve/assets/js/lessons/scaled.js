// Lesson: scores 112 and 96 with d_k = 64 become 14 and 12, and softmax makes them 0.88 and 0.12. Scores grow with √d_k; the
// division undoes it.

import { element, formula, paragraph, replace } from "../dom.js";
import { slider } from "../controls.js";
import { bar, numberTable } from "../figures.js";
import { fixed } from "../format.js";
import { mix, softmax } from "../maths.js";

const VALUES = [
  [1, 0, 2],
  [0, 3, 1],
];

/** The number of dimensions that the scores of the sliders are for. */
const GIVEN = 64;

export const scaledLesson = { id: "scaled", title: "Scaled scores", build };

/** Scores at d dimensions, of scores at 64; divided by √d; the weights with and without the division. */
export function scaledScores(given, d) {
  const scores = given.map((score) => score * Math.sqrt(d / GIVEN));
  const scaled = scores.map((score) => score / Math.sqrt(d));
  return { scores, scaled, weights: softmax(scaled), without: softmax(scores) };
}

function build() {
  const first = slider("Score q·k₁ at dₖ = 64", { min: 0, max: 160, value: 112 }, draw);
  const second = slider("Score q·k₂ at dₖ = 64", { min: 0, max: 160, value: 96 }, draw);
  const size = slider("Dimensions of a key, dₖ", { min: 1, max: 256, value: GIVEN }, draw);
  const steps = element("div");
  const shares = element("div", { class: "pairs" });
  const plain = element("p", { id: "scaled-without" });
  function draw() {
    const { scores, scaled, weights, without } = scaledScores([first.value, second.value], size.value);
    const mixed = mix(weights, VALUES).map((x) => fixed(x)).join(", ");
    replace(
      steps,
      numberTable({
        id: "scaled-steps",
        columns: ["score", "÷ √dₖ", "softmax"],
        rows: ["word 1", "word 2"],
        data: scores.map((score, own) => [score, scaled[own], weights[own]]),
      }),
    );
    replace(
      shares,
      weights.map((weight, own) => [
        element("span", {}, formula(`weight of v_${own + 1}`)),
        bar(weight, { text: fixed(weight) }),
      ]),
      element("span", {}, "output"),
      element(
        "span",
        { class: "number" },
        `${fixed(weights[0])} · [${VALUES[0].join(", ")}] + ${fixed(weights[1])} · [${VALUES[1].join(", ")}] = [${mixed}]`,
      ),
    );
    const most = Math.max(...without);
    const effect =
      most > 0.999
        ? ": one word takes nearly all the weight, and the gradients of softmax vanish."
        : ". The larger dₖ, the nearer to 1 and 0.";
    plain.textContent = `Without the division, softmax gives ${fixed(without[0], 4)} and ${fixed(without[1], 4)}${effect}`;
  }
  draw();
  return {
    node: element(
      "div",
      {},
      paragraph(
        "A query is compared with each key by a dot product, a sum of dₖ products. If the entries of queries and keys are independent with variance 1, the sum has the standard deviation √dₖ: scores grow with the number of dimensions, although nothing matches better. They are divided by √dₖ before softmax turns them into weights, so the weights do not depend on dₖ.",
      ),
      element("div", { class: "knobs" }, first.node, second.node, size.node),
      element("div", { class: "panel" }, steps, shares),
      plain,
    ),
    draw,
  };
}
