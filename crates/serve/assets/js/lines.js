// Lines between tokens of two rows or columns, on a canvas behind them; wider and darker lines are larger weights.

import { resolved } from "./colour.js";

/** Sizes a canvas to its box in device pixels; returns its context, cleared. */
export function sized(canvas, width, height) {
  const ratio = Math.min(window.devicePixelRatio || 1, 2);
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

/** Draws curves `{ from: [x, y], to: [x, y], weight, colour, dash }`; bent along x or along y. */
export function curves(context, found, along) {
  const colours = new Map();
  for (const { from, to, weight, colour, dash } of found) {
    if (!colours.has(colour)) colours.set(colour, resolved(colour));
    context.strokeStyle = colours.get(colour);
    context.globalAlpha = Math.min(0.08 + 0.92 * weight, 1);
    context.lineWidth = 0.8 + 2.6 * weight;
    context.setLineDash(dash ?? []);
    context.beginPath();
    context.moveTo(...from);
    const [half, other] = [(from[0] + to[0]) / 2, (from[1] + to[1]) / 2];
    if (along === "x") context.bezierCurveTo(half, from[1], half, to[1], ...to);
    else context.bezierCurveTo(from[0], other, to[0], other, ...to);
    context.stroke();
  }
  context.globalAlpha = 1;
  context.setLineDash([]);
}

/** A text cut to a width in pixels, with an ellipsis. */
export function fitted(text, width, font) {
  measure ??= document.createElement("canvas").getContext("2d");
  measure.font = font;
  if (measure.measureText(text).width <= width) return text;
  const letters = [...text];
  while (letters.length > 1 && measure.measureText(`${letters.join("")}…`).width > width) letters.pop();
  return `${letters.join("")}…`;
}

let measure = null;

/** Calls `work` when a box changes its size, at most once in a frame. */
export function whenResized(box, work) {
  let frame = 0;
  new ResizeObserver(() => {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(work);
  }).observe(box);
}
