// Lesson: one-hot vectors and embeddings. A one-hot vector times a matrix is a row of the matrix. The table is the model's own;
// a page without a model has a made-up one.

import { element, paragraph, replace } from "../dom.js";
import { choice } from "../controls.js";
import { bar, numberTable } from "../figures.js";
import { errorText, postEmbeddings } from "../api.js";
import { fixed, grouped } from "../format.js";
import { cosine } from "../maths.js";
import { visible } from "../tokens.js";

const WORDS = ["cat", "dog", "mouse", "street", "road", "tired"];
const MADE_UP = [
  [0.9, 0.25],
  [0.85, 0.4],
  [0.8, 0.1],
  [-0.6, 0.75],
  [-0.7, 0.6],
  [-0.1, -0.85],
];

/** Numbers of a row that are shown. */
const SHOWN = 6;

export const embeddingsLesson = { id: "embeddings", title: "Words as vectors", build };

function build(app) {
  let table = app.isLive && !app.model.task ? null : madeUp();
  const word = choice("Word", [], "0", draw);
  const about = element("p", { role: "status" }, "Reading the model's table …");
  const product = element("div", { class: "panel" });
  const similarity = element("div", { class: "panel" });
  const nearest = element("p");
  const body = element(
    "div",
    { hidden: true },
    element("div", { class: "knobs" }, word.node),
    product,
    paragraph(
      "With one-hot vectors, any two words have the similarity 0. With embeddings, words of similar use are nearer (cosine similarity, 1 for equal directions):",
    ),
    similarity,
    nearest,
  );
  const show = (found) => {
    table = found;
    word.options(
      table.rows.map((own, index) => [String(index), own.word]),
      "0",
    );
    body.hidden = table.rows.length === 0;
    about.textContent = introduction(table);
    draw();
  };
  function draw() {
    const own = table?.rows[Number(word.value)];
    if (!own) return;
    const { rows, vocab_size: size, d_model: width } = table;
    const first = own.vector.slice(0, SHOWN);
    const more = width > SHOWN ? ` … (${width} numbers)` : "";
    replace(
      product,
      element(
        "p",
        {},
        `One-hot “${own.word}”: ${grouped(size)} numbers, a 1 at position ${grouped(own.id)}, else 0. Times E (${grouped(size)} × ${width}) it is row ${grouped(own.id)} of E:`,
      ),
      element(
        "p",
        { class: "number", id: "embedding-row" },
        `[${first.map((x) => fixed(x, 3)).join(", ")}${more}]`,
      ),
      numberTable({
        caption: `the first ${first.length} columns of the rows of E`,
        rows: rows.map((other) => other.word),
        data: rows.map((other) => other.vector.slice(0, SHOWN)),
        decimals: 3,
      }),
    );
    replace(
      similarity,
      element(
        "div",
        { class: "pairs", id: "embedding-similarity" },
        rows.map((other, index) => [
          element("span", {}, other.word),
          bar(Math.max(own.similarities[index], 0), { text: fixed(own.similarities[index]) }),
        ]),
      ),
    );
    replace(
      nearest,
      own.nearest.length > 0 && [
        `Of all ${grouped(size)} tokens the most similar to “${own.word}” are `,
        own.nearest.map(([piece, share], index) => [
          index > 0 && ", ",
          element("bdi", { class: "number" }, visible(piece.replace("▁", ""))),
          ` ${fixed(share)}`,
        ]),
        ".",
      ],
    );
  }
  if (table) show(table);
  else
    postEmbeddings(WORDS)
      .then(show)
      .catch((error) => {
        about.textContent = errorText(error);
      });
  return {
    node: element(
      "div",
      {},
      paragraph(
        "A one-hot vector is as long as the vocabulary and only says which word it is: any two are equally different. An embedding is short, and words with similar uses are close together. Multiplying the one-hot vector by the matrix E selects a row, so programs look up the row instead.",
      ),
      about,
      body,
    ),
    draw,
  };
}

function introduction({ rows, split, isMadeUp }) {
  if (isMadeUp) return "The numbers below are made up: this page has no model. polyhead explore shows those of a model.";
  const own = "The numbers below are rows of the model's own table of source embeddings, as it was trained.";
  const others = split.length ? ` Not single tokens of this model, and left out: ${split.join(", ")}.` : "";
  return rows.length ? own + others : "None of the words of this lesson is a single token of this model.";
}

function madeUp() {
  const rows = MADE_UP.map((vector, id) => ({
    word: WORDS[id],
    id,
    vector,
    similarities: MADE_UP.map((other) => cosine(vector, other)),
    nearest: [],
  }));
  return { rows, split: [], vocab_size: WORDS.length, d_model: 2, isMadeUp: true };
}
