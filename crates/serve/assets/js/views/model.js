// Model: all layers and heads at once, each a small heat-map. Clicking one enlarges it.

import { element, replace } from "../dom.js";
import { isDark, ramp } from "../colour.js";
import { thumbnails } from "../thumbnails.js";

const SIDE = 72;

export const modelView = {
  id: "model",
  title: "Model",
  about:
    "Every head of every layer; rows attend to columns. The number is the entropy in bits (0: all on one token; higher: spread out). Click a head to enlarge it.",
  build,
};

function build(app) {
  const node = element("div", { class: "grids" });
  let done = null;

  function update(trace) {
    const key = trace && `${isDark()}`;
    if (!trace || (done?.trace === trace && done.key === key)) return;
    done = { trace, key };
    const { longest } = trace;
    if (longest > app.model.limits.neurons) {
      const text = `The text has ${longest} tokens; this view shows up to ${app.model.limits.neurons}. Heat-map shows one head at a time.`;
      replace(node, element("div", { class: "empty" }, element("p", {}, text)));
      return;
    }
    replace(
      node,
      trace.kinds.map(([kind, name]) => grid(trace, kind, name)),
    );
  }

  function grid(trace, kind, name) {
    const { queries, keys, causal } = trace.sites.get(kind);
    const about = `${queries} attends to ${causal ? `the ${keys} so far` : keys}`;
    const title = [name, element("span", { class: "quiet" }, ` ${about}`)];
    return thumbnails(app, { trace, kind, title, paint, view: "heat-map" });
  }
  return { node, update };
}

/** A matrix as a picture, one pixel a weight, stretched to the canvas. */
function paint(canvas, matrix) {
  canvas.width = SIDE * 2;
  canvas.height = SIDE * 2;
  const image = new ImageData(matrix.columns, matrix.rows);
  const [most, dark] = [matrix.largest(), isDark()];
  matrix.data.forEach((weight, index) => image.data.set([...ramp(weight / most, dark), 255], index * 4));
  const whole = element("canvas", { width: matrix.columns, height: matrix.rows });
  whole.getContext("2d").putImageData(image, 0, 0);
  const context = canvas.getContext("2d");
  context.imageSmoothingEnabled = matrix.columns > canvas.width || matrix.rows > canvas.height;
  context.drawImage(whole, 0, 0, canvas.width, canvas.height);
}
