// Lesson: two heads on the string A A B A attend to two things at once; with a model, the heads of the current sentence.

import { element, paragraph, replace } from "../dom.js";
import { slider, checkbox } from "../controls.js";
import { numberTable } from "../figures.js";
import { headVariable } from "../colour.js";
import { matmul, softmax } from "../maths.js";

const LETTERS = [..."AABA"];
const E = LETTERS.map((letter) => (letter === "A" ? [1, 0] : [0, 1]));

export const multiHeadLesson = { id: "multi-head", title: "Multi-head attention", build };

function build(app) {
  const first = checkbox("Head 0: the same letter", true, draw);
  const second = checkbox("Head 1: the previous letter", true, draw);
  const count = slider(
    "Heads of a layer of width 512",
    { min: 0, max: 5, value: 3, show: (x) => String(2 ** x) },
    draw,
  );
  const figure = element("div", { class: "panel side-by-side" });
  const cost = element("p");
  const live = element("p");
  function draw() {
    const same = E.map((row) => softmax(E.map((other) => 10 * (row[0] * other[0] + row[1] * other[1]))));
    const before = LETTERS.map((_, row) =>
      softmax(LETTERS.map((_letter, column) => (column === Math.max(row - 1, 0) ? 10 : 0))),
    );
    const heads = [
      [first, same],
      [second, before],
    ]
      .filter(([box]) => box.value)
      .map(([, weights]) => weights);
    const outputs = heads.map((weights) => matmul(weights, E));
    const joined = LETTERS.map((_, row) => outputs.flatMap((output) => output[row]));
    const names = [first.value && "head 0", second.value && "head 1"].filter(Boolean);
    replace(
      figure,
      heads.map((data, own) =>
        numberTable({ caption: `weights of ${names[own]}`, rows: LETTERS, columns: LETTERS, data, scale: 1 }),
      ),
      heads.length
        ? numberTable({
            caption: "their outputs, concatenated",
            rows: LETTERS,
            columns: names.flatMap((name) => [`${name}, A`, `${name}, B`]),
            data: joined,
            decimals: 1,
          })
        : element("p", { class: "quiet" }, "Without a head there is no output."),
    );
    const n = 2 ** count.value;
    replace(
      cost,
      `A layer of width 512 with ${n} ${n === 1 ? "head" : "heads"} gives each ${512 / n} dimensions. Its four matrices have 4 · 512² = 1,048,576 parameters for any number of heads: heads divide the width and add no cost.`,
    );
    replace(
      live,
      app.trace?.alignmentSite
        ? [
            "Real heads: ",
            element(
              "a",
              { href: "#heads" },
              `${app.trace.headCount(app.trace.alignmentSite.kind)} of them on “${app.trace.json[app.trace.json.sides[0]].text}”`,
            ),
            ".",
          ]
        : null,
    );
  }
  draw();
  const chip = (head, text) => element("span", { class: "chip", style: { "--own": headVariable(head) } }, text);
  return {
    node: element(
      "div",
      {},
      paragraph(
        "One head has one set of weights per token, so it attends to one thing. ",
        chip(0, "Head 0"),
        " compares letters, ",
        chip(1, "head 1"),
        " compares positions; their outputs are concatenated, and a last matrix W",
        element("sub", {}, "O"),
        " mixes them.",
      ),
      element("div", { class: "knobs" }, first.node, second.node),
      figure,
      element("div", { class: "knobs" }, count.node),
      cost,
      live,
    ),
    draw,
  };
}
