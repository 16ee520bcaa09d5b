// Lesson: GloVe's ratios of co-occurrence probabilities, on a text that is made to have those of the paper.

import { element, paragraph, replace } from "../dom.js";
import { numberTable } from "../figures.js";
import { slider } from "../controls.js";
import { fixed } from "../format.js";

const WORDS = ["solid", "gas", "water", "fashion"];
/** How often each word stands beside ice and beside steam, and all words beside them. */
const ICE = [890, 85, 1360, 96];
const STEAM = [100, 1000, 1000, 100];
const TOTAL = 3000;

export const ratiosLesson = { id: "ratios", title: "Ratios of counts (GloVe)", build };

function build() {
  const most = slider("x_max", { min: 50, max: 2000, step: 50, value: 100, show: String }, draw);
  const table = element("div", { class: "panel" });
  const weights = element("div", { class: "panel" });
  function draw() {
    const shares = (counts) => counts.map((count) => count / TOTAL);
    const [ice, steam] = [shares(ICE), shares(STEAM)];
    replace(
      table,
      numberTable({
        caption: "P(k | ice), P(k | steam) and their ratio",
        rows: ["P(k | ice)", "P(k | steam)", "ratio"],
        columns: WORDS,
        data: [ice, steam, ice.map((own, at) => own / steam[at])],
        decimals: 3,
        id: "ratios-table",
      }),
    );
    const weight = (count) => Math.min(1, (count / most.value) ** 0.75);
    replace(
      weights,
      numberTable({
        caption: "weight f(X) = min(1, (X / x_max)^0.75) of each count",
        rows: ["ice", "steam"],
        columns: WORDS,
        data: [ICE.map(weight), STEAM.map(weight)],
        decimals: 3,
        id: "ratios-weights",
      }),
    );
  }
  draw();
  return {
    node: element(
      "div",
      {},
      paragraph(
        `Count which words stand near ice and near steam. Water is near both, fashion near neither: their ratios are about 1 (${fixed(1.36)} and ${fixed(0.96)}). Solid belongs to ice, gas to steam: their ratios are far from 1 (8.9 and 0.085). So ratios carry meaning where single counts do not.`,
      ),
      element("div", { class: "knobs" }, most.node),
      table,
      paragraph(
        "GloVe asks that products of vectors be logarithms of counts, w·u + b + c = ln X; then differences of vectors are logarithms of ratios. The objective is the sum of f(X) (w·u + b + c − ln X)²: frequent pairs count more, but not without limit.",
      ),
      weights,
      paragraph("Train GloVe vectors with polyhead vectors train --method glove."),
    ),
    draw,
  };
}
