// The input bar of an image classifier: a file that is chosen or dropped in, examples, and a status line.

import { element, freshId, replace } from "./dom.js";
import { errorText } from "./api.js";
import { bytesText } from "./format.js";

/** Width and height of the examples. */
const SIDE = 224;

const EXAMPLES = [
  ["a ball", drawBall],
  ["stripes", drawStripes],
];

/** The bar; it runs requests of `app` and shows their status. */
export function imageBar(app) {
  const id = freshId("file");
  const input = element("input", { id, type: "file", accept: "image/png,image/jpeg", class: "visually-hidden" });
  const drop = element(
    "label",
    { class: "drop", for: id },
    element("span", { class: "button" }, "Choose an image"),
    element("span", { class: "quiet" }, "or drop one here: PNG or JPEG"),
  );
  const status = element("p", { class: "status", role: "status", "aria-live": "polite" });
  const example = ([name, draw]) =>
    element("button", { type: "button", class: "example", onclick: () => show(name, drawn(draw)) }, name);
  const form = element(
    "form",
    { class: "sentence" },
    element("div", { class: "file" }, input, drop),
    element(
      "div",
      { class: "settings" },
      element("div", { class: "examples", role: "group", "aria-label": "Examples" }, EXAMPLES.map(example)),
    ),
  );
  const node = element("section", { "aria-label": "Image" }, form, status);
  const say = (message, isBad = false) => {
    status.classList.toggle("bad", isBad);
    replace(status, message);
  };

  input.addEventListener("change", () => {
    const [file] = input.files;
    // The same file can be chosen again.
    input.value = "";
    if (file) read(file);
  });
  // A file that misses the bar would replace the page.
  for (const kind of ["dragover", "drop"]) {
    document.addEventListener(kind, (event) => {
      event.preventDefault();
      drop.classList.toggle("over", kind === "dragover");
      const [file] = kind === "drop" ? event.dataTransfer.files : [];
      if (file) read(file);
    });
  }
  document.addEventListener("dragleave", () => drop.classList.remove("over"));

  async function read(file) {
    const most = Math.floor((app.model.limits.body * 3) / 4) - 4096;
    if (file.size > most) {
      app.show(null);
      say(`${file.name} has ${bytesText(file.size)}, expected at most ${bytesText(most)}.`, true);
      return;
    }
    show(file.name, await encoded(file));
  }
  function show(name, image) {
    return app.run({ image, name });
  }
  app.on("started", () => say("Reading …"));
  app.on("ended", (error) => {
    if (error) say(errorText(error), true);
    else say(summary(app));
  });
  return { node, start: () => show(EXAMPLES[0][0], drawn(EXAMPLES[0][1])) };
}

function summary({ trace }) {
  const { image, grid, learned_tokens: learned } = trace.json;
  const [down, across] = grid;
  const tokens = learned ? `${learned === 1 ? "the class token" : "two learned tokens"} and ` : "";
  return `${image.text}: the model reads ${tokens}${down} × ${across} patches.`;
}

/** A file in base64. */
function encoded(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
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
