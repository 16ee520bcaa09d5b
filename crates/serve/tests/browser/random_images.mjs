// A random image classifier in the layout of Hugging Face's ViT, 3 layers and 4 heads over 8 × 8 patches, and a picture.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { crc32, deflateSync } from "node:zlib";
import { safetensors } from "./random_model.mjs";

const [LAYERS, HEADS, WIDTH, INNER, SIDE, PATCH] = [3, 4, 32, 48, 64, 8];
const LABELS = ["cat", "dog", "<b>bird</b>", "fish", "ant"];

/** Writes a classifier into a folder. */
export function randomImageModel(folder) {
  const config = {
    model_type: "vit",
    architectures: ["ViTForImageClassification"],
    hidden_size: WIDTH,
    num_hidden_layers: LAYERS,
    num_attention_heads: HEADS,
    intermediate_size: INNER,
    image_size: SIDE,
    patch_size: PATCH,
    num_channels: 3,
    hidden_act: "gelu",
    layer_norm_eps: 1e-12,
    qkv_bias: true,
    id2label: Object.fromEntries(LABELS.map((label, id) => [id, label])),
  };
  const preprocessor = {
    size: { height: SIDE, width: SIDE },
    resample: 2,
    image_mean: [0.5, 0.5, 0.5],
    image_std: [0.25, 0.25, 0.25],
  };
  writeFileSync(join(folder, "config.json"), JSON.stringify(config));
  writeFileSync(join(folder, "preprocessor_config.json"), JSON.stringify(preprocessor));
  const arrays = [...embeddings(), ...layers(), ...both("vit.layernorm", WIDTH), ...both("classifier", LABELS.length, WIDTH)];
  writeFileSync(join(folder, "model.safetensors"), safetensors(arrays.sort(([a], [b]) => (a < b ? -1 : 1))));
}

function both(name, outputs, inputs) {
  return [
    [`${name}.weight`, inputs ? [outputs, inputs] : [outputs]],
    [`${name}.bias`, [outputs]],
  ];
}

function embeddings() {
  const own = "vit.embeddings";
  return [
    [`${own}.cls_token`, [1, 1, WIDTH]],
    [`${own}.position_embeddings`, [1, (SIDE / PATCH) ** 2 + 1, WIDTH]],
    [`${own}.patch_embeddings.projection.weight`, [WIDTH, 3, PATCH, PATCH]],
    [`${own}.patch_embeddings.projection.bias`, [WIDTH]],
  ];
}

function layers() {
  return Array.from({ length: LAYERS }, (_, layer) => {
    const own = `vit.encoder.layer.${layer}`;
    return [
      ...["query", "key", "value"].flatMap((name) => both(`${own}.attention.attention.${name}`, WIDTH, WIDTH)),
      ...both(`${own}.attention.output.dense`, WIDTH, WIDTH),
      ...both(`${own}.intermediate.dense`, INNER, WIDTH),
      ...both(`${own}.output.dense`, WIDTH, INNER),
      ...both(`${own}.layernorm_before`, WIDTH),
      ...both(`${own}.layernorm_after`, WIDTH),
    ];
  }).flat();
}

/** Writes a picture of circles as PNG; returns its path. */
export function picture(folder, name = "circles.png", [width, height] = [120, 90]) {
  const rows = Array.from({ length: height }, (_, y) => {
    const pixels = Array.from({ length: width }, (_, x) => {
      const far = Math.hypot(x - width / 3, y - height / 2);
      return [(far * 9) % 256, (x * 2) % 256, (y * 3 + 60) % 256].map(Math.floor);
    });
    return [0, ...pixels.flat()];
  });
  const size = Buffer.alloc(13);
  size.writeUInt32BE(width, 0);
  size.writeUInt32BE(height, 4);
  size.set([8, 2, 0, 0, 0], 8);
  const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
  const parts = [chunk("IHDR", size), chunk("IDAT", deflateSync(Buffer.from(rows.flat()))), chunk("IEND", Buffer.alloc(0))];
  const path = join(folder, name);
  writeFileSync(path, Buffer.concat([signature, ...parts]));
  return path;
}

function chunk(kind, data) {
  const body = Buffer.concat([Buffer.from(kind), data]);
  const [length, check] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(data.length);
  check.writeUInt32BE(crc32(body));
  return Buffer.concat([length, body, check]);
}
