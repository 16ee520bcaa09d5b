// Lesson: greedy decoding chooses "thanks", a beam of two finds "I am a student".

import { drawn, element, paragraph, replace } from "../dom.js";
import { slider } from "../controls.js";
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

export const beamLesson = { id: "beam", title: "Greedy or beam search", build };

function build() {
  const size = slider("beam_size", { min: 1, max: 3, value: 2 }, () => {
    steps.set(9);
    draw();
  });
  const steps = slider("Steps shown", { min: 1, max: 9, value: 9 }, draw);
  const figure = element("div", { class: "panel scrolls tree" });
  const results = element("ol", { class: "results", id: "beam-results" });
  function draw() {
    const { columns, finished } = search(size.value);
    steps.node.querySelector("input").max = columns.length;
    if (steps.value > columns.length) steps.set(columns.length);
    replace(figure, tree(columns.slice(0, steps.value)));
    const shown = finished
      .filter((own) => own.step < steps.value)
      .sort((a, b) => b.probability - a.probability)
      .slice(0, size.value);
    replace(
      results,
      shown.map((own) =>
        element("li", {}, own.words.join(" "), " ", element("strong", { class: "number" }, fixed(own.probability, 4))),
      ),
    );
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
      element("div", { class: "knobs" }, size.node, steps.node),
      figure,
      element("h4", {}, "Finished, best first"),
      results,
    ),
    draw,
  };
}

/** Beam search over the table: columns of hypotheses, and the finished ones. */
export function search(size) {
  let live = [{ id: END, probability: 1, words: [], index: null }];
  const columns = [];
  const finished = [];
  while (live.length && columns.length < 8) {
    const step = columns.length;
    const all = live.flatMap((own) =>
      AFTER[own.id]
        .map((p, id) => ({
          id,
          probability: own.probability * p,
          words: [...own.words, WORDS[id]],
          parent: own.index,
          step,
        }))
        .filter((next) => next.probability > 0),
    );
    all.sort((a, b) => b.probability - a.probability);
    const column = all.slice(0, Math.max(2 * size, 2));
    column.forEach((own, index) => {
      own.index = index;
    });
    column
      .slice(0, size)
      .filter((own) => own.id === END)
      .forEach((own) => {
        own.fate = "finished";
        finished.push(own);
      });
    live = column.filter((own) => own.id !== END).slice(0, size);
    live.forEach((own) => {
      own.fate = "kept";
    });
    columns.push(column);
    const best = Math.max(0, ...finished.map((own) => own.probability));
    if (finished.length >= size && live.every((own) => own.probability <= best)) break;
  }
  return { columns, finished };
}

function tree(columns) {
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
  const boxes = columns
    .flat()
    .map((own) =>
      drawn(
        "g",
        { class: `hypothesis ${own.fate ?? "pruned"}`, transform: `translate(${at(own).join(" ")})` },
        drawn("rect", { width, height, rx: 6 }),
        drawn("text", { x: 8, y: 20, class: "piece" }, WORDS[own.id]),
        drawn("text", { x: width - 8, y: 20, "text-anchor": "end", class: "sum" }, fixed(own.probability, 3)),
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
