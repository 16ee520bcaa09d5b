// A random encoder in the layout of Hugging Face's BERT: 3 layers, 4 heads of 8, words as tokens.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { safetensors } from "./random_model.mjs";

const [LAYERS, HEADS, WIDTH, INNER, POSITIONS] = [3, 4, 32, 48, 64];

const WORDS =
  "[PAD] [UNK] [CLS] [SEP] [MASK] i bank only at my local the a cat dog ate mouse river of money animal street it was too tired ##s ##er . , ' ? ! didn t cross because";

/** The class of transformers, arrays and labels of each head. */
const HEADS_OF_MODEL = {
  none: ["BertModel", []],
  classes: ["BertForSequenceClassification", ["bad", "good"]],
  token_classes: ["BertForTokenClassification", ["O", "B-PER", "I-PER"]],
  masked_words: ["BertForMaskedLM", []],
};

/** Writes an encoder with a head into a folder. */
export function randomEncoder(folder, head) {
  const vocabulary = WORDS.split(" ");
  const [architecture, labels] = HEADS_OF_MODEL[head];
  writeFileSync(join(folder, "vocab.txt"), `${vocabulary.join("\n")}\n`);
  writeFileSync(join(folder, "tokenizer_config.json"), JSON.stringify({ do_lower_case: true }));
  const config = {
    model_type: "bert",
    architectures: [architecture],
    vocab_size: vocabulary.length,
    hidden_size: WIDTH,
    num_hidden_layers: LAYERS,
    num_attention_heads: HEADS,
    intermediate_size: INNER,
    max_position_embeddings: POSITIONS,
    type_vocab_size: 2,
    hidden_act: "gelu",
    layer_norm_eps: 1e-12,
    pad_token_id: 0,
    ...(labels.length ? { id2label: Object.fromEntries(labels.map((label, id) => [id, label])) } : {}),
  };
  writeFileSync(join(folder, "config.json"), JSON.stringify(config));
  const arrays = [...embeddings(vocabulary.length), ...layers(), ...headArrays(head, labels.length, vocabulary.length)];
  writeFileSync(join(folder, "model.safetensors"), safetensors(arrays.sort(([a], [b]) => (a < b ? -1 : 1))));
}

function both(name, outputs, inputs) {
  return [
    [`${name}.weight`, inputs ? [outputs, inputs] : [outputs]],
    [`${name}.bias`, [outputs]],
  ];
}

function embeddings(size) {
  const table = (name, rows) => [`bert.embeddings.${name}_embeddings.weight`, [rows, WIDTH]];
  return [
    table("word", size),
    table("position", POSITIONS),
    table("token_type", 2),
    ...both("bert.embeddings.LayerNorm", WIDTH),
  ];
}

function layers() {
  return Array.from({ length: LAYERS }, (_, layer) => {
    const own = `bert.encoder.layer.${layer}`;
    return [
      ...["query", "key", "value"].flatMap((name) => both(`${own}.attention.self.${name}`, WIDTH, WIDTH)),
      ...both(`${own}.attention.output.dense`, WIDTH, WIDTH),
      ...both(`${own}.attention.output.LayerNorm`, WIDTH),
      ...both(`${own}.intermediate.dense`, INNER, WIDTH),
      ...both(`${own}.output.dense`, WIDTH, INNER),
      ...both(`${own}.output.LayerNorm`, WIDTH),
    ];
  }).flat();
}

function headArrays(head, nLabels, size) {
  const pooler = both("bert.pooler.dense", WIDTH, WIDTH);
  if (head === "none") return pooler;
  if (head === "classes") return [...pooler, ...both("classifier", nLabels, WIDTH)];
  if (head === "token_classes") return both("classifier", nLabels, WIDTH);
  return [
    ...both("cls.predictions.transform.dense", WIDTH, WIDTH),
    ...both("cls.predictions.transform.LayerNorm", WIDTH),
    ["cls.predictions.bias", [size]],
  ];
}
