// Tokens as small boxes. Each isolates its text, so that right-to-left marks have no effect outside.

import { element } from "./dom.js";
import { arrowKeys, rove } from "./keys.js";

const INVISIBLE = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/gu;

/** A visible label: invisible characters as their code points, lone combining marks on a circle. */
export function visible(label) {
  const text = label.replace(
    INVISIBLE,
    (mark) => `‹${mark.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}›`,
  );
  if (text.trim() === "") return "␣";
  return /^\p{M}/u.test(text) ? `◌${text}` : text;
}

/**
 * Readable labels of pieces. Where a vocabulary marks beginnings of words (▁), the mark is removed, and pieces that continue a
 * word get a dot instead.
 */
export function pieceLabels(pieces) {
  const marks = pieces.some((piece) => piece.startsWith("▁"));
  const continues = (piece) => marks && /^[\p{L}\p{N}\p{M}]/u.test(piece);
  return pieces.map((piece) => (piece.startsWith("▁") ? piece.slice(1) || "▁" : continues(piece) ? `·${piece}` : piece));
}

/** One token; special tokens have no text. */
export function tokenNode(token, attributes = {}) {
  const isSpecial = token.start === token.end;
  const kind = `token${isSpecial ? " special" : ""}${token.label.startsWith("·") ? " continues" : ""}`;
  const { class: more = "", as = "button", ...others } = attributes;
  const type = as === "button" ? { type: "button" } : {};
  return element(
    as,
    { ...type, ...others, class: `${kind} ${more}`.trim() },
    element("bdi", { dir: "auto" }, visible(token.label)),
  );
}

/** A row of tokens with keyboard navigation. `attributes(token, index)` gives the attributes of each. */
export function tokenRow(label, tokens, attributes = () => ({})) {
  const nodes = tokens.map((token, index) => tokenNode(token, attributes(token, index)));
  const box = element("div", { class: "tokens", role: "group", "aria-label": label }, nodes);
  rove(nodes, nodes[0]);
  arrowKeys(box, () => nodes, { onMove: () => {} });
  return { box, nodes };
}
