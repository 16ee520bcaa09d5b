// Lesson: the cost of attention, O(n²), and the size of a large model.

import { element, paragraph, replace } from "../dom.js";
import { slider } from "../controls.js";
import { bar } from "../figures.js";
import { bytesText, fixed, grouped, large } from "../format.js";

export const costLesson = { id: "cost", title: "The cost of attention", build };

/** Floating-point operations of one layer: a multiplication and an addition are two. */
export function operations(n, d) {
  // Scores q·k and weighted sums of values: n·n pairs, d multiplications each.
  const pairs = 2 * (2 * n * n * d);
  // Four projections (4·d²) and a feed-forward network of width 4·d (8·d²) for each token.
  const tokens = 2 * (n * 12 * d * d);
  return { pairs, tokens };
}

/** Parameters of N layers of width d, without biases and norms, and one table of embeddings. */
export function parameters(vocabulary, d, N) {
  return vocabulary * d + N * 12 * d * d;
}

function build() {
  const power = { show: (x) => grouped(2 ** x) };
  const length = slider("Tokens n", { min: 4, max: 17, step: 0.5, value: 15, ...power }, draw);
  const width = slider("Width d", { min: 64, max: 16384, step: 64, value: 12288, show: grouped }, draw);
  const layers = slider("Layers N", { min: 1, max: 120, value: 96 }, draw);
  const words = slider("Vocabulary |T|", { min: 1000, max: 256000, step: 1000, value: 100000, show: grouped }, draw);
  const figure = element("div", { class: "panel pairs" });
  const twice = element("p", { class: "result" });
  const readout = element("p", { class: "result" });
  function draw() {
    const [n, d, N] = [Math.round(2 ** length.value), width.value, layers.value];
    const { pairs, tokens } = operations(n, d);
    const all = pairs + tokens;
    const row = (name, share, text) => [element("span", {}, name), bar(share, { text })];
    replace(
      figure,
      row("scores and weighted sums, 4·n²·d", pairs / all, large(pairs)),
      row("projections and feed-forward, 24·n·d²", tokens / all, large(tokens)),
    );
    figure.querySelectorAll(".number").forEach((own) => own.classList.add("wide"));
    const double = operations(2 * n, d);
    replace(
      twice,
      "Bars are shares of the sum. Twice the text is four times the first number and twice the second, together ",
      element("strong", { class: "number", id: "cost-twice" }, fixed((double.pairs + double.tokens) / all)),
      ` times the operations. From n = 6·d = ${grouped(6 * d)} on, the first number is the larger one.`,
    );
    replace(
      readout,
      "Parameters |T|·d + 12·N·d² = ",
      element("strong", { class: "number", id: "cost-parameters" }, large(parameters(words.value, d, N))),
      `. The attention weights of one head in one layer are n² = ${grouped(n * n)} numbers, ${bytesText(4 * n * n)}.`,
    );
  }
  draw();
  return {
    node: element(
      "div",
      {},
      paragraph(
        "Every token attends to every token: the number of scores grows with n². Projections and feed-forward network treat each token by itself, and grow with n. Floating-point operations of one layer (a multiplication and an addition are two):",
      ),
      element("div", { class: "knobs" }, length.node, width.node, layers.node, words.node),
      figure,
      twice,
      readout,
      paragraph(
        "The initial settings (|T| ≈ 100,000, d = 12,288, n = 32,768, N = 96) are those of the lecture's large model: some 10¹¹ parameters. Windowed attention, which attends to w neighbours only, reduces n² to n·w.",
      ),
    ),
    draw,
  };
}
