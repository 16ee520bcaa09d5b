// Lesson: attention as lookup of B in the string A A B A, with a query of adjustable strength.

import { element, paragraph, replace } from "../dom.js";
import { choice, slider } from "../controls.js";
import { bar, numberTable } from "../figures.js";
import { fixed } from "../format.js";
import { dot, mix, softmax } from "../maths.js";

const CODES = { A: [1, 0], B: [0, 1] };

export const lookupLesson = { id: "lookup", title: "Attention as lookup", build };

function build() {
  let letters = [..."AABA"];
  const strength = slider("Query [0, x]: x", { min: 0, max: 10, step: 0.5, value: 1, show: (x) => fixed(x, 1) }, draw);
  const base = choice(
    "Base of softmax",
    [
      ["3", "3, as in the lecture"],
      ["e", "e"],
    ],
    "3",
    draw,
  );
  const string = element("div", {
    class: "tokens",
    role: "group",
    "aria-label": "The string; click a letter to change it",
  });
  const table = element("div");
  const weights = element("div", { class: "pairs", id: "lookup-weights" });
  const output = element("p", { class: "result" });
  function draw() {
    const focused = [...string.children].indexOf(document.activeElement);
    replace(
      string,
      letters.map((letter, own) =>
        element(
          "button",
          {
            type: "button",
            class: "token",
            "aria-label": `letter ${own + 1}: ${letter}`,
            onclick: () => {
              letters[own] = letter === "A" ? "B" : "A";
              draw();
            },
          },
          letter,
        ),
      ),
    );
    string.children[focused]?.focus();
    const keys = letters.map((letter) => CODES[letter]);
    const query = [0, strength.value];
    const scores = keys.map((key) => dot(query, key));
    const shares = softmax(scores, base.value === "e" ? Math.E : 3);
    const average = mix(
      keys.map(() => 1 / keys.length),
      keys,
    );
    const pair = (vector) => `[${vector.map((x) => fixed(x, 3)).join(", ")}]`;
    replace(
      table,
      numberTable({
        columns: letters,
        rows: ["key, first", "key, second", "score"],
        data: [keys.map((key) => key[0]), keys.map((key) => key[1]), scores],
        decimals: 1,
      }),
    );
    replace(
      weights,
      shares.map((share, own) => [
        element("span", {}, `${letters[own]} at ${own + 1}`),
        bar(share, { text: fixed(share, 3) }),
      ]),
    );
    replace(
      output,
      "Attention gives ",
      element("strong", { class: "number", id: "lookup-output" }, pair(mix(shares, keys))),
      "; a plain average, without a query, gives ",
      element("strong", { class: "number" }, pair(average)),
      ".",
    );
  }
  draw();
  return {
    node: element(
      "div",
      {},
      paragraph(
        "A is [1, 0], B is [0, 1], and the query asks for B. Each letter's score is its dot product with the query; softmax turns the scores into weights; the output is the weighted mean. The larger the query, the sharper the weights, until only B counts.",
      ),
      element("p", { class: "quiet" }, "Click a letter to change it."),
      string,
      element("div", { class: "knobs" }, strength.node, base.node),
      element("div", { class: "panel" }, table, weights, output),
    ),
    draw,
  };
}
