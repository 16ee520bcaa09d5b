// Lesson: scores 112 and 96 with d_k = 64 become 14 and 12, and softmax makes them 0.88 and 0.12.

import { element, formula, paragraph, replace } from "../dom.js";
import { slider } from "../controls.js";
import { bar, numberTable } from "../figures.js";
import { fixed } from "../format.js";
import { mix, softmax } from "../maths.js";

const VALUES = [
  [1, 0, 2],
  [0, 3, 1],
];

export const scaledLesson = { id: "scaled", title: "Scaled scores", build };

function build() {
  const first = slider("Score of the first word, q·k₁", { min: 0, max: 160, value: 112 }, draw);
  const second = slider("Score of the second word, q·k₂", { min: 0, max: 160, value: 96 }, draw);
  const size = slider("Dimensions of a key, dₖ", { min: 1, max: 256, value: 64 }, draw);
  const steps = element("div");
  const shares = element("div", { class: "pairs" });
  const plain = element("p");
  function draw() {
    const scores = [first.value, second.value];
    const scaled = scores.map((score) => score / Math.sqrt(size.value));
    const weights = softmax(scaled);
    const without = softmax(scores);
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
        `${fixed(weights[0])} · [${VALUES[0].join(", ")}] + ${fixed(weights[1])} · [${VALUES[1].join(", ")}] = [${mix(
          weights,
          VALUES,
        )
          .map((x) => fixed(x))
          .join(", ")}]`,
      ),
    );
    plain.textContent = `Without the division, softmax would give ${fixed(without[0], 4)} and ${fixed(without[1], 4)}: one word would take nearly all the weight, and the gradients would vanish.`;
  }
  draw();
  return {
    node: element(
      "div",
      {},
      paragraph(
        "A query is compared with each key by a dot product. The more dimensions a key has, the larger these scores become by chance, so they are divided by √dₖ before softmax turns them into weights.",
      ),
      element("div", { class: "knobs" }, first.node, second.node, size.node),
      element("div", { class: "panel" }, steps, shares),
      plain,
    ),
    draw,
  };
}
