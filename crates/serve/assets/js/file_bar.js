// The input bar of a model that reads files: a file that is chosen or dropped in, settings, examples, and a status line.

import { element, freshId, replace } from "./dom.js";
import { errorText } from "./api.js";
import { bytesText } from "./format.js";

/**
 * The bar; it runs requests of `app` and shows their status. `kind` is what a file is, `accept` its media types, `formats` the same in
 * words; `examples` are `[name, base64()]`; `request({ data, name })` makes the request from a file in base64, `summary(app)` is the
 * status after a request.
 */
export function fileBar(app, { kind, accept, formats, settings = [], examples, request, summary }) {
  const id = freshId("file");
  const input = element("input", { id, type: "file", accept, class: "visually-hidden" });
  const drop = element(
    "label",
    { class: "drop", for: id },
    element("span", { class: "button" }, `Choose ${kind}`),
    element("span", { class: "quiet" }, `or drop one here: ${formats}`),
  );
  const status = element("p", { class: "status", role: "status", "aria-live": "polite" });
  const example = ([name, data]) =>
    element("button", { type: "button", class: "example", onclick: () => show(name, data()) }, name);
  const form = element(
    "form",
    { class: "sentence", onsubmit: (event) => event.preventDefault() },
    element("div", { class: "file" }, input, drop),
    element(
      "div",
      { class: "settings" },
      settings,
      element("div", { class: "examples", role: "group", "aria-label": "Examples" }, examples.map(example)),
    ),
  );
  const node = element("section", { "aria-label": "File" }, form, status);
  let last = null;
  const say = (message, isBad = false) => {
    status.classList.toggle("bad", isBad);
    replace(status, message);
  };

  input.addEventListener("change", () => {
    const [file] = input.files;
    if (file) read(file);
    // The same file can be chosen again.
    input.value = "";
  });
  // A file that misses the bar would replace the page.
  for (const name of ["dragover", "drop"]) {
    document.addEventListener(name, (event) => {
      event.preventDefault();
      drop.classList.toggle("over", name === "dragover");
      const [file] = name === "drop" ? event.dataTransfer.files : [];
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
  function show(name, data) {
    last = { name, data };
    return app.run(request(last));
  }
  app.on("started", () => say("Reading …"));
  app.on("ended", (error) => {
    if (error) say(errorText(error), true);
    else say(summary(app));
  });
  return {
    node,
    start: () => show(examples[0][0], examples[0][1]()),
    /** Reads the file again, with other settings. */
    again: () => last && show(last.name, last.data),
  };
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
