// Tokens as small boxes. Each isolates its text, so that right-to-left marks have no effect outside.

import { element } from "./dom.js";
import { arrowKeys, rove } from "./keys.js";

const INVISIBLE = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/gu;

/** Placeholders of preserved text, as models are trained with them. */
const PLACEHOLDERS = /[\ue000-\ue003]/g;

/** Running text with placeholders as ‹0›. */
export function readable(text) {
  return text.replace(PLACEHOLDERS, (mark) => `‹${mark.charCodeAt(0) - 0xe000}›`);
}

/** A visible label: placeholders as ‹0›, invisible characters as their code points, lone combining marks on a circle. */
export function visible(label) {
  const text = readable(label).replace(
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

/**
 * The label of a piece after others. A byte (`<0xC3>`) shows the character that it completes, or its number until then; other
 * pieces are labelled by `pieceLabels`.
 */
export function byteLabel(piece, before) {
  if (byteOf(piece) === null) return null;
  const bytes = [];
  for (const own of [...before, piece]) {
    const byte = byteOf(own);
    // A byte below 0x80 or above 0xBF begins a character.
    if (byte === null) bytes.length = 0;
    else if ((byte & 0xc0) === 0x80) bytes.push(byte);
    else bytes.splice(0, bytes.length, byte);
  }
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(Uint8Array.from(bytes));
  } catch {
    return `byte ${piece.slice(3, 5)}`;
  }
}

function byteOf(piece) {
  const digits = /^<0x([0-9A-F]{2})>$/i.exec(piece);
  return digits ? parseInt(digits[1], 16) : null;
}

/** One token; special tokens have no text. A token that the vocabulary lacks is marked: the model reads it as unknown. */
export function tokenNode(token, attributes = {}) {
  const isUnknown = token.piece === "<unk>";
  const isSpecial = token.start === token.end && token.label === token.piece && !isUnknown;
  const marks = `${isSpecial ? " special" : ""}${isUnknown ? " unknown" : ""}`;
  const kind = `token${marks}${token.label.startsWith("·") ? " continues" : ""}`;
  const { class: more = "", as = "button", ...others } = attributes;
  const type = as === "button" ? { type: "button" } : {};
  const title = isUnknown ? { title: "Not in the vocabulary: the model reads <unk>" } : {};
  return element(
    as,
    { ...type, ...title, ...others, class: `${kind} ${more}`.trim() },
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
