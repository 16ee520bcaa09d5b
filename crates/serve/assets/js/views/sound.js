// Sound: the log-mel frames, below them what a token attends to, its tokens and its words with their times.

import { element, replace } from "../dom.js";
import { errorText } from "../api.js";
import { readArray } from "../arrays.js";
import { ramp, resolved } from "../colour.js";
import { fixed } from "../format.js";
import { arrowKeys, rove } from "../keys.js";
import { sized, whenResized } from "../lines.js";
import { picker } from "../picker.js";
import { tokenRow, visible } from "../tokens.js";

/** Parts of the sound that the readout names. */
const MAX_NAMED = 3;
/** Marks on the time axis. */
const MARKS = 5;
/** Height of the bars of attention in pixels. */
const HEIGHT = 90;

export const soundView = {
  id: "sound",
  title: "Sound",
  about:
    "Above, the log-mel frames that the model reads: time to the right, pitch upwards. Below, how much the chosen token attends to each part of the sound. Click a token or a word.",
  showsAlways: true,
  build,
};

/** Seconds that all columns stand for. */
function extent({ mel, step }) {
  return mel.shape[0] * step;
}

function build(app) {
  const pick = picker(app, { withHead: true, withMean: true }, () => refresh());
  const mel = element("canvas", { role: "img", "aria-label": "Log-mel frames" });
  const bars = element("canvas", { role: "img", class: "bars" });
  const range = element("div", { class: "range", hidden: true });
  const axis = element("div", { class: "axis", "aria-hidden": "true" });
  const box = element("div", { class: "frames" }, mel, bars, range, axis);
  const readout = element("p", { class: "readout", "aria-live": "polite" });
  const stage = element("div", { class: "stage" });
  const words = element("div", { class: "panel" });
  const node = element("div", { class: "sound-view" }, pick.node, box, readout, stage, words);
  let last = null;
  let row = 0;
  let nodes = [];

  function update(trace) {
    node.hidden = !trace;
    if (!trace) return;
    if (last !== trace) {
      last = trace;
      row = 0;
      range.hidden = true;
      const found = tokenRow("Tokens", trace.target, (_, index) => ({ onclick: () => select(index) }));
      nodes = found.nodes;
      replace(stage, found.box);
      listWords(trace.json);
      marks(trace.json);
    }
    drawMel();
    refresh();
  }

  function select(index) {
    row = index;
    range.hidden = true;
    refresh();
  }

  function listWords(json) {
    const seconds = extent(json);
    const entry = ({ word, start, end }) =>
      element(
        "button",
        {
          type: "button",
          class: "word",
          onclick: () => {
            range.hidden = false;
            range.style.left = `${(100 * start) / seconds}%`;
            range.style.width = `${(100 * Math.max(end - start, 0.01)) / seconds}%`;
            readout.textContent = `“${visible(word)}” is said from ${fixed(start)} s to ${fixed(end)} s.`;
          },
        },
        element("bdi", {}, visible(word)),
        element("span", { class: "number" }, `${fixed(start)}–${fixed(end)} s`),
      );
    const all = json.said.map(entry);
    const list = element("div", { class: "words", role: "group", "aria-label": "Words with their times" }, all);
    if (all.length) rove(all, all[0]);
    arrowKeys(list, () => all);
    replace(words, element("h3", {}, "Words"), all.length ? list : element("p", { class: "quiet" }, "No words."));
  }

  function marks(json) {
    const seconds = extent(json);
    const mark = (_, index) => element("span", {}, `${fixed((seconds * index) / (MARKS - 1), 1)} s`);
    replace(axis, Array.from({ length: MARKS }, mark));
  }

  /** The frames, one pixel a number, low bands at the bottom. */
  function drawMel() {
    const { shape, data } = readArray(last.json.mel);
    const [columns, bands] = shape;
    const [least, most] = data.reduce(([low, high], own) => [Math.min(low, own), Math.max(high, own)], [Infinity, -Infinity]);
    mel.width = columns;
    mel.height = bands;
    const image = new ImageData(columns, bands);
    data.forEach((value, index) => {
      const [column, band] = [Math.floor(index / bands), index % bands];
      const share = most > least ? (value - least) / (most - least) : 0;
      image.data.set([...ramp(share), 255], 4 * ((bands - 1 - band) * columns + column));
    });
    mel.getContext("2d").putImageData(image, 0, 0);
  }

  async function refresh() {
    if (!last) return;
    const [trace, { selection }] = [last, app];
    const { kind, layer, head } = selection;
    pick.refresh(trace);
    nodes.forEach((token, own) => token.classList.toggle("chosen", own === row));
    const at = row;
    try {
      const found = await trace.attention(kind, layer);
      if (last !== trace || row !== at || selection.layer !== layer || selection.head !== head) return;
      draw((head === "mean" ? found.mean() : found.matrix(head)).row(row));
    } catch (error) {
      readout.textContent = errorText(error);
    }
  }

  /** Bars of a token's weights; the last column of the trace is what is left for padding. */
  function draw(weights) {
    const own = [...weights].slice(0, -1);
    const width = box.clientWidth;
    if (!width) return;
    const context = sized(bars, width, HEIGHT);
    const most = Math.max(...own, 1e-9);
    context.fillStyle = resolved("var(--accent)");
    const step = width / own.length;
    own.forEach((weight, column) => {
      const height = (weight / most) * (HEIGHT - 4);
      context.fillRect(column * step, HEIGHT - height, Math.max(step - 1, 1), height);
    });
    const best = [...own.keys()].sort((a, b) => own[b] - own[a]).slice(0, MAX_NAMED);
    const named = best.map((column) => `${fixed(column * last.json.step)} s (${fixed(own[column], 4)})`);
    const sum = own.reduce((all, weight) => all + weight, 0);
    const label = visible(last.target[row].label);
    const said = `${label} attends most to ${named.join(", ")}; ${fixed(sum, 2)} of its weight is on the sound.`;
    bars.setAttribute("aria-label", said);
    replace(readout, element("bdi", {}, label), said.slice(label.length));
  }
  whenResized(box, refresh);
  return { node, update };
}
