// Lesson: sinusoidal positions: a picture, one row as numbers, and the similarity of two positions.

import { drawn, element, paragraph, replace } from "../dom.js";
import { choice, slider } from "../controls.js";
import { signed } from "../colour.js";
import { fixed } from "../format.js";
import { dot, sinusoid } from "../maths.js";

const [LENGTH, SIZE] = [60, 64];

export const positionsLesson = { id: "positions", title: "Positions", build };

function build() {
  const layout = choice(
    "Sines and cosines",
    [
      ["interleaved", "interleaved"],
      ["concatenated", "concatenated"],
      ["tensor2tensor", "as in Tensor2Tensor"],
    ],
    "interleaved",
    draw,
  );
  const position = slider("Position i", { min: 0, max: LENGTH - 1, value: 7 }, draw);
  const canvas = element("canvas", {
    class: "positions",
    width: SIZE,
    height: LENGTH,
    role: "img",
    "aria-label": "Positions down, dimensions across",
  });
  const mark = element("span", { class: "position-mark", "aria-hidden": "true" });
  const row = element("p", { class: "number" });
  const curve = element("div");
  function draw() {
    const context = canvas.getContext("2d");
    const rows = Array.from({ length: LENGTH }, (_, i) =>
      Array.from({ length: SIZE }, (_number, j) => sinusoid(i, j, SIZE, layout.value)),
    );
    rows.forEach((numbers, i) =>
      numbers.forEach((number, j) => {
        context.fillStyle = signed(number, 1);
        context.fillRect(j, i, 1, 1);
      }),
    );
    mark.style.top = `${(100 * (position.value + 0.5)) / LENGTH}%`;
    const own = rows[position.value];
    const first = own.slice(0, 6).map((x) => fixed(x, 3));
    row.textContent = `position ${position.value}: [${first.join(", ")}, …]`;
    replace(
      curve,
      similarity(
        rows.map((other) => dot(own, other) / (SIZE / 2)),
        position.value,
      ),
    );
  }
  draw();
  const exponent = element("sup", {}, "2j/d");
  return {
    node: element(
      "div",
      {},
      paragraph(
        "Attention treats its input as a set, not a sequence: the order has to be added. Position i gets the vector of sin(i / 10000",
        exponent,
        ") and cos(i / 10000",
        exponent.cloneNode(true),
        "), from high to low frequencies. Lectures and programs order them differently; a model needs the order it was trained with.",
      ),
      element("div", { class: "knobs" }, layout.node, position.node),
      element("div", { class: "panel" }, element("div", { class: "marked" }, canvas, mark), row),
      paragraph(
        "Similarity of this position to every other (dot product, 1 for itself): neighbours are similar, and the similarity depends on the distance alone.",
      ),
      element("div", { class: "panel" }, curve),
    ),
    draw,
  };
}

function similarity(numbers, own) {
  const [width, height] = [600, 120];
  const x = (index) => (index / (numbers.length - 1)) * width;
  const y = (number) => height - 8 - Math.max(number, -0.1) * (height - 24) * 0.95;
  const path = numbers
    .map((number, index) => `${index ? "L" : "M"}${x(index).toFixed(1)} ${y(number).toFixed(1)}`)
    .join("");
  return drawn(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, class: "curve", role: "img", "aria-label": "Similarity of positions" },
    drawn("line", { x1: x(own), x2: x(own), y1: 0, y2: height, class: "mark" }),
    drawn("path", { d: path, class: "line" }),
  );
}
