// Lesson: greedy decoding chooses "thanks", a beam of two finds "I am a student". Sums of logarithms, and the length penalty.

import { drawn, element, paragraph, replace } from "../dom.js";
import { choice, slider } from "../controls.js";
import { numberTable } from "../figures.js";
import { fixed } from "../format.js";

const WORDS = ["a", "am", "I", "thanks", "student", "<eos>"];
const END = 5;
// Row i: the probabilities of the word after word i; <eos> is also the start before the first word.
const AFTER = [
  [0, 0, 0, 0, 0.9, 0.1],
  [0.9, 0, 0, 0.1, 0, 0],
  [0, 0.9, 0, 0, 0, 0.1],
  [0.3, 0, 0.25, 0, 0, 0.45],
  [0, 0, 0, 0, 0, 1],
  [0.1, 0, 0.4, 0.5, 0, 0],
];
const MAX_LENGTH = 12;

export const beamLesson = { id: "beam", title: "Greedy or beam search", build };

function build() {
  const size = slider("beam_size", { min: 1, max: 3, value: 2 }, () => {
    steps.set(MAX_LENGTH);
    draw();
  });
  const penalty = slider("Length penalty α", { min: 0, max: 1, step: 0.1, value: 0, show: (x) => fixed(x, 1) }, draw);
  const steps = slider("Steps shown", { min: 1, max: MAX_LENGTH, value: MAX_LENGTH }, draw);
  const unit = choice(
    "Boxes show",
    [
      ["probability", "probabilities"],
      ["log", "sums of logarithms"],
    ],
    "probability",
    draw,
  );
  const boxes = element("p");
  const figure = element("div", { class: "panel scrolls tree", tabindex: "0", role: "group", "aria-label": "Search" });
  const results = element("ol", { class: "results", id: "beam-results" });
  const scores = element("div");
  function draw() {
    const { columns, finished } = beamSearch(size.value, penalty.value);
    steps.node.querySelector("input").max = columns.length;
    if (steps.value > columns.length) steps.set(columns.length);
    replace(figure, tree(columns.slice(0, steps.value), unit.value));
    const shown = finished.filter((own) => own.step < steps.value);
    replace(
      results,
      shown.map((own) =>
        element(
          "li",
          {},
          own.words.join(" "),
          " ",
          element("strong", { class: "number" }, fixed(Math.exp(own.sum), 4)),
        ),
      ),
    );
    replace(
      scores,
      shown.length > 0 &&
        numberTable({
          id: "beam-scores",
          rows: shown.map((own) => own.words.join(" ")),
          columns: ["sum of logs", "words n", "÷ nᵅ: score"],
          data: shown.map((own) => [own.sum, own.words.length, own.score]),
          decimals: [3, 0, 3],
        }),
    );
    boxes.textContent = `Each column has the ${2 * size.value} best continuations, twice beam_size, because up to half of them may end there, or as many as there are: the start has only three. Solid boxes are kept (${size.value} at most), dashed ones are dropped, orange ones have ended.`;
  }
  draw();
  return {
    node: element(
      "div",
      {},
      paragraph(
        "“je suis étudiant”, with a made-up model of six words. Greedy decoding (beam_size 1) takes the best word each time: ",
        element("em", {}, "thanks"),
        " with 0.5, then <eos> with 0.45, together 0.225. A beam of 2 also keeps ",
        element("em", {}, "I"),
        " with 0.4, which turns out better: 0.4 · 0.9 · 0.9 · 0.9 · 1 = 0.2916. With top_beams = 2 both are returned.",
      ),
      element("div", { class: "knobs" }, size.node, penalty.node, steps.node, unit.node),
      boxes,
      figure,
      element("h4", {}, "Finished, best first"),
      results,
      element("h4", {}, "Logarithms and length penalty"),
      paragraph(
        "Programs add logarithms instead of multiplying: the product of a hundred small probabilities is smaller than any float, their sum of logarithms is not. Every word makes the sum smaller, so short translations would win; dividing by nᵅ, the length penalty, makes up for it. With α = 0 there is none, with α = 1 the score is the mean of the logarithms.",
      ),
      scores,
    ),
    draw,
  };
}

/** Beam search over the table: columns of hypotheses, and the finished ones, best first. */
export function beamSearch(size, alpha) {
  let live = [{ id: END, sum: 0, words: [], index: null }];
  const columns = [];
  let finished = [];
  while (live.length && columns.length < MAX_LENGTH) {
    const step = columns.length;
    const all = live.flatMap((own) =>
      AFTER[own.id]
        .map((p, id) => ({
          id,
          sum: own.sum + Math.log(p),
          words: [...own.words, WORDS[id]],
          parent: own.index,
          step,
        }))
        .filter((next) => next.sum > -Infinity),
    );
    all.sort((a, b) => b.sum - a.sum);
    const column = all.slice(0, 2 * size);
    column.forEach((own, index) => {
      Object.assign(own, { index, score: own.sum / own.words.length ** alpha });
    });
    const ended = column.slice(0, size).filter((own) => own.id === END);
    ended.forEach((own) => {
      own.fate = "finished";
    });
    finished = [...finished, ...ended].sort((a, b) => b.score - a.score).slice(0, size);
    live = column.filter((own) => own.id !== END).slice(0, size);
    live.forEach((own) => {
      own.fate = "kept";
    });
    columns.push(column);
    if (finished.length >= size && live.every((own) => own.score <= finished.at(-1).score)) break;
  }
  return { columns, finished };
}

function tree(columns, unit) {
  const [width, height, gap] = [112, 30, 40];
  const at = (own) => [own.step * (width + gap) + 4, own.index * (height + 10) + 4];
  const edges = columns.flatMap((column) =>
    column
      .filter((own) => own.parent !== null)
      .map((own) => {
        const [x, y] = at({ step: own.step - 1, index: own.parent });
        const [toX, toY] = at(own);
        const half = (x + width + toX) / 2;
        return drawn("path", {
          class: `edge ${own.fate ?? "pruned"}`,
          d: `M${x + width} ${y + height / 2}C${half} ${y + height / 2} ${half} ${toY + height / 2} ${toX} ${toY + height / 2}`,
        });
      }),
  );
  const number = (own) => (unit === "log" ? fixed(own.sum, 3) : fixed(Math.exp(own.sum), 3));
  const boxes = columns
    .flat()
    .map((own) =>
      drawn(
        "g",
        { class: `hypothesis ${own.fate ?? "pruned"}`, transform: `translate(${at(own).join(" ")})` },
        drawn("rect", { width, height, rx: 6 }),
        drawn("text", { x: 8, y: 20, class: "piece" }, WORDS[own.id]),
        drawn("text", { x: width - 8, y: 20, "text-anchor": "end", class: "sum" }, number(own)),
      ),
    );
  const most = Math.max(...columns.map((column) => column.length));
  const size = [columns.length * (width + gap), most * (height + 10) + 8];
  return drawn(
    "svg",
    { width: size[0], height: size[1], role: "img", "aria-label": "Tree of hypotheses" },
    edges,
    boxes,
  );
}
