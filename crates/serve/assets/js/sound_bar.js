// The input bar of a speech recogniser: a WAV file, or one of two sounds that are computed here; language and task.

import { fileBar } from "./file_bar.js";
import { checkbox, list } from "./controls.js";
import { fixed, languageName } from "./format.js";

/** Samples per second of the examples. */
const RATE = 16000;
const SECONDS = 2;

/** The bar. */
export function soundBar(app) {
  const { languages, translates } = app.model;
  const options = [["", "detected"], ...languages.map((code) => [code, languageName(code)])];
  const language = list("Language", options, "", () => bar.again());
  const translate = checkbox("Write English", false, () => bar.again());
  const bar = fileBar(app, {
    kind: "a sound",
    accept: "audio/wav,audio/x-wav,.wav",
    formats: "WAV",
    settings: [languages.length > 0 && language.node, translates && translate.node],
    examples: [
      ["a rising tone", () => encoded((time) => Math.sin(2 * Math.PI * time * (200 + 300 * time)))],
      ["three beeps", () => encoded((time) => (time % 0.7 < 0.3 ? Math.sin(2 * Math.PI * time * 660) : 0))],
    ],
    request: ({ data, name }) => ({ sound: data, name, language: language.value || null, translate: translate.value }),
    summary,
  });
  return bar;
}

function summary({ trace, model }) {
  const { json } = trace;
  const isCut = json.seconds >= model.seconds;
  const rest = isCut ? ` The first ${fixed(model.seconds, 0)} s at most are shown; polyhead transcribe reads all.` : "";
  const notes = json.notes?.length ? ` ${json.notes.join("; ")}.` : "";
  return `${json.request.name}: ${fixed(json.seconds)} s, ${trace.target.length} tokens.${notes}${rest}`;
}

/** A WAV file of samples at each time in base64: one channel, PCM of 16 bits. */
function encoded(at) {
  const count = RATE * SECONDS;
  const bytes = new DataView(new ArrayBuffer(44 + 2 * count));
  const write = (place, text) => [...text].forEach((letter, index) => bytes.setUint8(place + index, letter.charCodeAt(0)));
  write(0, "RIFF");
  bytes.setUint32(4, 36 + 2 * count, true);
  write(8, "WAVEfmt ");
  [16, 0x10001, RATE, 2 * RATE, 0x100002].forEach((number, index) => bytes.setUint32(16 + 4 * index, number, true));
  write(36, "data");
  bytes.setUint32(40, 2 * count, true);
  for (let index = 0; index < count; index += 1) bytes.setInt16(44 + 2 * index, 12000 * at(index / RATE), true);
  const part = (start) => String.fromCharCode(...new Uint8Array(bytes.buffer).subarray(start, start + 4096));
  let text = "";
  for (let start = 0; start < bytes.byteLength; start += 4096) text += part(start);
  return btoa(text);
}
