// The translation of the text, what was done besides decoding, and the choice of the segment that the views show.

import { element, replace } from "./dom.js";
import { list } from "./controls.js";
import { languageName } from "./format.js";
import { visible } from "./tokens.js";

/** The block; it shows the translation of `app` and runs it again for another segment. */
export function resultBlock(app) {
  const text = element("p", { class: "plain", id: "translation", dir: "auto" });
  const notes = element("ul", { class: "notes" });
  const segment = list("Segment", [], "", (value) => app.run({ ...app.request, prefix: [], segment: Number(value) }));
  const read = element("p", { class: "quiet", id: "read" });
  const claim = element("p", { class: "claim", role: "status" });
  const node = element("div", { class: "outcome", hidden: true }, text, notes, segment.node, read, claim);

  app.on("started", () => {
    node.hidden = true;
  });
  app.on("trace", () => {
    const { translation, trace, request } = app;
    node.hidden = !translation && !trace;
    replace(claim);
    text.textContent = translation ? translation.text : (trace?.json.target.text ?? "");
    replace(notes, (translation?.notes ?? []).map(note));
    const segments = translation?.segments ?? [];
    segment.node.hidden = segments.length < 2;
    segment.options(
      segments.map((own, index) => [String(index), name(own, index, segments)]),
      String(translation?.segment ?? request?.segment ?? ""),
    );
    segment.node.querySelector("select").disabled = !app.isLive;
    replace(read, ...described(segments[translation?.segment], request));
  });
  return {
    node,
    /** Says what an example shows. */
    claim: (sentence) => replace(claim, sentence),
  };
}

function note({ message, is_warning: isWarning }) {
  return element("li", { class: isWarning ? "warning" : "" }, `${message[0].toUpperCase()}${message.slice(1)}.`);
}

/** A name of a segment in the list. */
function name(own, index, segments) {
  const hops = new Set(segments.map((other) => other.hop)).size;
  const languages = own.from && own.to ? ` ${languageName(own.from)} → ${languageName(own.to)}` : "";
  const hop = hops > 1 ? ` hop ${own.hop + 1}${languages}` : "";
  const letters = [...own.text];
  const short = letters.length > 40 ? `${letters.slice(0, 40).join("")}…` : own.text;
  return `${index + 1} of ${segments.length}${hop}: ${visible(short)}${own.read === null ? " (copied)" : ""}`;
}

/** What the model read and wrote, where that is not the text and its translation. */
function described(own, request) {
  if (!own) return [];
  if (own.read === null) return ["This segment was copied: the model did not read it."];
  if (request?.prefix?.length) return ["Decoded from the token that you chose: the tokens below are not those of the translation above."];
  if (own.read === own.text) return [];
  return [
    "The model read ",
    element("bdi", { class: "read" }, visible(own.read)),
    " for ",
    element("bdi", {}, visible(own.text)),
    ".",
  ];
}
