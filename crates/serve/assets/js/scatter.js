// Points with labels in the plane, as SVG. Labels never overlap; a point without room for its label keeps its tooltip.

import { drawn, element } from "./dom.js";
import { headVariable } from "./colour.js";
import { visible } from "./tokens.js";

/** Width and height; a small screen has a smaller picture, whose letters stay legible. */
const [LARGE, SMALL] = [
  [460, 330],
  [300, 280],
];
/** Width of a small screen in pixels. */
const SMALL_SCREEN = 560;
const MARGIN = 34;
const FONT = 12;
const LETTER = 6.6;

/**
 * A picture of `points`: `{ place, label, number, isChosen, isQuiet }`. A number is shown on a disc of its own colour; a point
 * without a finite place is left out. `onPick(index)` is called for a click on a point.
 */
export function scatter(points, { label, onPick } = {}) {
  const size = innerWidth < SMALL_SCREEN ? SMALL : LARGE;
  const shown = points.map((point, index) => ({ ...point, index })).filter(({ place }) => place.every(Number.isFinite));
  const at = scaled(shown.map(({ place }) => place), size);
  const taken = shown.flatMap((point, own) => (radius(point) > 4 ? [box(at[own], 9, 9)] : []));
  // The most important labels have the first choice of a place, and are drawn last.
  const order = [...shown.keys()].sort((a, b) => weight(shown[b]) - weight(shown[a]));
  const nodes = order.map((own) => pointNode(shown[own], at[own], { size, taken, onPick })).reverse();
  return drawn(
    "svg",
    { viewBox: `0 0 ${size.join(" ")}`, class: "scatter", role: "img", "aria-label": label },
    drawn("rect", { x: 0.5, y: 0.5, width: size[0] - 1, height: size[1] - 1, rx: 8, class: "frame" }),
    nodes,
  );
}

function pointNode(point, [x, y], { size, taken, onPick }) {
  const text = visible(point.label);
  const place = labelPlace([x, y], { width: text.length * LETTER, gap: radius(point) + 4, size }, taken);
  const colour = point.number ? headVariable(point.number - 1) : null;
  const kind = `point${point.isChosen ? " chosen" : ""}${point.isQuiet ? " quiet-point" : ""}${onPick ? " picks" : ""}`;
  return drawn(
    "g",
    { class: kind, onclick: onPick && (() => onPick(point.index)) },
    drawn("title", {}, text),
    drawn("circle", { cx: x, cy: y, r: radius(point), style: colour && { fill: colour } }),
    point.number && drawn("text", { x, y: y + 4, class: "badge" }, String(point.number)),
    place && drawn("text", { x: place[0], y: place[1], style: colour && { fill: colour } }, text),
  );
}

function radius({ number, isChosen }) {
  return number ? 9 : isChosen ? 6 : 3.5;
}

function weight({ number, isChosen, isQuiet }) {
  return (number ? 4 : 0) + (isChosen ? 2 : 0) + (isQuiet ? 0 : 1);
}

/** Places within the picture, the same scale on both axes; y points up. */
function scaled(places, size) {
  const bound = (axis, choose) => choose(...places.map((place) => place[axis]));
  const low = [0, 1].map((axis) => bound(axis, Math.min));
  const high = [0, 1].map((axis) => bound(axis, Math.max));
  const room = size.map((side, axis) => (side - 2 * MARGIN) / Math.max(high[axis] - low[axis], 1e-9));
  const unit = Math.min(...room);
  return places.map(([x, y]) => [
    size[0] / 2 + (x - (low[0] + high[0]) / 2) * unit,
    size[1] / 2 - (y - (low[1] + high[1]) / 2) * unit,
  ]);
}

function box([x, y], width, height) {
  return [x - width, y - height, x + width, y + height];
}

/** The start of a label beside a point that is inside the picture and free; its box is taken then. */
function labelPlace([x, y], { width, gap, size }, taken) {
  const half = FONT / 2 + 1;
  const candidates = [
    [x + gap, y],
    [x - gap - width, y],
    [x - width / 2, y - gap - half],
    [x - width / 2, y + gap + half],
  ];
  for (const [left, middle] of candidates) {
    const own = [left, middle - half, left + width, middle + half];
    const isInside = own[0] > 4 && own[1] > 4 && own[2] < size[0] - 4 && own[3] < size[1] - 4;
    const isFree = taken.every(
      (other) => own[2] <= other[0] || other[2] <= own[0] || own[3] <= other[1] || other[3] <= own[1],
    );
    if (isInside && isFree) {
      taken.push(own);
      return [left, middle + FONT * 0.35];
    }
  }
  return null;
}

/** What a picture of points is, in words. */
export function projectionNote(variance) {
  const share = element("span", { class: "number" }, `${Math.round(100 * variance)} %`);
  return element(
    "p",
    { class: "quiet" },
    "Principal components: the two directions in which the vectors differ most have ",
    share,
    " of their variance. Each layer is turned to match the one before.",
  );
}
