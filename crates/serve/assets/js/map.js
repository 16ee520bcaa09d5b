// A heat-map of weights on a canvas that scrolls and zooms. Only the visible cells are drawn, so a text of hundreds of tokens
// scrolls as fast as a short one.

import { element } from "./dom.js";
import { isDark, ramp, resolved, shade } from "./colour.js";
import { fixed } from "./format.js";
import { sized, whenResized } from "./lines.js";

export const SIZES = { smallest: 2, largest: 48 };

/** Smallest cell size in pixels with legible labels, and with numbers. */
const LEGIBLE = 11;
const WITH_NUMBERS = 36;

export class WeightMap {
  /** Calls `onCell(map)` when the selected cell changes, `onZoom(size)` when the size does. */
  constructor({ onCell, onZoom, about = "weights" }) {
    Object.assign(this, { onCell, onZoom, matrix: null, cell: [0, 0], size: 26 });
    this.canvas = element("canvas", { class: "map" });
    this.spacer = element("div", { class: "spacer" });
    const label = `Heat-map of ${about}; arrow keys move, plus and minus zoom`;
    const attributes = { class: "map-box", tabindex: "0", role: "application", "aria-label": label };
    this.node = element("div", attributes, this.canvas, this.spacer);
    this.node.addEventListener("scroll", () => requestAnimationFrame(() => this.draw()));
    this.node.addEventListener("pointermove", (event) => this.point(event));
    this.node.addEventListener("wheel", (event) => this.turn(event), { passive: false });
    this.node.addEventListener("keydown", (event) => this.press(event));
    whenResized(this.node, () => this.draw());
  }

  /** Shows a matrix with labels of its rows and columns; one of another size is fitted into the window. */
  show(matrix, rows, columns, isOther) {
    const isNew = isOther || this.matrix?.rows !== matrix.rows || this.matrix?.columns !== matrix.columns;
    Object.assign(this, { matrix, rows, columns, most: matrix.largest() });
    this.cell = [Math.min(this.cell[0], matrix.rows - 1), Math.min(this.cell[1], matrix.columns - 1)];
    if (isNew) this.fit();
    else this.resize();
  }

  /** Zooms to show the whole map, or at least its labels. */
  fit() {
    const { rows, columns } = this.matrix;
    const whole = Math.floor(Math.min((this.node.clientWidth - 120) / columns, 520 / rows));
    this.node.scrollTo(0, 0);
    this.zoom(Math.min(Math.max(whole, Math.max(rows, columns) > 120 ? 4 : 14), 40));
  }

  zoom(size) {
    this.size = Math.min(Math.max(size, SIZES.smallest), SIZES.largest);
    this.onZoom(this.size);
    this.resize();
  }

  resize() {
    if (!this.matrix) return;
    const [left, top] = this.margins();
    const width = left + this.matrix.columns * this.size + 2;
    const height = top + this.matrix.rows * this.size + 2;
    this.node.style.height = `${Math.min(height + 16, 620)}px`;
    Object.assign(this.spacer.style, { width: `${width}px`, height: `${height}px` });
    this.draw();
  }

  /** Room for labels, left and above. */
  margins() {
    if (this.size < LEGIBLE) return [12, 12];
    const context = this.canvas.getContext("2d");
    context.font = this.font();
    const width = (labels) => Math.max(...labels.slice(0, 600).map((label) => context.measureText(label).width), 24);
    return [this.rows, this.columns].map((labels) => Math.min(width(labels) + 14, 150));
  }

  font(size = Math.min(Math.max(this.size * 0.62, 10), 14)) {
    return `${size}px ${getComputedStyle(document.body).fontFamily}`;
  }

  draw() {
    if (!this.matrix || !this.node.clientWidth) return;
    const { size, matrix, node } = this;
    const [left, top] = this.margins();
    const [width, height] = [node.clientWidth, node.clientHeight];
    const context = sized(this.canvas, width, height);
    const window_ = {
      context,
      rows: [
        Math.floor(node.scrollTop / size),
        Math.min(matrix.rows, Math.ceil((node.scrollTop + height - top) / size)),
      ],
      columns: [
        Math.floor(node.scrollLeft / size),
        Math.min(matrix.columns, Math.ceil((node.scrollLeft + width - left) / size)),
      ],
      x: (column) => left + column * size - node.scrollLeft,
      y: (row) => top + row * size - node.scrollTop,
    };
    clipped(context, [left, top, width - left, height - top], () => this.drawCells(window_));
    if (size >= LEGIBLE) {
      clipped(context, [0, top, left, height], () => this.drawRows(window_, left));
      clipped(context, [left, 0, width, top], () => this.drawColumns(window_, top));
    }
    this.onCell(this);
  }

  drawCells({ context, rows, columns, x, y }) {
    const { size, matrix, most } = this;
    const dark = isDark();
    const gap = size > 12 ? 1 : 0;
    context.font = this.font(11);
    context.textAlign = "center";
    context.textBaseline = "middle";
    for (let row = rows[0]; row < rows[1]; row += 1) {
      for (let column = columns[0]; column < columns[1]; column += 1) {
        const weight = matrix.at(row, column);
        context.fillStyle = `rgb(${ramp(weight / most, dark).join(" ")})`;
        context.fillRect(x(column), y(row), size - gap, size - gap);
        if (size >= WITH_NUMBERS && weight >= 0.005) {
          context.fillStyle = shade(weight / most, dark).ink;
          context.fillText(fixed(weight), x(column) + size / 2, y(row) + size / 2);
        }
      }
    }
    context.strokeStyle = resolved("var(--warm)");
    context.lineWidth = 2;
    context.strokeRect(x(this.cell[1]) - 0.5, y(this.cell[0]) - 0.5, size, size);
  }

  drawRows({ context, rows, y }, left) {
    const [own, other] = [resolved("var(--ink)"), resolved("var(--soft)")];
    context.font = this.font();
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (let row = rows[0]; row < rows[1]; row += 1) {
      context.fillStyle = row === this.cell[0] ? own : other;
      context.fillText(this.rows[row], left - 8, y(row) + this.size / 2, left - 10);
    }
  }

  drawColumns({ context, columns, x }, top) {
    const [own, other] = [resolved("var(--ink)"), resolved("var(--soft)")];
    context.font = this.font();
    context.textAlign = "left";
    context.textBaseline = "middle";
    for (let column = columns[0]; column < columns[1]; column += 1) {
      context.fillStyle = column === this.cell[1] ? own : other;
      context.save();
      context.translate(x(column) + this.size / 2, top - 8);
      context.rotate(-Math.PI / 2);
      context.fillText(this.columns[column], 0, 0, top - 10);
      context.restore();
    }
  }

  /** Selects a cell, and scrolls it into view. */
  move(row, column) {
    const { matrix, size, node } = this;
    this.cell = [Math.min(Math.max(row, 0), matrix.rows - 1), Math.min(Math.max(column, 0), matrix.columns - 1)];
    const [left, top] = this.margins();
    const [x, y] = [this.cell[1] * size, this.cell[0] * size];
    node.scrollLeft = Math.min(Math.max(node.scrollLeft, x + size - node.clientWidth + left), x);
    node.scrollTop = Math.min(Math.max(node.scrollTop, y + size - node.clientHeight + top), y);
    this.draw();
  }

  point(event) {
    if (!this.matrix) return;
    const [left, top] = this.margins();
    const frame = this.node.getBoundingClientRect();
    const column = Math.floor((event.clientX - frame.left - left + this.node.scrollLeft) / this.size);
    const row = Math.floor((event.clientY - frame.top - top + this.node.scrollTop) / this.size);
    const isInside = row >= 0 && column >= 0 && row < this.matrix.rows && column < this.matrix.columns;
    if (!isInside || (row === this.cell[0] && column === this.cell[1])) return;
    this.cell = [row, column];
    this.draw();
  }

  turn(event) {
    if (!event.ctrlKey) return;
    event.preventDefault();
    this.zoom(this.size + (event.deltaY < 0 ? 2 : -2));
  }

  press(event) {
    if (!this.matrix) return;
    const [row, column] = this.cell;
    const moves = {
      ArrowUp: [row - 1, column],
      ArrowDown: [row + 1, column],
      ArrowLeft: [row, column - 1],
      ArrowRight: [row, column + 1],
      Home: [row, 0],
      End: [row, Infinity],
    };
    const zooms = { "+": 2, "=": 2, "-": -2 };
    if (moves[event.key]) this.move(...moves[event.key]);
    else if (zooms[event.key]) this.zoom(this.size + zooms[event.key]);
    else return;
    event.preventDefault();
  }
}

/** Draws inside a rectangle only. */
function clipped(context, rectangle, work) {
  context.save();
  context.beginPath();
  context.rect(...rectangle);
  context.clip();
  work();
  context.restore();
}
