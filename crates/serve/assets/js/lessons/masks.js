// Lesson: attention masks. Which tokens may attend to which, and how many pairs are left to compute.

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
  full: "Every token attends to every token: an encoder's self-attention.",
  causal: "No token attends to later ones: a decoder generates from left to right, and all its steps are trained at once.",
  padding:
    "Shorter sentences of a batch are padded at their end, and no token attends to the padding: its keys (columns) are hidden. Its queries (rows) are computed all the same; nobody reads what they give.",
  window: "Every token attends to its neighbours only: the cost grows with n, not with n².",
  dilated: "Every second neighbour, w on each side: twice the range at the same cost.",
  global: "The first token attends to all tokens and all attend to it; the others attend to their neighbours.",
};

export const masksLesson = { id: "masks", title: "Masks", build };

function build() {
  const kind = choice("Mask", MASKS, "causal", draw);
  const length = slider("Tokens n", { min: 4, max: 24, value: 12 }, draw);
  const window_ = slider("Neighbours on each side, w", { min: 0, max: 12, value: 2 }, draw);
  const padding = slider("Padding tokens", { min: 0, max: 23, value: 3 }, draw);
  const figure = element("div", { class: "panel" });
  const text = element("p");
  const count = element("p", { class: "result" });
  function draw() {
    const n = length.value;
    // Only the sliders that change something are shown.
    window_.node.hidden = !["window", "dilated", "global"].includes(kind.value);
    padding.node.hidden = kind.value !== "padding";
    padding.node.querySelector("input").max = n - 1;
    if (padding.value > n - 1) padding.set(n - 1);
    const isAllowed = rule(kind.value, window_.value, n - padding.value);
    let pairs = 0;
    const cells = [];
    for (let row = 0; row < n; row += 1) {
      for (let column = 0; column < n; column += 1) {
        const allowed = isAllowed(row, column);
        pairs += allowed;
        cells.push(square(column, row, allowed ? "allowed" : "masked"));
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
      ` of ${grouped(n * n)} pairs are allowed (${Math.round((100 * pairs) / (n * n))} %).`,
    );
  }
  draw();
  return {
    node: element(
      "div",
      {},
      paragraph(
        "A mask says which tokens (columns) each token (row) may attend to. Masked pairs get the score −∞, so their weight after softmax is 0.",
      ),
      element("div", { class: "knobs" }, kind.node, length.node, window_.node, padding.node),
      text,
      figure,
      count,
    ),
    draw,
  };
}

/** True for a query (row) that may attend to a key (column); `real` tokens are not padding. */
export function rule(kind, w, real) {
  return {
    full: () => true,
    causal: (row, column) => column <= row,
    padding: (_row, column) => column < real,
    window: (row, column) => Math.abs(row - column) <= w,
    dilated: (row, column) => Math.abs(row - column) <= 2 * w && (row - column) % 2 === 0,
    global: (row, column) => row === 0 || column === 0 || Math.abs(row - column) <= w,
  }[kind];
}
