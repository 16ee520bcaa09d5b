// A trace as the views need it: tokens of rows and columns, weights of heads, words instead of tokens.

import { ApiError } from "./api.js";
import { readArray } from "./arrays.js";

/** Weights in rows. */
export class Matrix {
  constructor(rows, columns, data) {
    Object.assign(this, { rows, columns, data });
  }

  row(index) {
    return this.data.subarray(index * this.columns, (index + 1) * this.columns);
  }

  at(row, column) {
    return this.data[row * this.columns + column];
  }

  /** The largest weight, at least 1e-9. */
  largest() {
    let most = 1e-9;
    for (const weight of this.data) if (weight > most) most = weight;
    return most;
  }
}

/** All loaded heads of one attention site. */
class Heads {
  constructor(packed) {
    const { shape, data } = readArray(packed.weights);
    Object.assign(this, { kind: packed.kind, layer: packed.layer, heads: packed.heads, entropy: packed.entropy });
    [, this.rows, this.columns] = shape;
    this.data = data;
  }

  /** One head's weights. */
  matrix(head) {
    const index = this.heads.indexOf(head);
    if (index < 0) throw new ApiError(`head ${head} is not in the file`, `It has ${this.heads.join(", ")}`);
    const size = this.rows * this.columns;
    return new Matrix(this.rows, this.columns, this.data.subarray(index * size, (index + 1) * size));
  }

  /** The mean over some heads. */
  mean(heads = this.heads) {
    const sum = new Float32Array(this.rows * this.columns);
    for (const head of heads) {
      const { data } = this.matrix(head);
      for (let index = 0; index < sum.length; index += 1) sum[index] += data[index] / heads.length;
    }
    return new Matrix(this.rows, this.columns, sum);
  }
}

export class Trace {
  /** `missing` fetches what was omitted because the text is long: `attention(trace, kind, layer)` and `states(trace)`. */
  constructor(json, missing) {
    this.json = json;
    this.missing = missing;
    // A language model and an encoder have one text instead.
    this.source = json.source?.tokens;
    this.target = json.target?.tokens;
    this.text = json.predictions || json.head ? json.text.tokens : null;
    // The attention sites of the model, by kind.
    this.sites = new Map(json.sites.map((site) => [site.kind, site]));
    this.loaded = new Map(json.attention.map((packed) => [`${packed.kind} ${packed.layer}`, packed]));
  }

  /** The kinds of attention with their display names. */
  get kinds() {
    return [...this.sites.keys()].map((kind) => [kind, kind[0].toUpperCase() + kind.slice(1)]);
  }

  /** Layers of a kind of attention. */
  layers(kind) {
    return this.sites.get(kind).n_layers;
  }

  headCount(kind) {
    return this.sites.get(kind).n_heads;
  }

  /** Tokens of the longest side. */
  get longest() {
    return Math.max(...this.json.sides.map((name) => this.json[name].tokens.length));
  }

  /** True if every side has words. */
  get hasWords() {
    return this.json.sides.every((name) => this.json[name].words.length > 0);
  }

  /** The query tokens. */
  queries(kind) {
    return this.json[this.sites.get(kind).queries].tokens;
  }

  /** The key tokens: in causal attention, the decoder's input, which a start token may begin. */
  keys(kind) {
    const { keys, causal } = this.sites.get(kind);
    const { tokens } = this.json[keys];
    return causal && this.json.start ? [this.json.start, ...tokens.slice(0, -1)] : tokens;
  }

  has(kind, layer) {
    return this.loaded.has(`${kind} ${layer}`);
  }

  /** The heads of an attention site, fetched if the trace lacks them. */
  async attention(kind, layer) {
    const name = `${kind} ${layer}`;
    let found = this.loaded.get(name);
    if (found === undefined) {
      found = this.missing.attention(this, kind, layer).catch((error) => {
        this.loaded.delete(name);
        throw error;
      });
      this.loaded.set(name, found);
    }
    found = await found;
    if (!(found instanceof Heads)) found = new Heads(found);
    this.loaded.set(name, found);
    return found;
  }

  /** The states of an encoder: for each place in the stack its name, points and cosines; fetched if the trace lacks them. */
  async states() {
    this.layers_ ??= this.json.states ? Promise.resolve(this.json.states) : this.missing.states(this);
    try {
      const found = await this.layers_;
      this.read_ ??= found.map(({ layer, places, variance, similarities }) => {
        const [points, cosines] = [places, similarities].map(readArray);
        return {
          name: layerName(layer),
          places: Array.from({ length: points.shape[0] }, (_, index) => [...points.data.subarray(2 * index, 2 * index + 2)]),
          variance,
          similarities: new Matrix(cosines.shape[0], cosines.shape[1], cosines.data),
        };
      });
      return this.read_;
    } catch (error) {
      this.layers_ = undefined;
      throw error;
    }
  }

  /** The token that views of an encoder show first: a mask, a word that occurs again, or the first with text. */
  firstPlace(mask) {
    const counts = new Map();
    for (const { id } of this.text) counts.set(id, (counts.get(id) ?? 0) + 1);
    const tests = [
      (token) => token.piece === mask,
      (token) => counts.get(token.id) > 1 && /^\p{L}{3}/u.test(token.label),
      (token) => token.start < token.end,
    ];
    const found = tests.map((test) => this.text.findIndex(test)).find((own) => own >= 0);
    return found ?? 0;
  }

  /** Kind and layer of the attention site for alignments; else the last layer of the first kind, null without attention. */
  get alignmentSite() {
    const [first] = this.json.sites;
    return this.json.alignment_site ?? (first ? { kind: first.kind, layer: first.n_layers - 1 } : null);
  }

  /** A rollout as a matrix, if it was computed. */
  rollout(kind) {
    const packed = this.json.rollout?.[kind];
    if (!packed) return null;
    const { shape, data } = readArray(packed);
    return new Matrix(shape[0], shape[1], data);
  }

  /** Weights between words: the mean over query tokens, the sum over key tokens. */
  byWords(kind, pieces) {
    const rows = grouping(this.queries(kind));
    const columns = grouping(this.keys(kind));
    const data = new Float32Array(rows.count * columns.count);
    for (let row = 0; row < pieces.rows; row += 1) {
      if (rows.of[row] === null) continue;
      for (let column = 0; column < pieces.columns; column += 1) {
        if (columns.of[column] === null) continue;
        data[rows.of[row] * columns.count + columns.of[column]] += pieces.at(row, column) / rows.sizes[rows.of[row]];
      }
    }
    return new Matrix(rows.count, columns.count, data);
  }

  /** The words of the queries or keys. */
  words(kind, side) {
    const { text, words } = this.json[this.sites.get(kind)[side === "keys" ? "keys" : "queries"]];
    const bytes = new TextEncoder().encode(text);
    const all = words.map(([start, end]) => new TextDecoder().decode(bytes.subarray(start, end)));
    const { count } = grouping(side === "keys" ? this.keys(kind) : this.queries(kind));
    return all.slice(0, count).map((label) => ({ label, start: 0, end: 1 }));
  }
}

/** The name of a place in a stack of layers. */
export function layerName(layer) {
  return typeof layer === "number" ? `layer ${layer}` : layer;
}

function grouping(tokens) {
  const of = tokens.map((token) => token.word);
  const sizes = [];
  for (const word of of) if (word !== null) sizes[word] = (sizes[word] ?? 0) + 1;
  return { of, sizes, count: sizes.length };
}
