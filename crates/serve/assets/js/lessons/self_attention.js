// Lesson: self-attention on the string A A B A, step by step, with W_Q = I, W_K a multiple of I and a W_V of its own.

import { element, formula, replace } from "../dom.js";
import { choice, slider } from "../controls.js";
import { numberTable } from "../figures.js";
import { fixed } from "../format.js";
import { matmul, softmax, transpose } from "../maths.js";

const LETTERS = [..."AABA"];
const E = LETTERS.map((letter) => (letter === "A" ? [1, 0] : [0, 1]));
const W_V = [
  [0, 1],
  [2, 0],
];
const STEPS = [
  ["0", "1 E"],
  ["1", "2 Q, K, V"],
  ["2", "3 S = Q·Kᵀ"],
  ["3", "4 S ÷ √d"],
  ["4", "5 softmax"],
  ["5", "6 weights · V"],
];

export const selfAttentionLesson = { id: "self-attention", title: "Self-attention, step by step", build };

/** All matrices of the lesson, with keys scaled by a factor. */
export function selfAttention(factor) {
  const K = E.map((row) => row.map((x) => x * factor));
  const V = matmul(E, W_V);
  const scores = matmul(E, transpose(K));
  const scaled = scores.map((row) => row.map((x) => x / Math.sqrt(E[0].length)));
  const weights = scaled.map((row) => softmax(row));
  return { Q: E, K, V, scores, scaled, weights, output: matmul(weights, V) };
}

function build() {
  const step = choice("Step", STEPS, "0", draw);
  const factor = slider("Scale of the keys", { min: 0, max: 10, step: 0.5, value: 2 }, draw);
  const text = element("p");
  const figure = element("div", { class: "panel side-by-side" });
  function draw() {
    const { Q, K, V, scores, scaled, weights, output } = selfAttention(factor.value);
    const named = (id, caption, data, { columns = null, scale = null, decimals = 0 } = {}) =>
      numberTable({ id: `self-${id}`, caption, data, rows: LETTERS, columns, scale, decimals });
    const square = (scale, decimals) => ({ columns: LETTERS, scale, decimals });
    const most = Math.max(factor.value, 1) * 1.2;
    const parts = [
      () => ["Each letter is a row of E: the letter A is [1, 0], the letter B is [0, 1], so d = 2.", [named("e", "E", E)]],
      () => [
        formula(
          `Queries are Q = E·W_Q with W_Q = I, keys K = E·W_K with W_K = ${factor.value}·I. Values have a matrix of their own: V = E·W_V turns an A into [0, 1] and a B into [2, 0].`,
        ),
        [named("q", "Q", Q), named("k", "K", K, { decimals: 1 }), named("v", "V", V)],
      ],
      () => [
        `Every letter is compared with every letter: S = ${factor.value}·E·Eᵀ. Equal letters match.`,
        [named("s", "S", scores, square(most, 1))],
      ],
      () => [
        `The scores are divided by √d = √2 = ${fixed(Math.SQRT2, 3)}, so that they do not grow with d.`,
        [named("scaled", "S ÷ √d", scaled, square(most / Math.SQRT2, 3))],
      ],
      () => [
        "Softmax turns each row into weights, which sum to 1: an A attends mostly to the As, the B mostly to itself. Scale the keys to make them sharper.",
        [named("weights", "weights", weights, square(1, 3))],
      ],
      () => [
        `Each letter becomes the weighted mean of the values: the B is now ${fixed(weights[2][2], 3)} of [2, 0] and ${fixed(1 - weights[2][2], 3)} of [0, 1]. It knows of the As around it. All letters are computed at once, without waiting for earlier ones.`,
        [named("output", "weights · V", output, { decimals: 3 })],
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
