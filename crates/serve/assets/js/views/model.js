// Model: all layers and heads at once, each a small heat-map. Clicking one enlarges it.

import { element, replace } from "../dom.js";
import { isDark, ramp } from "../colour.js";
import { fixed } from "../format.js";

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
    const heads = Array.from({ length: trace.headCount(kind) }, (_, head) => head);
    const rows = Array.from({ length: trace.layers(kind) }, (_, layer) => {
      const cells = heads.map((head) => thumbnail(kind, layer, head));
      fillRow(trace, kind, layer, cells);
      return element(
        "tr",
        {},
        element("th", { scope: "row" }, `layer ${layer}`),
        cells.map((cell) => element("td", {}, cell.button)),
      );
    });
    const { queries, keys, causal } = trace.sites.get(kind);
    const about = `${queries} attends to ${causal ? `the ${keys} so far` : keys}`;
    return element(
      "section",
      { class: "panel" },
      element("h3", {}, name, element("span", { class: "quiet" }, ` ${about}`)),
      element(
        "div",
        { class: "scrolls" },
        element(
          "table",
          { class: "thumbs" },
          element(
            "thead",
            {},
            element(
              "tr",
              {},
              element("td", {}),
              heads.map((head) => element("th", { scope: "col" }, `head ${head}`)),
            ),
          ),
          element("tbody", {}, rows),
        ),
      ),
    );
  }

  function thumbnail(kind, layer, head) {
    const canvas = element("canvas", { width: SIDE * 2, height: SIDE * 2, "aria-hidden": "true" });
    const number = element("span", { class: "number" }, " ");
    const open = () => {
      Object.assign(app.selection, { kind, layer, head });
      location.hash = "heat-map";
    };
    const button = element(
      "button",
      { type: "button", class: "thumb", "aria-label": `${kind}, layer ${layer}, head ${head}`, onclick: open },
      canvas,
      number,
    );
    return { button, canvas, number, head };
  }

  async function fillRow(trace, kind, layer, cells) {
    const found = await trace.attention(kind, layer).catch(() => null);
    if (!found || app.trace !== trace) return;
    for (const cell of cells) {
      if (!found.heads.includes(cell.head)) continue;
      paint(cell.canvas, found.matrix(cell.head));
      cell.number.textContent = fixed(found.entropy[found.heads.indexOf(cell.head)], 1);
    }
  }
  return { node, update };
}

/** A matrix as a picture, one pixel a weight, stretched to the canvas. */
function paint(canvas, matrix) {
  const image = new ImageData(matrix.columns, matrix.rows);
  const [most, dark] = [matrix.largest(), isDark()];
  matrix.data.forEach((weight, index) => image.data.set([...ramp(weight / most, dark), 255], index * 4));
  const whole = element("canvas", { width: matrix.columns, height: matrix.rows });
  whole.getContext("2d").putImageData(image, 0, 0);
  const context = canvas.getContext("2d");
  context.imageSmoothingEnabled = matrix.columns > canvas.width || matrix.rows > canvas.height;
  context.drawImage(whole, 0, 0, canvas.width, canvas.height);
}
