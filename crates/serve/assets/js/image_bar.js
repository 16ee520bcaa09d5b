// The input bar of an image classifier: a picture, or one of two that are drawn here.

import { element } from "./dom.js";
import { fileBar } from "./file_bar.js";

/** Width and height of the examples. */
const SIDE = 224;

/** The bar. */
export function imageBar(app) {
  return fileBar(app, {
    kind: "an image",
    accept: "image/png,image/jpeg",
    formats: "PNG or JPEG",
    examples: [
      ["a ball", () => drawn(drawBall)],
      ["stripes", () => drawn(drawStripes)],
    ],
    request: ({ data, name }) => ({ image: data, name }),
    summary,
  });
}

function summary({ trace }) {
  const { image, grid, learned_tokens: learned } = trace.json;
  const [down, across] = grid;
  const tokens = learned ? `${learned === 1 ? "the class token" : "two learned tokens"} and ` : "";
  return `${image.text}: the model reads ${tokens}${down} × ${across} patches.`;
}

/** An example as PNG in base64. */
function drawn(draw) {
  const canvas = element("canvas", { width: SIDE, height: SIDE });
  draw(canvas.getContext("2d"));
  const url = canvas.toDataURL("image/png");
  return url.slice(url.indexOf(",") + 1);
}

function drawBall(context) {
  fill(context, "#9cc9e8", [0, 0, SIDE, SIDE]);
  fill(context, "#5c8f3e", [0, 150, SIDE, 74]);
  disc(context, "#d23b2f", [138, 132, 46]);
  disc(context, "#f4d35e", [48, 46, 22]);
}

function drawStripes(context) {
  fill(context, "#f3efe4", [0, 0, SIDE, SIDE]);
  for (let at = 0; at < SIDE; at += 32) fill(context, "#2b2b2b", [at, 0, 14, SIDE]);
  disc(context, "#2f6fd2", [112, 112, 40]);
}

function fill(context, colour, [x, y, width, height]) {
  context.fillStyle = colour;
  context.fillRect(x, y, width, height);
}

function disc(context, colour, [x, y, radius]) {
  context.fillStyle = colour;
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.fill();
}
