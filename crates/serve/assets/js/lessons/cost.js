// Lesson: the cost of attention, O(n²), and the size of a large model.

import { element, paragraph, replace } from "../dom.js";
import { slider } from "../controls.js";
import { bar } from "../figures.js";
import { bytesText, grouped, large } from "../format.js";

export const costLesson = { id: "cost", title: "The cost of attention", build };

function build() {
  const power = { show: (x) => grouped(2 ** x) };
  const length = slider("Tokens n", { min: 4, max: 17, step: 0.5, value: 15, ...power }, draw);
  const width = slider("Width d", { min: 64, max: 16384, step: 64, value: 12288, show: grouped }, draw);
  const layers = slider("Layers N", { min: 1, max: 120, value: 96 }, draw);
  const words = slider("Vocabulary |T|", { min: 1000, max: 256000, step: 1000, value: 100000, show: grouped }, draw);
  const figure = element("div", { class: "panel pairs" });
  const readout = element("p", { class: "result" });
  function draw() {
    const [n, d, N] = [Math.round(2 ** length.value), width.value, layers.value];
    const scores = 2 * n * n * d * 2;
    const linear = 2 * n * 12 * d * d;
    const parameters = words.value * d + N * 12 * d * d;
    const row = (name, share, text) => [element("span", {}, name), bar(share, { text })];
    replace(
      figure,
      row("scores and weighted sums, n²·d", scores / (scores + linear), large(scores)),
      row("projections and feed-forward, n·d²", linear / (scores + linear), large(linear)),
    );
    figure.querySelectorAll(".number").forEach((own) => own.classList.add("wide"));
    const crossing = Math.round(6 * d);
    replace(
      readout,
      "Parameters |T|·d + 12·N·d² = ",
      element("strong", { class: "number", id: "cost-parameters" }, large(parameters)),
      `. The attention weights of one head in one layer are n² = ${grouped(n * n)} numbers, ${bytesText(4 * n * n)}. From n = 6·d = ${grouped(crossing)} on, attention itself costs more than the projections and the feed-forward network.`,
    );
  }
  draw();
  return {
    node: element(
      "div",
      {},
      paragraph(
        "Every token attends to every token, so twice the text is four times the work. Floating-point operations of one layer:",
      ),
      element("div", { class: "knobs" }, length.node, width.node, layers.node, words.node),
      figure,
      readout,
      paragraph(
        "The initial settings (|T| ≈ 100,000, d = 12,288, n = 32,768, N = 96) are those of the lecture's large model: some 10¹¹ parameters. Windowed attention, which attends to neighbours only, reduces n² to n·w.",
      ),
    ),
    draw,
  };
}
