// Heads over the image: what the class scores attend to in every head of every layer, each on a small picture.

import { element, replace } from "../dom.js";
import { classRows, ofPatches, paintPicture, readPicture } from "../picture.js";
import { thumbnails } from "../thumbnails.js";

export const imageHeadsView = {
  id: "heads",
  title: "Heads",
  about:
    "What the class scores attend to in every head of every layer. The number is the entropy of the head in bits (0: all on one token; higher: spread out). Click a head to enlarge it.",
  build,
};

function build(app) {
  const node = element("div", { class: "grids" });
  let done = null;

  async function update(trace) {
    if (!trace || done === trace) return;
    done = trace;
    replace(node);
    const { json } = trace;
    const picture = await readPicture(json);
    if (done !== trace) return;
    const paint = (canvas, matrix) => {
      const weights = ofPatches(json, matrix, classRows(json));
      paintPicture(canvas, picture, { grid: json.grid, weights });
    };
    const table = ([kind, title]) => thumbnails(app, { trace, kind, title, paint, view: "image" });
    replace(node, trace.kinds.map(table));
  }
  return { node, update };
}
