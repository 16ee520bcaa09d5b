// Image: the picture with its classes, and on it the attention of a head, or the rollout over all layers.

import { element, replace } from "../dom.js";
import { errorText } from "../api.js";
import { choice } from "../controls.js";
import { classBars } from "../encoder_head.js";
import { fixed } from "../format.js";
import { picker } from "../picker.js";
import { classRows, ofPatches, paintPicture, patchSide, readPicture } from "../picture.js";

/** Patches that the readout names. */
const MAX_NAMED = 3;

export const imageView = {
  id: "image",
  title: "Image",
  about:
    "What the class scores attend to in a head, or over all layers (rollout), stays bright. Click a patch, or move to it with the arrow keys, to see what it attends to.",
  showsAlways: true,
  build,
};

const SHOWN = [
  ["attention", "attention"],
  ["rollout", "rollout"],
  ["image", "image alone"],
];

function build(app) {
  const shown = choice("Show", SHOWN, "attention", () => refresh());
  const pick = picker(app, { withHead: true, withMean: true }, () => refresh());
  const whole = element("button", { type: "button", onclick: () => select(null) }, "Class token");
  const canvas = element("canvas", { role: "img" });
  const frame = element("div", { class: "patch", hidden: true });
  const box = element(
    "div",
    { class: "picture", tabindex: "0", role: "application", "aria-label": "Image; arrow keys move between patches, Escape leaves them" },
    canvas,
    frame,
  );
  const readout = element("p", { class: "readout", "aria-live": "polite" });
  const classes = element("div", { class: "panel" });
  const stage = element("div", { class: "sides" }, element("div", {}, box, readout), classes);
  const controls = element("div", { class: "controls" }, shown.node, element("div", { class: "control" }, whole));
  const node = element("div", { class: "image-view" }, controls, pick.node, stage);
  let picture = null;
  // The patch whose attention is shown; null is that of the class scores.
  let patch = null;
  let last = null;

  box.addEventListener("click", (event) => {
    if (!picture) return;
    const { left, top, width, height } = canvas.getBoundingClientRect();
    const side = patchSide(picture, last.json.grid);
    const at = [((event.clientY - top) / height) * picture.height, ((event.clientX - left) / width) * picture.width];
    select(inGrid(at.map((pixel) => Math.floor(pixel / side))));
  });
  box.addEventListener("keydown", (event) => {
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Escape: null };
    if (!last || !(event.key in moves) || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const move = moves[event.key];
    select(move && (patch ? inGrid(patch.map((own, axis) => own + move[axis])) : [0, 0]));
  });

  function inGrid(place) {
    return place.map((own, axis) => Math.min(Math.max(own, 0), last.json.grid[axis] - 1));
  }
  function select(own) {
    patch = own;
    refresh();
  }

  async function update(trace) {
    node.hidden = !trace;
    if (!trace) return;
    if (last !== trace) {
      last = trace;
      [picture, patch] = [null, null];
      replace(classes, element("h3", {}, "Classes"), classBars(trace.json.classes));
      const found = await readPicture(trace.json);
      if (last !== trace) return;
      picture = found;
    }
    refresh();
  }

  async function refresh() {
    if (!picture) return;
    const [trace, { selection }] = [last, app];
    const { kind, layer, head } = selection;
    pick.refresh(trace);
    pick.node.hidden = shown.value !== "attention";
    whole.hidden = shown.value === "image" || !patch;
    whole.textContent = trace.json.learned_tokens ? "Back to the class token" : "Back to all patches";
    const mode = shown.value;
    try {
      const matrix = mode === "image" ? null : mode === "rollout" ? trace.rollout(kind) : await weights(trace, selection);
      const isOther = last !== trace || mode !== shown.value || layer !== selection.layer || head !== selection.head;
      if (!isOther) draw(matrix);
    } catch (error) {
      readout.textContent = errorText(error);
    }
  }

  function draw(matrix) {
    const { json } = last;
    const rows = patch ? [json.learned_tokens + patch[0] * json.grid[1] + patch[1]] : classRows(json);
    const weights = matrix && ofPatches(json, matrix, rows);
    paintPicture(canvas, picture, { grid: json.grid, weights });
    canvas.classList.toggle("coarse", picture.width < 160);
    const side = patchSide(picture, json.grid);
    frame.hidden = !patch || !matrix;
    if (patch) {
      const place = { left: patch[1] / picture.width, top: patch[0] / picture.height };
      Object.entries(place).forEach(([name, share]) => frame.style.setProperty(name, `${100 * share * side}%`));
      frame.style.width = `${(100 * side) / picture.width}%`;
      frame.style.height = `${(100 * side) / picture.height}%`;
    }
    const said = weights ? described(json, weights) : "The image as the model sees it.";
    readout.textContent = said;
    canvas.setAttribute("aria-label", `${json.image.text}. ${said}`);
  }

  function described(json, weights) {
    const [, across] = json.grid;
    const from = patch ? `Patch ${patch.join(",")}` : json.learned_tokens ? "The class token" : "The mean over all patches";
    const best = [...weights.keys()].sort((a, b) => weights[b] - weights[a]).slice(0, MAX_NAMED);
    const named = best.map((own) => `${Math.floor(own / across)},${own % across} (${fixed(weights[own], 4)})`);
    const sum = weights.reduce((all, weight) => all + weight, 0);
    return `${from} attends most to patches ${named.join(", ")}; ${fixed(sum, 2)} of its weight is on patches.`;
  }
  return { node, update };
}

/** The weights of the selected head, or their mean. */
async function weights(trace, { kind, layer, head }) {
  const found = await trace.attention(kind, layer);
  return head === "mean" ? found.mean() : found.matrix(head);
}
