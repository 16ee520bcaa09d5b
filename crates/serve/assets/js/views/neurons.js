// Neurons: how one weight is computed. Query times key, element by element; their sum, over √d; softmax over all keys.

import { drawn, element, replace } from "../dom.js";
import { readArray } from "../arrays.js";
import { errorText } from "../api.js";
import { list } from "../controls.js";
import { signed } from "../colour.js";
import { bar, strip } from "../figures.js";
import { fixed } from "../format.js";
import { dot, softmax } from "../maths.js";
import { picker } from "../picker.js";
import { visible } from "../tokens.js";

export const neuronsView = {
  id: "neurons",
  title: "Neurons",
  about:
    "A token's query is compared with every key: the products of their elements are summed and divided by √d, and softmax turns the scores into weights. Blue is positive, orange negative.",
  build,
};

function build(app) {
  const pick = picker(app, { withHead: true }, () => load());
  const query = list("Query token", [], "0", () => {
    key = null;
    draw();
  });
  const detail = element("div", { class: "panel" });
  const all = element("div", { class: "panel scrolls" });
  const node = element("div", {}, pick.node, element("div", { class: "controls" }, query.node), detail, all);
  let shown = null;
  let key = null;
  let pending = null;

  function update(trace) {
    if (!trace) return;
    pick.refresh(trace);
    load();
  }

  async function load() {
    const { trace, selection } = app;
    const { kind, layer, head } = selection;
    const longest = Math.max(trace.queries(kind).length, trace.keys(kind).length);
    const limit = app.model.limits.neurons;
    pending?.abort();
    if (longest > limit)
      return say(`The text has ${longest} tokens; this view shows up to ${limit} on each side. Use a shorter text.`);
    pending = new AbortController();
    try {
      const [vectors, heads] = await Promise.all([
        fetched(trace, kind, layer, head, pending.signal),
        trace.attention(kind, layer),
      ]);
      if (app.trace !== trace) return undefined;
      if (!vectors)
        return say(
          "Queries and keys are left out of this file to keep it small. polyhead explore shows them.",
        );
      shown = { trace, kind, ...vectors, weights: heads.matrix(head) };
      const tokens = trace.queries(kind);
      const index = Math.min(Number(query.value), tokens.length - 1);
      query.options(
        tokens.map((token, own) => [String(own), `${own}: ${visible(token.label)}`]),
        String(Math.max(index, 0)),
      );
      draw();
    } catch (error) {
      if (error.name !== "AbortError") say(errorText(error));
    }
    return undefined;
  }

  async function fetched(trace, kind, layer, head, signal) {
    const vectors = app.isLive
      ? await app.neurons(trace, { kind, layer, head }, signal)
      : trace.json.vectors.find((own) => own.kind === kind && own.layer === layer);
    if (!vectors?.heads.includes(head)) return null;
    const index = vectors.heads.indexOf(head);
    const rows = (packed) => {
      const {
        shape: [, length, width],
        data,
      } = readArray(packed);
      return Array.from({ length }, (_, row) =>
        data.subarray((index * length + row) * width, (index * length + row + 1) * width),
      );
    };
    return { queries: rows(vectors.query), keys: rows(vectors.key) };
  }

  function say(text) {
    shown = null;
    replace(detail, element("p", { class: "quiet" }, text));
    replace(all);
  }

  function draw() {
    if (!shown) return;
    const { trace, kind, queries, keys, weights } = shown;
    const row = Number(query.value);
    const q = queries[row];
    const isVisible = keys.map((_, own) => !trace.sites.get(kind).causal || own <= row);
    const sums = keys.map((k) => dot(q, k));
    const scores = sums.map((sum, own) => (isVisible[own] ? sum / Math.sqrt(q.length) : -Infinity));
    const shares = softmax(scores);
    key ??= shares.indexOf(Math.max(...shares));
    pair(q, key, { sum: sums[key], score: scores[key], share: shares[key] });
    const largest = Math.max(...keys.flatMap((k) => [...k].map(Math.abs)), ...q.map(Math.abs));
    const products = keys.map((k) => Array.from(q, (number, index) => number * k[index]));
    const most = Math.max(...products.flat().map(Math.abs));
    const width = q.length > 64 ? 2 : 3;
    const rows = keys.map((k, own) =>
      element(
        "tr",
        { class: own === key ? "chosen" : "" },
        element(
          "th",
          { scope: "row" },
          element(
            "button",
            {
              type: "button",
              class: "token",
              "aria-pressed": String(own === key),
              onclick: () => {
                key = own;
                draw();
              },
            },
            element("bdi", {}, visible(trace.keys(kind)[own].label)),
          ),
        ),
        element("td", {}, strip(Array.from(k), largest, { width })),
        element("td", {}, strip(products[own], most, { width })),
        element("td", { class: "number" }, fixed(sums[own], 2)),
        element("td", { class: "number" }, isVisible[own] ? fixed(scores[own], 2) : "masked"),
        element("td", { class: "share" }, bar(shares[own], { text: fixed(shares[own], 3) })),
      ),
    );
    replace(
      all,
      element(
        "table",
        { class: "neurons" },
        element(
          "thead",
          {},
          element(
            "tr",
            {},
            ["key", "k", "q × k", "q · k", "÷ √d", "softmax"].map((name) => element("th", { scope: "col" }, name)),
          ),
        ),
        element("tbody", {}, rows),
      ),
      differ(shares, weights.row(row)) &&
        element(
          "p",
          { class: "quiet" },
          "The model's own weights differ: its scores also depend on relative positions or on rounding.",
        ),
    );
  }

  function pair(q, own, { sum, score, share }) {
    const { trace, kind, keys } = shown;
    const k = keys[own];
    const product = Array.from(q, (number, index) => number * k[index]);
    const names = [visible(trace.queries(kind)[Number(query.value)].label), visible(trace.keys(kind)[own].label)];
    const largest = Math.max(...[...q, ...k].map(Math.abs));
    replace(
      detail,
      element("h3", {}, element("bdi", {}, names[0]), " attends to ", element("bdi", {}, names[1])),
      chart("q", Array.from(q), largest),
      chart("k", Array.from(k), largest),
      chart("q × k", product, Math.max(...product.map(Math.abs))),
      element(
        "p",
        { class: "equation" },
        "q · k = ",
        strong(fixed(sum, 3)),
        "  ÷ √",
        String(q.length),
        " = ",
        strong(fixed(score, 3)),
        "  → softmax ",
        strong(fixed(share, 4), "pair-share"),
      ),
    );
  }
  return { node, update };
}

function strong(text, id) {
  return element("strong", { class: "number", id }, text);
}

/** A vector as bars, each with its number as a title. */
function chart(name, vector, largest) {
  const [width, height] = [vector.length * 10, 44];
  const bars = vector.map((number, index) => {
    const size = largest > 0 ? (Math.abs(number) / largest) * (height / 2 - 1) : 0;
    const y = number >= 0 ? height / 2 - size : height / 2;
    return drawn(
      "rect",
      {
        x: index * 10 + 1,
        y,
        width: 8,
        height: Math.max(size, 0.5),
        fill: signed(Math.sign(number) * Math.max(Math.abs(number), largest * 0.45), largest),
      },
      drawn("title", {}, `${index}: ${fixed(number, 3)}`),
    );
  });
  return element(
    "div",
    { class: "vector" },
    element("span", {}, name),
    drawn(
      "svg",
      {
        viewBox: `0 0 ${width} ${height}`,
        preserveAspectRatio: "none",
        role: "img",
        "aria-label": `${name}: ${vector.length} numbers`,
      },
      drawn("line", { x1: 0, x2: width, y1: height / 2, y2: height / 2, class: "axis" }),
      bars,
    ),
  );
}

function differ(shares, weights) {
  return shares.some((share, index) => Math.abs(share - weights[index]) > 0.01);
}
