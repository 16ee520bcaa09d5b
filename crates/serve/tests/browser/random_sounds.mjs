// A random speech recogniser with the layers of the golden Whisper, whose token i is the word `i`, and a sound.

import { readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { gunzipSync } from "node:zlib";
import { safetensors } from "./random_model.mjs";

const GOLDEN = resolve(import.meta.dirname, "../../../engine/tests/golden/speech/speech.json.gz");

/** Writes a recogniser into a folder. */
export function randomSoundModel(folder) {
  const { config, generation, tensors } = JSON.parse(gunzipSync(readFileSync(GOLDEN)));
  const write = (name, value) => writeFileSync(join(folder, name), JSON.stringify(value));
  write("config.json", config);
  write("generation_config.json", generation);
  const level = { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true };
  const vocab = Object.fromEntries(Array.from({ length: config.vocab_size }, (_, id) => [`Ġ${id}`, id]));
  const model = { type: "BPE", dropout: null, unk_token: null, continuing_subword_prefix: null, end_of_word_suffix: null };
  write("tokenizer.json", {
    version: "1.0",
    truncation: null,
    padding: null,
    added_tokens: [],
    normalizer: null,
    pre_tokenizer: level,
    decoder: level,
    model: { ...model, fuse_unk: false, byte_fallback: false, vocab, merges: [] },
  });
  const sorted = tensors.toSorted(([a], [b]) => (a < b ? -1 : 1));
  writeFileSync(join(folder, "model.safetensors"), safetensors(sorted));
}

/** Writes a rising tone as WAV; returns its path. */
export function sound(folder, { name = "tone.wav", seconds = 1.5, rate = 16000, channels = 1 } = {}) {
  const count = Math.floor(seconds * rate);
  const bytes = Buffer.alloc(44 + 2 * channels * count);
  bytes.write("RIFF", 0);
  bytes.writeUInt32LE(bytes.length - 8, 4);
  bytes.write("WAVEfmt ", 8);
  bytes.writeUInt32LE(16, 16);
  bytes.writeUInt16LE(1, 20);
  bytes.writeUInt16LE(channels, 22);
  bytes.writeUInt32LE(rate, 24);
  bytes.writeUInt32LE(2 * channels * rate, 28);
  bytes.writeUInt16LE(2 * channels, 32);
  bytes.writeUInt16LE(16, 34);
  bytes.write("data", 36);
  bytes.writeUInt32LE(2 * channels * count, 40);
  for (let at = 0; at < count; at += 1) {
    const value = Math.round(9000 * Math.sin((2 * Math.PI * at * (300 + at / 60)) / rate));
    for (let channel = 0; channel < channels; channel += 1) bytes.writeInt16LE(value, 44 + 2 * (at * channels + channel));
  }
  const path = join(folder, name);
  writeFileSync(path, bytes);
  return path;
}
