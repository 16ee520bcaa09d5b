// A random model with the layers and heads of the paper's base model: 6 + 6 layers, 8 heads of 64. Names and tokeniser are
// those of the tiny model; the feed-forward layers are narrow, because no test shows them.

import { copyFileSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { tinyModel } from "./program.mjs";

const [LAYERS, HEADS, WIDTH, INNER] = [6, 8, 512, 32];

/** Writes it into a folder. */
export function randomModel(folder) {
  for (const name of readdirSync(tinyModel).filter((own) => /\.spm$|vocab|tokenizer|generation/.test(own)))
    copyFileSync(join(tinyModel, name), join(folder, name));
  const config = JSON.parse(readFileSync(join(tinyModel, "config.json"), "utf8"));
  const sizes = {
    d_model: WIDTH,
    encoder_layers: LAYERS,
    decoder_layers: LAYERS,
    encoder_attention_heads: HEADS,
    decoder_attention_heads: HEADS,
    encoder_ffn_dim: INNER,
    decoder_ffn_dim: INNER,
  };
  writeFileSync(join(folder, "config.json"), JSON.stringify({ ...config, ...sizes }));
  const file = readFileSync(join(tinyModel, "model.safetensors"));
  const header = JSON.parse(file.subarray(8, 8 + Number(file.readBigUInt64LE(0))));
  delete header.__metadata__;
  const wide = new Map([
    [config.d_model, WIDTH],
    [config.encoder_ffn_dim, INNER],
  ]);
  const arrays = Object.entries(header)
    .filter(([name]) => !/layers\.[1-9]/.test(name))
    .flatMap(([name, { shape }]) => {
      const own = shape.map((size) => wide.get(size) ?? size);
      const names = name.includes("layers.0")
        ? Array.from({ length: LAYERS }, (_, layer) => name.replace("layers.0", `layers.${layer}`))
        : [name];
      return names.map((each) => [each, own]);
    })
    .sort(([a], [b]) => (a < b ? -1 : 1));
  writeFileSync(join(folder, "model.safetensors"), safetensors(arrays));
}

/** A file with these arrays, `[name, shape]`. */
export function safetensors(arrays) {
  let place = 0;
  const header = {};
  const parts = arrays.map(([name, shape]) => {
    const count = shape.reduce((a, b) => a * b, 1);
    header[name] = { dtype: "F32", shape, data_offsets: [place, place + 4 * count] };
    place += 4 * count;
    return Buffer.from(filled(name, count).buffer);
  });
  const text = JSON.stringify(header);
  const head = Buffer.from(text + " ".repeat((8 - (text.length % 8)) % 8));
  const size = Buffer.alloc(8);
  size.writeBigUInt64LE(BigInt(head.length));
  return Buffer.concat([size, head, ...parts]);
}

/** The same numbers each time; gains of norms are 1. */
function filled(name, count) {
  if (/norm(_before|_after)?\.weight$/i.test(name)) return new Float32Array(count).fill(1);
  if (name.endsWith("bias")) return new Float32Array(count);
  let state = count * 2654435761 + name.length;
  return Float32Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) | 0;
    return (state / 2 ** 31) * 0.12;
  });
}
