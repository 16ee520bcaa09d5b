// Heads: every line is a weight from a query token to a key token, one colour for each head. Heads can be shown one by one, or
// as their mean.

import { errorText } from "../api.js";
import { drawn, element, replace } from "../dom.js";
import { choice, slider } from "../controls.js";
import { headDash, headVariable } from "../colour.js";
import { fixed } from "../format.js";
import { curves, sized, whenResized } from "../lines.js";
import { arrowKeys, rove } from "../keys.js";
import { picker } from "../picker.js";
import { tokenNode, visible } from "../tokens.js";

const PAGE = 200;
const MAX_LINES = 60000;
const MIN_WEIGHT = 0.02;

export const headsView = {
  id: "heads",
  title: "Heads",
  about:
    "Tokens on the left attend to tokens on the right. Point at a token to see its lines alone; the small boxes on the right show the weight of each head.",
  build,
};

function build(app) {
  const pick = picker(app, {}, () => update(app.trace));
  const mode = choice(
    "Show",
    [
      ["each", "each head"],
      ["mean", "mean"],
    ],
    "each",
    draw,
  );
  const page = slider("From token", { min: 0, max: 0, value: 0 }, () => fill());
  const palette = element("div", { class: "palette", role: "group", "aria-label": "Heads" });
  const box = element("div", { class: "columns" });
  const canvas = element("canvas", { "aria-hidden": "true" });
  const note = element("p", { class: "quiet", "aria-live": "polite" });
  const node = element(
    "div",
    {},
    pick.node,
    element(
      "div",
      { class: "controls" },
      element("div", { class: "control" }, element("span", { "aria-hidden": "true" }, "Heads"), palette),
      mode.node,
      page.node,
    ),
    box,
    note,
  );
  let on = null;
  let heads = null;
  let rows = [];
  let keys = [];
  let index = null;

  async function update(trace) {
    if (!trace) return;
    pick.refresh(trace);
    const { kind, layer } = app.selection;
    const found = await trace.attention(kind, layer).catch((error) => {
      note.textContent = errorText(error);
      replace(box);
    });
    if (!found || app.trace !== trace || app.selection.kind !== kind || app.selection.layer !== layer) return;
    heads = found;
    if (!on || on.length !== found.heads.length) on = found.heads.map(() => true);
    const focus = app.takeFocus("heads");
    if (focus) on = found.heads.map((head) => head === focus.head);
    drawPalette();
    const longest = Math.max(trace.queries(kind).length, trace.keys(kind).length);
    page.node.hidden = longest <= PAGE;
    page.node.querySelector("input").max = Math.max(longest - PAGE, 0);
    page.set(Math.min(page.value, Math.max(longest - PAGE, 0)));
    fill();
    if (focus) point(focus.row - page.value);
  }
  app.on("focus", () => {
    if (app.focus?.view === "heads") update(app.trace);
  });

  function drawPalette() {
    const swatch = (head, own) =>
      element(
        "button",
        {
          type: "button",
          class: "swatch",
          "aria-pressed": String(on[own]),
          "aria-label": `Head ${head}`,
          title: "Double-click: this head only",
          style: { "--own": headVariable(head) },
          onclick: () => {
            on[own] = !on[own];
            drawPalette();
            draw();
          },
          ondblclick: () => {
            on = on.map((_, other) => other === own);
            drawPalette();
            draw();
          },
        },
        element("span", {}, String(head)),
        dashLine(head),
      );
    const focused = [...palette.children].indexOf(document.activeElement);
    replace(
      palette,
      heads.heads.map(swatch),
      element(
        "button",
        {
          type: "button",
          class: "link",
          onclick: () => {
            const all = on.every(Boolean);
            on = on.map(() => !all);
            drawPalette();
            draw();
          },
        },
        on.every(Boolean) ? "none" : "all",
      ),
    );
    palette.children[focused]?.focus();
  }

  /** Both columns, with one page of tokens. */
  function fill() {
    const { trace, selection } = app;
    const part = (tokens) => tokens.slice(page.value, page.value + PAGE);
    index = null;
    rows = part(trace.queries(selection.kind)).map((token, own) =>
      tokenNode(token, { onpointerenter: () => point(own), onfocus: () => point(own) }),
    );
    keys = part(trace.keys(selection.kind)).map((token) =>
      element(
        "div",
        { class: "key" },
        tokenNode(token, { as: "span" }),
        element("span", { class: "cells", "aria-hidden": "true" }),
      ),
    );
    const left = element("div", { class: "column left", role: "group", "aria-label": "Query tokens" }, rows);
    rove(rows, rows[0]);
    arrowKeys(left, () => rows);
    left.addEventListener("pointerleave", () => point(null));
    replace(box, left, canvas, element("div", { class: "column right" }, keys));
    draw();
  }

  function point(own) {
    index = own;
    draw();
  }

  function draw() {
    if (!heads || !box.isConnected) return;
    const chosen = heads.heads.filter((_, own) => on[own]);
    const shown =
      mode.value === "mean" && chosen.length
        ? [{ matrix: heads.mean(chosen), colour: "var(--accent)" }]
        : chosen.map((head) => ({ matrix: heads.matrix(head), colour: headVariable(head), dash: headDash(head) }));
    const isMuch = rows.length * keys.length * shown.length > MAX_LINES;
    const from = index ?? (isMuch ? 0 : null);
    const frame = box.getBoundingClientRect();
    const context = sized(canvas, frame.width, frame.height);
    const edge = (token, side) => {
      const own = token.getBoundingClientRect();
      return [own[side] - frame.left, own.top + own.height / 2 - frame.top];
    };
    const starts = rows.map((token) => edge(token, "right"));
    const ends = keys.map((key) => edge(key.firstChild, "left"));
    const lines = [];
    shown.forEach(({ matrix, colour, dash }) => {
      for (let row = from ?? 0; row < (from === null ? rows.length : from + 1); row += 1) {
        const weights = matrix.row(row + page.value);
        for (let key = 0; key < keys.length; key += 1) {
          const weight = weights[key + page.value];
          if (weight > MIN_WEIGHT)
            lines.push({
              from: starts[row],
              to: ends[key],
              weight: from === null ? weight * 0.8 : weight,
              colour,
              dash,
            });
        }
      }
    });
    curves(
      context,
      lines.sort((a, b) => a.weight - b.weight),
      "x",
    );
    rows.forEach((token, own) => token.classList.toggle("active", own === from));
    cells(shown, from);
    describe(shown, from, isMuch);
  }

  function cells(shown, from) {
    keys.forEach((key, own) => {
      replace(
        key.lastChild,
        from === null
          ? null
          : shown.map(({ matrix, colour }) =>
              element("i", {
                style: {
                  background: colour,
                  opacity: Math.min(matrix.at(from + page.value, own + page.value) * 1.1, 1).toFixed(3),
                },
              }),
            ),
      );
    });
  }

  function describe(shown, from, isMuch) {
    if (from === null || !shown.length) {
      note.textContent = shown.length
        ? `All ${shown.length === 1 ? "weights" : `weights of ${shown.length} heads`} above ${MIN_WEIGHT}.`
        : "Select a head.";
      return;
    }
    const { trace, selection } = app;
    const sum = new Float32Array(keys.length).map(
      (_, key) =>
        shown.reduce((all, { matrix }) => all + matrix.at(from + page.value, key + page.value), 0) / shown.length,
    );
    const best = [...sum.keys()].sort((a, b) => sum[b] - sum[a]).slice(0, 4);
    const parts = best.map((key) => `${visible(trace.keys(selection.kind)[key + page.value].label)} ${fixed(sum[key])}`);
    const rest = isMuch ? " Long text: lines are shown for one token at a time." : "";
    replace(
      note,
      element("bdi", {}, visible(trace.queries(selection.kind)[from + page.value].label)),
      ` attends to ${parts.join(", ")}${shown.length > 1 ? " (mean of the selected heads)" : ""}.${rest}`,
    );
  }
  whenResized(box, draw);
  return { node, update };
}

/** A short line in the dashes of a head. */
function dashLine(head) {
  const line = drawn("line", { x1: 0, x2: 24, y1: 2, y2: 2, "stroke-dasharray": headDash(head).join(" ") || null });
  return drawn("svg", { viewBox: "0 0 24 4", "aria-hidden": "true" }, line);
}
