// Lesson: masks. Who may look at whom, and how many pairs are left to compute.

import { drawn, element, paragraph, replace } from "../dom.js";
import { choice, slider } from "../controls.js";
import { grouped } from "../format.js";
import { square } from "../figures.js";

const MASKS = [
  ["full", "none"],
  ["causal", "causal"],
  ["padding", "padding"],
  ["window", "window"],
  ["dilated", "dilated"],
  ["global", "global + window"],
];
const ABOUT = {
  full: "Everyone sees everyone: an encoder's self-attention.",
  causal: "Nobody sees what comes later: a decoder writes from left to right, and all its steps are trained at once.",
  padding:
    "Shorter sentences of a batch are filled up; nobody looks at the filling. Its own rows look at nothing and give zeros.",
  window: "Everyone sees neighbours only: the cost grows with n, not with n².",
  dilated: "Every second neighbour: the same cost sees twice as far.",
  global: "The first token sees all and is seen by all; the others see their neighbours.",
};

export const masksLesson = { id: "masks", title: "Masks", build };

function build() {
  const kind = choice("Mask", MASKS, "causal", draw);
  const length = slider("Tokens n", { min: 4, max: 24, value: 12 }, draw);
  const reach = slider("Reach w, or tokens of filling", { min: 1, max: 12, value: 2 }, draw);
  const figure = element("div", { class: "panel" });
  const text = element("p");
  const count = element("p", { class: "result" });
  function draw() {
    const n = length.value;
    const w = reach.value;
    const sees = rule(kind.value, w, Math.max(n - w, 1));
    let pairs = 0;
    const cells = [];
    for (let row = 0; row < n; row += 1) {
      for (let column = 0; column < n; column += 1) {
        const may = sees(row, column);
        pairs += may;
        cells.push(square(column, row, may ? "may" : "may-not"));
      }
    }
    replace(
      figure,
      drawn(
        "svg",
        { viewBox: `0 0 ${n * 10} ${n * 10}`, class: "mask", role: "img", "aria-label": `${pairs} of ${n * n} pairs` },
        cells,
      ),
    );
    text.textContent = ABOUT[kind.value];
    replace(
      count,
      element("strong", { class: "number", id: "mask-pairs" }, grouped(pairs)),
      ` of ${grouped(n * n)} pairs are computed (${Math.round((100 * pairs) / (n * n))} %).`,
    );
  }
  draw();
  return {
    node: element(
      "div",
      {},
      paragraph(
        "A mask says who may look at whom, rows at columns. What may not be seen gets the score −∞, so softmax gives it nothing.",
      ),
      element("div", { class: "knobs" }, kind.node, length.node, reach.node),
      text,
      figure,
      count,
    ),
    draw,
  };
}

function rule(kind, w, real) {
  return {
    full: () => true,
    causal: (row, column) => column <= row,
    padding: (row, column) => row < real && column < real,
    window: (row, column) => Math.abs(row - column) <= w,
    dilated: (row, column) => Math.abs(row - column) <= 2 * w && (row - column) % 2 === 0,
    global: (row, column) => row === 0 || column === 0 || Math.abs(row - column) <= w,
  }[kind];
}
