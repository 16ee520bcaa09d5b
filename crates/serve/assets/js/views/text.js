// Text: every token in the colour of its surprisal; a click shows what could come next.

import { element, replace } from "../dom.js";
import { distribution, facts, said, surpriseShade, surprisal } from "../prediction.js";
import { readable, tokenRow, visible } from "../tokens.js";

export const textView = {
  id: "text",
  title: "Text",
  about: "The stronger a token's colour, the less the model expected it. Click a token to see what could come after it.",
  showsAlways: true,
  build,
};

function build(app) {
  const stage = element("div", { class: "stage" });
  const readout = element("p", { class: "readout quiet", "aria-live": "polite" });
  const next = element("div", { class: "choices" });
  const node = element("div", { class: "strip-view" }, stage, readout, legend(), next);
  let nodes = [];

  app.on("started", (request) => grow(request, ""));
  app.on("growth", ({ text }) => grow(app.request, text));
  app.on("ended", () => update(app.trace));
  app.on("place", () => {
    if (app.trace && !app.running) mark();
  });

  function grow(request, text) {
    nodes = [];
    replace(next);
    readout.textContent = "";
    const before = request.ids?.length ? "…" : request.text;
    const growing = request.generate > 0 ? element("span", { class: "growing" }, readable(text)) : null;
    replace(stage, element("p", { class: "plain", dir: "auto" }, before, growing));
  }

  function update(trace) {
    if (app.running) return;
    if (!trace) {
      replace(stage, element("p", { class: "quiet" }, "Enter a text."));
      replace(next);
      readout.textContent = "";
      return;
    }
    const first = trace.text.length - trace.json.generated;
    const row = tokenRow("Tokens", trace.text, (token, position) => {
      const { background, ink } = surpriseShade(surprisal(trace.json.predictions, position));
      const isNew = position >= first;
      return {
        class: isNew ? "generated" : "",
        style: { background, color: ink },
        "aria-label": `${visible(token.label)}, ${isNew ? "generated, " : ""}${said(trace, position)}`,
        onpointerenter: () => say(position),
        onfocus: () => say(position),
        onclick: () => app.choose(position),
      };
    });
    nodes = row.nodes;
    replace(stage, row.box, element("p", { class: "plain whole", dir: "auto" }, readable(trace.json.text.text)));
    mark();
  }

  function say(position) {
    const { trace } = app;
    replace(readout, element("bdi", {}, visible(trace.text[position].label)), `: ${said(trace, position)}`);
  }

  function mark() {
    const { trace, place } = app;
    const { position } = place;
    nodes.forEach((token, own) => {
      token.classList.toggle("chosen", own === position);
      token.setAttribute("aria-pressed", String(own === position));
    });
    say(position);
    const prediction = trace.json.predictions[position];
    const ids = trace.text.slice(0, position + 1).map((token) => token.id);
    const pick = (id) => {
      app.place = { position: ids.length, token: null, isChosen: true };
      app.run({ ...app.request, ids: [...ids, id] });
    };
    const isFull = ids.length + 1 > (app.model.max_len ?? Infinity);
    replace(
      next,
      element(
        "div",
        { class: "panel" },
        element(
          "h3",
          {},
          `After position ${position}, `,
          element("bdi", {}, visible(trace.text[position].label)),
          ": what comes next",
        ),
        distribution(prediction, trace.text[position + 1]?.id, app.isLive && !isFull ? pick : null),
        facts(prediction),
        app.isLive &&
          !isFull &&
          element("p", { class: "quiet" }, "Click a token to put it there and to continue from it."),
      ),
    );
  }
  return { node, update };
}

/** The scale of the colours. */
function legend() {
  const cell = (bits) => {
    const { background, ink } = surpriseShade(bits);
    return element("span", { class: "number", style: { background, color: ink } }, String(bits));
  };
  const steps = [0, 3, 6, 9, 12].map(cell);
  return element(
    "p",
    { class: "quiet scale" },
    "Surprisal in bits: ",
    steps,
    " and more. Dashed tokens were generated.",
  );
}
