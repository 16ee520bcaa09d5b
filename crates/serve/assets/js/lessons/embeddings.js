// Lesson: one-hot vectors against embeddings. A one-hot vector times a matrix is a row of it.

import { drawn, element, paragraph, replace } from "../dom.js";
import { choice } from "../controls.js";
import { numberTable } from "../figures.js";
import { cosine } from "../maths.js";

const WORDS = ["cat", "dog", "mouse", "street", "road", "tired"];
const E = [
  [0.9, 0.25],
  [0.85, 0.4],
  [0.8, 0.1],
  [-0.6, 0.75],
  [-0.7, 0.6],
  [-0.1, -0.85],
];

export const embeddingsLesson = { id: "embeddings", title: "Words as vectors", build };

function build() {
  const word = choice(
    "Word",
    WORDS.map((name, id) => [String(id), name]),
    "0",
    draw,
  );
  const product = element("div", { class: "panel side-by-side" });
  const alike = element("div", { class: "panel side-by-side" });
  function draw() {
    const id = Number(word.value);
    const oneHot = WORDS.map((_, own) => (own === id ? 1 : 0));
    replace(
      product,
      numberTable({ caption: `one-hot “${WORDS[id]}”`, columns: WORDS, data: [oneHot], scale: 1.2, decimals: 0 }),
      numberTable({ caption: "times E", rows: WORDS, data: E }),
      numberTable({ caption: "is a row of E", data: [E[id]] }),
    );
    replace(
      alike,
      numberTable({ caption: "likeness of one-hot vectors", columns: WORDS, data: [oneHot], scale: 1.2, decimals: 0 }),
      numberTable({
        caption: "likeness of embeddings (cosine)",
        columns: WORDS,
        data: [E.map((other) => cosine(E[id], other))],
        scale: 1.2,
        id: "embedding-likeness",
      }),
      map(id),
    );
  }
  draw();
  return {
    node: element(
      "div",
      {},
      paragraph(
        "A one-hot vector is as long as the vocabulary and says nothing but which word it is: any two are equally unlike. An embedding is short, and words that are used alike lie close together. Multiplying the one-hot vector by the matrix E picks a row, so programs look the row up instead.",
      ),
      element("div", { class: "knobs" }, word.node),
      product,
      paragraph("To a one-hot vector, a cat is as far from a dog as from a street. To embeddings it is not:"),
      alike,
    ),
    draw,
  };
}

function map(id) {
  const [size, middle] = [260, 130];
  const at = ([x, y]) => [middle + x * 105, middle - y * 105];
  const points = E.map((vector, own) => {
    const [x, y] = at(vector);
    return drawn(
      "g",
      { class: own === id ? "point chosen" : "point" },
      drawn("line", { x1: middle, y1: middle, x2: x, y2: y }),
      drawn("circle", { cx: x, cy: y, r: 4 }),
      drawn(
        "text",
        {
          x: x + (vector[0] < 0 ? -8 : 8),
          y: y + (own === 1 ? -6 : own === 2 ? 12 : 4),
          "text-anchor": vector[0] < 0 ? "end" : "start",
        },
        WORDS[own],
      ),
    );
  });
  return drawn(
    "svg",
    {
      viewBox: `-40 0 ${size + 90} ${size}`,
      class: "word-map",
      role: "img",
      "aria-label": "The six embeddings as arrows",
    },
    drawn("line", { x1: 0, x2: size, y1: middle, y2: middle, class: "axis" }),
    drawn("line", { x1: middle, x2: middle, y1: 0, y2: size, class: "axis" }),
    points,
  );
}
