// Lesson: the K/V cache. Without it every step recomputes all keys and values; those of the source are computed once.

import { drawn, element, paragraph, replace } from "../dom.js";
import { slider, checkbox } from "../controls.js";
import { bytesText, grouped } from "../format.js";
import { square } from "../figures.js";

export const cacheLesson = { id: "cache", title: "The K/V cache", build };

/** Bytes of the cache in f32: keys and values of n target and m source tokens in N layers of width d. */
export function cacheBytes(n, m, N, d) {
  return { decoder: 2 * N * n * d * 4, cross: 2 * N * m * d * 4 };
}

function build() {
  const length = slider("Generated tokens n", { min: 1, max: 24, value: 10 }, draw);
  const source = slider("Source tokens m", { min: 1, max: 24, value: 8 }, draw);
  const cached = checkbox("Cache keys and values", true, draw);
  const layers = slider("Decoder layers N", { min: 1, max: 96, value: 6 }, draw);
  const width = slider("Width d", { min: 64, max: 12288, step: 64, value: 512, show: grouped }, draw);
  const figure = element("div", { class: "panel" });
  const readout = element("p", { class: "result" });
  const memory = element("p");
  function draw() {
    const [n, m] = [length.value, source.value];
    const cells = [];
    for (let step = 0; step < n; step += 1) {
      for (let token = 0; token <= step; token += 1) {
        const isNew = !cached.value || token === step;
        cells.push(square(token, step, isNew ? "allowed" : "cached"));
      }
    }
    const all = (n * (n + 1)) / 2;
    replace(
      figure,
      drawn(
        "svg",
        { viewBox: `0 0 ${n * 10} ${n * 10}`, class: "mask", role: "img", "aria-label": "Steps down, tokens across" },
        cells,
      ),
    );
    const isCached = cached.value;
    replace(
      readout,
      "Target tokens whose keys and values are computed in each layer: ",
      element("strong", { class: "number", id: "cache-count" }, grouped(isCached ? n : all)),
      isCached ? ` instead of n·(n + 1) / 2 = ${grouped(all)}` : ` = n·(n + 1) / 2; with a cache n = ${grouped(n)}`,
      "; source tokens for cross-attention: ",
      element("strong", { class: "number", id: "cache-source" }, grouped(isCached ? m : n * m)),
      isCached ? ` instead of n·m = ${grouped(n * m)}.` : ` = n·m; with a cache m = ${grouped(m)}.`,
    );
    const { decoder, cross } = cacheBytes(n, m, layers.value, width.value);
    replace(
      memory,
      "The cost is memory: 2·N·n·d numbers for the decoder's self-attention and 2·N·m·d for its cross-attention. At four bytes each, after ",
      String(n),
      " tokens: ",
      element("strong", { class: "number", id: "cache-bytes" }, `${bytesText(decoder)} + ${bytesText(cross)}`),
      " for every hypothesis. The second part is the same for all hypotheses of a sentence and does not grow.",
    );
  }
  draw();
  return {
    node: element(
      "div",
      {},
      paragraph(
        "Token t of a translation attends to the keys and values of all target tokens before it (self-attention) and of all source tokens (cross-attention). Neither ever changes: no token attends to later ones, and the source stays as it is. So each step computes only those of its own token and takes the rest from the cache; those of the source are computed once, before the first step. Rows are steps, columns target tokens: dark cells are computed, light ones cached.",
      ),
      element("div", { class: "knobs" }, length.node, source.node, cached.node),
      figure,
      readout,
      element("div", { class: "knobs" }, layers.node, width.node),
      memory,
    ),
    draw,
  };
}
