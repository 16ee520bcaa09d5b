// Lesson: one-hot vectors and embeddings. A one-hot vector times a matrix is a row of the matrix.

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
  const similarity = element("div", { class: "panel side-by-side" });
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
      similarity,
      numberTable({ caption: "similarity of one-hot vectors", columns: WORDS, data: [oneHot], scale: 1.2, decimals: 0 }),
      numberTable({
        caption: "similarity of embeddings (cosine)",
        columns: WORDS,
        data: [E.map((other) => cosine(E[id], other))],
        scale: 1.2,
        id: "embedding-similarity",
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
        "A one-hot vector is as long as the vocabulary and only says which word it is: any two are equally different. An embedding is short, and words with similar uses are close together. Multiplying the one-hot vector by the matrix E selects a row, so programs look up the row instead.",
      ),
      element("div", { class: "knobs" }, word.node),
      product,
      paragraph("With one-hot vectors, “cat” is as far from “dog” as from “street”. With embeddings it is not:"),
      similarity,
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
