// Lesson: the K/V cache. Without it every step recomputes all keys and values.

import { drawn, element, paragraph, replace } from "../dom.js";
import { slider, checkbox } from "../controls.js";
import { bytesText, grouped } from "../format.js";
import { square } from "../figures.js";

export const cacheLesson = { id: "cache", title: "The K/V cache", build };

function build() {
  const length = slider("Generated tokens, n", { min: 1, max: 24, value: 10 }, draw);
  const cached = checkbox("Cache keys and values", true, draw);
  const layers = slider("Layers N", { min: 1, max: 96, value: 6 }, draw);
  const width = slider("Width d", { min: 64, max: 12288, step: 64, value: 512, show: grouped }, draw);
  const figure = element("div", { class: "panel" });
  const readout = element("p", { class: "result" });
  const memory = element("p");
  function draw() {
    const n = length.value;
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
    replace(
      readout,
      "Keys and values computed: ",
      element("strong", { class: "number", id: "cache-count" }, grouped(cached.value ? n : all)),
      cached.value ? ` instead of ${grouped(all)}.` : ` of n (n + 1) / 2; with a cache ${grouped(n)}.`,
    );
    replace(
      memory,
      "The cost is memory: 2 · N · n · d numbers, at n = 1,000 and four bytes each ",
      element("strong", { class: "number" }, bytesText(2 * layers.value * 1000 * width.value * 4)),
      " for every sentence.",
    );
  }
  draw();
  return {
    node: element(
      "div",
      {},
      paragraph(
        "Token t of a translation attends to the keys and values of all tokens before it. These never change, because no token attends to later ones. So each step computes only those of its own token and takes the rest from the cache: dark cells are computed, light ones cached. Rows are steps.",
      ),
      element("div", { class: "knobs" }, length.node, cached.node),
      figure,
      readout,
      element("div", { class: "knobs" }, layers.node, width.node),
      memory,
    ),
    draw,
  };
}
