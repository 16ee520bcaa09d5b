// Heat-map: one head's weights, from a whole page of tokens down to single cells. Only what can be seen is drawn, so that long
// texts scroll as short ones do.

import { element, replace } from "../dom.js";
import { choice, slider } from "../controls.js";
import { isDark, ramp, resolved, shade } from "../colour.js";
import { fixed } from "../format.js";
import { sized, whenResized } from "../lines.js";
import { picker } from "../picker.js";
import { visible } from "../tokens.js";

const [SMALLEST, LARGEST] = [2, 48];
const LEGIBLE = 11;

export const heatMapView = {
  id: "heat-map",
  title: "Heat-map",
  about: "Rows look at columns. Arrow keys walk the cells, + and − zoom, and so does the wheel with Ctrl.",
  build,
};

function build(app) {
  const pick = picker(app, { withHead: true, withMean: true }, () => load());
  const unit = choice(
    "Show",
    [
      ["tokens", "tokens"],
      ["words", "words"],
    ],
    "tokens",
    () => load(),
  );
  const zoom = slider("Zoom", { min: SMALLEST, max: LARGEST, value: 26, show: (size) => `${size} px` }, () => resize());
  const told = element("p", { class: "told", "aria-live": "polite" });
  const canvas = element("canvas", { class: "map" });
  const spacer = element("div", { class: "spacer" });
  const box = element(
    "div",
    {
      class: "map-box",
      tabindex: "0",
      role: "application",
      "aria-label": "Heat-map of weights; arrow keys move, plus and minus zoom",
    },
    canvas,
    spacer,
  );
  const node = element("div", {}, pick.node, element("div", { class: "controls" }, unit.node, zoom.node), told, box);
  let shown = null;
  let cell = [0, 0];

  function update(trace) {
    if (!trace) return;
    pick.refresh(trace);
    load();
  }

  async function load() {
    const { trace, look } = app;
    const { kind, layer, head } = look;
    told.textContent = trace.has(kind, layer) ? told.textContent : "Fetching weights …";
    const found = await trace.attention(kind, layer).catch((error) => {
      told.textContent = `${error.message}. ${error.hint ?? ""}`;
    });
    if (!found || app.trace !== trace || look.kind !== kind || look.layer !== layer || look.head !== head) return;
    const pieces = head === "mean" ? found.mean() : found.matrix(head);
    const byWords = unit.value === "words" && trace.json.source.words.length && trace.json.target.words.length;
    const matrix = byWords ? trace.byWords(kind, pieces) : pieces;
    const [rows, columns] = byWords
      ? [trace.words(kind, "queries"), trace.words(kind, "keys")]
      : [trace.queries(kind), trace.keys(kind)];
    const isNew =
      shown?.trace !== trace || shown.matrix.columns !== matrix.columns || shown.matrix.rows !== matrix.rows;
    shown = {
      trace,
      matrix,
      most: matrix.largest(),
      rows: rows.map((token) => visible(token.label)),
      columns: columns.map((token) => visible(token.label)),
    };
    if (isNew) fit();
    cell = [Math.min(cell[0], matrix.rows - 1), Math.min(cell[1], matrix.columns - 1)];
    resize();
  }

  /** The zoom at which the whole map can be seen, if its labels can be read then. */
  function fit() {
    const { matrix } = shown;
    const [width, height] = [box.clientWidth - 120, 520];
    const size = Math.floor(Math.min(width / matrix.columns, height / matrix.rows));
    zoom.set(Math.min(Math.max(size, Math.max(matrix.rows, matrix.columns) > 120 ? 4 : 14), 40));
    box.scrollTo(0, 0);
  }

  function margins() {
    const context = canvas.getContext("2d");
    context.font = font();
    const longest = (labels) =>
      Math.min(Math.max(...labels.slice(0, 600).map((label) => context.measureText(label).width), 24) + 14, 150);
    const isLegible = zoom.value >= LEGIBLE;
    return { left: isLegible ? longest(shown.rows) : 12, top: isLegible ? longest(shown.columns) : 12 };
  }

  function resize() {
    if (!shown) return;
    const { left, top } = margins();
    const [width, height] = [left + shown.matrix.columns * zoom.value + 2, top + shown.matrix.rows * zoom.value + 2];
    box.style.height = `${Math.min(height + 16, 620)}px`;
    Object.assign(spacer.style, { width: `${width}px`, height: `${height}px` });
    draw();
  }

  function draw() {
    if (!shown || !box.clientWidth) return;
    const size = zoom.value;
    const { left, top } = margins();
    const [width, height] = [box.clientWidth, box.clientHeight];
    const context = sized(canvas, width, height);
    const { matrix, most } = shown;
    const dark = isDark();
    const first = [Math.floor(box.scrollTop / size), Math.floor(box.scrollLeft / size)];
    const last = [
      Math.min(matrix.rows, Math.ceil((box.scrollTop + height - top) / size)),
      Math.min(matrix.columns, Math.ceil((box.scrollLeft + width - left) / size)),
    ];
    const gap = size > 12 ? 1 : 0;
    const x = (column) => left + column * size - box.scrollLeft;
    const y = (row) => top + row * size - box.scrollTop;
    context.save();
    context.beginPath();
    context.rect(left, top, width - left, height - top);
    context.clip();
    for (let row = first[0]; row < last[0]; row += 1) {
      for (let column = first[1]; column < last[1]; column += 1) {
        context.fillStyle = `rgb(${ramp(matrix.at(row, column) / most, dark).join(" ")})`;
        context.fillRect(x(column), y(row), size - gap, size - gap);
        if (size >= 36)
          number(
            context,
            matrix.at(row, column),
            [x(column) + size / 2, y(row) + size / 2],
            matrix.at(row, column) / most,
          );
      }
    }
    context.strokeStyle = resolved("var(--warm)");
    context.lineWidth = 2;
    context.strokeRect(x(cell[1]) - 0.5, y(cell[0]) - 0.5, size, size);
    context.restore();
    if (size >= LEGIBLE) labels(context, { first, last, x, y, left, top, size, width, height });
    const [row, column] = cell;
    replace(
      told,
      element("bdi", {}, shown.rows[row]),
      " looks at ",
      element("bdi", {}, shown.columns[column]),
      " with ",
      element("strong", { class: "number" }, fixed(matrix.at(row, column), 4)),
      element("span", { class: "quiet" }, `  darkest ${fixed(most, 2)}`),
    );
  }

  function labels(context, { first, last, x, y, left, top, size, width, height }) {
    context.font = font();
    context.textBaseline = "middle";
    context.direction = "ltr";
    const ink = (is) => {
      context.fillStyle = resolved(is ? "var(--ink)" : "var(--soft)");
    };
    context.save();
    context.beginPath();
    context.rect(0, top, left, height);
    context.clip();
    context.textAlign = "right";
    for (let row = first[0]; row < last[0]; row += 1) {
      ink(row === cell[0]);
      context.fillText(shown.rows[row], left - 8, y(row) + size / 2, left - 10);
    }
    context.restore();
    context.save();
    context.beginPath();
    context.rect(left, 0, width, top);
    context.clip();
    context.textAlign = "left";
    for (let column = first[1]; column < last[1]; column += 1) {
      ink(column === cell[1]);
      context.save();
      context.translate(x(column) + size / 2, top - 8);
      context.rotate(-Math.PI / 2);
      context.fillText(shown.columns[column], 0, 0, top - 10);
      context.restore();
    }
    context.restore();
  }

  function number(context, weight, [x, y], share) {
    if (weight < 0.005) return;
    context.fillStyle = shade(share).ink;
    context.font = `11px ${getComputedStyle(document.body).fontFamily}`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillText(fixed(weight), x, y);
  }

  function font() {
    return `${Math.min(Math.max(zoom.value * 0.62, 10), 14)}px ${getComputedStyle(document.body).fontFamily}`;
  }

  function move(row, column) {
    if (!shown) return;
    cell = [Math.min(Math.max(row, 0), shown.matrix.rows - 1), Math.min(Math.max(column, 0), shown.matrix.columns - 1)];
    const { left, top } = margins();
    const [x, y] = [cell[1] * zoom.value, cell[0] * zoom.value];
    if (x < box.scrollLeft) box.scrollLeft = x;
    if (y < box.scrollTop) box.scrollTop = y;
    if (x + zoom.value > box.scrollLeft + box.clientWidth - left)
      box.scrollLeft = x + zoom.value - box.clientWidth + left;
    if (y + zoom.value > box.scrollTop + box.clientHeight - top)
      box.scrollTop = y + zoom.value - box.clientHeight + top;
    draw();
  }

  function zoomed(by) {
    zoom.set(Math.min(Math.max(zoom.value + by, SMALLEST), LARGEST));
    resize();
  }

  box.addEventListener("scroll", () => requestAnimationFrame(draw));
  box.addEventListener("pointermove", (event) => {
    if (!shown) return;
    const { left, top } = margins();
    const frame = box.getBoundingClientRect();
    const column = Math.floor((event.clientX - frame.left - left + box.scrollLeft) / zoom.value);
    const row = Math.floor((event.clientY - frame.top - top + box.scrollTop) / zoom.value);
    const isInside = row >= 0 && column >= 0 && row < shown.matrix.rows && column < shown.matrix.columns;
    if (isInside && (row !== cell[0] || column !== cell[1])) {
      cell = [row, column];
      draw();
    }
  });
  box.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      zoomed(event.deltaY < 0 ? 2 : -2);
    },
    { passive: false },
  );
  box.addEventListener("keydown", (event) => {
    const [row, column] = cell;
    const moves = {
      ArrowUp: [row - 1, column],
      ArrowDown: [row + 1, column],
      ArrowLeft: [row, column - 1],
      ArrowRight: [row, column + 1],
      Home: [row, 0],
      End: [row, Infinity],
    };
    if (moves[event.key]) move(...moves[event.key]);
    else if (event.key === "+" || event.key === "=") zoomed(2);
    else if (event.key === "-") zoomed(-2);
    else return;
    event.preventDefault();
  });
  whenResized(box, draw);
  return { node, update };
}
