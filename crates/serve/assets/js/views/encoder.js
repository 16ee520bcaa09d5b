// Text, for an encoder: what the head computes, and what a token is similar to.

import { element, replace } from "../dom.js";
import { errorText } from "../api.js";
import { shade } from "../colour.js";
import { textResult, tokenResult, tokenShade } from "../encoder_head.js";
import { bar } from "../figures.js";
import { fixed } from "../format.js";
import { readable, tokenRow, visible } from "../tokens.js";

/** Similar tokens that are listed. */
const MAX_SIMILAR = 8;

export const encoderView = {
  id: "text",
  title: "Text",
  about: "What the model makes of the text. Click a token to see what it says of it, and which tokens have similar vectors.",
  showsAlways: true,
  build,
};

function build(app) {
  const result = element("div", { class: "choices" });
  const stage = element("div", { class: "stage" });
  const readout = element("p", { class: "readout quiet", "aria-live": "polite" });
  const detail = element("div", { class: "choices sides" });
  const node = element("div", { class: "strip-view" }, stage, readout, legend(app.model.head), result, detail);
  let nodes = [];

  app.on("started", (request) => {
    nodes = [];
    replace(result);
    replace(detail);
    readout.textContent = "";
    replace(stage, element("p", { class: "plain", dir: "auto" }, readable(request.text)));
  });
  app.on("ended", () => update(app.trace));
  app.on("place", () => {
    if (app.trace && !app.running) mark();
  });

  function update(trace) {
    if (app.running) return;
    if (!trace) {
      replace(stage, element("p", { class: "quiet" }, "Enter a text."));
      return;
    }
    const { json } = trace;
    const row = tokenRow("Tokens", trace.text, (token, position) => {
      const own = tokenShade(json, position);
      return {
        style: own && { background: own.background, color: own.ink },
        "aria-label": own ? `${visible(token.label)}, ${own.said}` : null,
        onpointerenter: () => say(position),
        onfocus: () => say(position),
        onclick: () => app.choose(position),
      };
    });
    nodes = row.nodes;
    replace(stage, row.box, element("p", { class: "plain whole", dir: "auto" }, readable(json.text.text)));
    const whole = textResult(json);
    replace(result, whole && element("div", { class: "panel" }, element("h3", {}, titles[json.head]), whole));
    mark();
  }

  function say(position) {
    const own = tokenShade(app.trace.json, position);
    const { id, piece } = app.trace.text[position];
    replace(
      readout,
      element("bdi", {}, visible(app.trace.text[position].label)),
      `: ${own ? own.said : `token ${position}, ${visible(piece)}, id ${id}`}`,
    );
  }

  async function mark() {
    const { trace, place } = app;
    const { position } = place;
    nodes.forEach((token, own) => {
      token.classList.toggle("chosen", own === position);
      token.setAttribute("aria-pressed", String(own === position));
    });
    say(position);
    const own = tokenResult(trace.json, position);
    const similar = element("div", { class: "panel" });
    const name = element("bdi", {}, visible(trace.text[position].label));
    replace(
      detail,
      own && element("div", { class: "panel" }, element("h3", {}, ...tokenTitle(trace.json.head), name), own, maskButton(position)),
      app.model.sites.length > 0 && similar,
    );
    if (!app.model.sites.length) return;
    try {
      const layers = await trace.states();
      if (app.trace !== trace || app.place.position !== position) return;
      const last = layers.at(-1);
      replace(similar, element("h3", {}, `Similar to `, name.cloneNode(true), `, ${last.name}`), nearest(trace, last, position));
    } catch (error) {
      replace(similar, element("p", { class: "status bad" }, errorText(error)));
    }
  }

  /** A button that masks the token, and reads the text again. */
  function maskButton(position) {
    const { mask } = app.model;
    const token = app.trace.text[position];
    if (!app.isLive || !mask || token.piece === mask || token.start === token.end) return null;
    const press = () => {
      const bytes = new TextEncoder().encode(app.trace.json.text.text);
      const part = (from, to) => new TextDecoder().decode(bytes.subarray(from, to));
      const space = /^\s/.test(part(token.start, token.end)) ? " " : "";
      app.place = { position, token: null, isChosen: true };
      app.run({ ...app.request, text: `${part(0, token.start)}${space}${mask}${part(token.end)}` });
    };
    return element("button", { type: "button", onclick: press }, "Mask this token");
  }
  return { node, update };
}

const titles = { classes: "Classes", token_classes: "Entities", none: "Vector" };

function tokenTitle(head) {
  return head === "token_classes" ? ["Class of "] : ["In place of "];
}

/** The tokens with the most similar vectors. */
function nearest(trace, { similarities }, position) {
  const row = similarities.row(position);
  const others = [...row.keys()].filter((other) => other !== position && trace.text[other].start < trace.text[other].end);
  const best = others.sort((a, b) => row[b] - row[a]).slice(0, MAX_SIMILAR);
  if (!best.length) return element("p", { class: "quiet" }, "No other tokens.");
  const line = (other) =>
    element(
      "li",
      {},
      element("bdi", { class: "pick" }, visible(trace.text[other].label)),
      bar(Math.max(row[other], 0), { text: fixed(row[other]) }),
      element("span", { class: "quiet number", title: "position" }, `(${other})`),
    );
  return [
    element("ol", { class: "alternatives" }, best.map(line)),
    element("p", { class: "quiet" }, "Cosine of the vectors, 1 for the same direction; positions in brackets."),
  ];
}

/** What the colours of tokens mean. */
function legend(head) {
  const texts = {
    masked_words: "The stronger a token's colour, the less probable it is in its place.",
    token_classes: "The stronger a token's colour, the more probable its class; tokens outside entities have none.",
  };
  if (!texts[head]) return null;
  const { background, ink } = shade(0.8);
  return element(
    "p",
    { class: "quiet scale" },
    element("span", { class: "number", style: { background, color: ink }, "aria-hidden": "true" }, "a"),
    ` ${texts[head]}`,
  );
}
