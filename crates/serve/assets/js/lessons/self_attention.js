// Lesson: self-attention on the string A A B A, step by step, with W_Q = I and W_K = 10·I.

import { element, formula, replace } from "../dom.js";
import { choice, slider } from "../controls.js";
import { numberTable } from "../figures.js";
import { matmul, softmax, transpose } from "../maths.js";

const LETTERS = [..."AABA"];
const E = LETTERS.map((letter) => (letter === "A" ? [1, 0] : [0, 1]));
const STEPS = [
  ["0", "1 E"],
  ["1", "2 Q, K, V"],
  ["2", "3 S = Q·Kᵀ"],
  ["3", "4 softmax"],
  ["4", "5 A·V"],
];

export const selfAttentionLesson = { id: "self-attention", title: "Self-attention, step by step", build };

function build() {
  const step = choice("Step", STEPS, "0", draw);
  const factor = slider("Scale of the keys", { min: 0, max: 10, step: 0.5, value: 10 }, draw);
  const text = element("p");
  const figure = element("div", { class: "panel side-by-side" });
  function draw() {
    const K = E.map((row) => row.map((x) => x * factor.value));
    const S = matmul(E, transpose(K));
    const A = S.map((row) => softmax(row));
    const named = (caption, data, columns, scale, decimals) =>
      numberTable({ caption, data, rows: LETTERS, columns, scale, decimals });
    const parts = [
      () => [formula("Each letter is a row of E: A = [1, 0], B = [0, 1]."), [named("E", E, null, null, 0)]],
      () => [
        formula(`Queries are E·W_Q with W_Q = I, keys E·W_K with W_K = ${factor.value}·I, values E·W_V with W_V = I.`),
        [named("Q", E, null, null, 0), named("K", K, null, null, 1), named("V", E, null, null, 0)],
      ],
      () => [
        `Every letter is compared with every letter: S = ${factor.value}·E·Eᵀ. Equal letters match.`,
        [named("S", S, LETTERS, Math.max(factor.value, 1) * 1.2, 1)],
      ],
      () => ["Softmax turns each row into weights: an A attends to the As, a B to itself.", [named("A", A, LETTERS, 1, 3)]],
      () => [
        "Each letter becomes the weighted mean of what it attends to. All letters are computed at once, without waiting for earlier ones.",
        [named("A·V", matmul(A, E), null, null, 3)],
      ],
    ]
      .slice(0, Number(step.value) + 1)
      .map((part) => part());
    replace(text, parts.at(-1)[0]);
    replace(
      figure,
      parts.map((part) => part[1]),
    );
  }
  draw();
  return { node: element("div", {}, element("div", { class: "knobs" }, step.node, factor.node), text, figure), draw };
}
