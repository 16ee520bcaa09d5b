// The program under test, named by POLYHEAD, with a small random model.

import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const here = import.meta.dirname;
const program = resolve(process.env.POLYHEAD ?? join(here, "../../../../target/debug/polyhead"));
export const tinyModel = resolve(here, "../../../models/tests/golden/opus");

/** A language model: a tiny GPT-2. */
export const languageModel = resolve(here, "../../../engine/tests/golden/gpt2");

export const defaultModel = resolve(here, "../../../../models/default");

/** Where screenshots go. */
export const shots = resolve(process.env.SCREENSHOTS ?? join(here, "../../../../target/screenshots"));

/** A folder that is removed after the test. */
export function scratch(test) {
  const folder = mkdtempSync(join(tmpdir(), "polyhead-"));
  test.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** The trace of `polyhead inspect` of a sentence, translated into Turkish like the page's default. */
export function inspect(folder, text, { model = tinyModel, options = [], name = "trace.json" } = {}) {
  const path = join(folder, name);
  execFileSync(program, ["inspect", "--model", model, "--to", "tur", "--out", path, ...options, text], {
    stdio: "pipe",
  });
  return name.endsWith(".json") ? JSON.parse(readFileSync(path, "utf8")) : path;
}

/** The trace of `polyhead inspect` of a text under the language model. */
export function inspectText(folder, text, { options = [], name = "trace.json" } = {}) {
  const path = join(folder, name);
  execFileSync(program, ["inspect", "--model", languageModel, "--alternatives", "8", "--out", path, ...options, text], {
    stdio: "pipe",
  });
  return name.endsWith(".json") ? JSON.parse(readFileSync(path, "utf8")) : path;
}

/** The trace of `polyhead inspect` of a text under an encoder. */
export function inspectEncoder(folder, model, text, { options = [], name = "trace.json" } = {}) {
  const path = join(folder, name);
  execFileSync(program, ["inspect", "--model", model, "--alternatives", "8", "--out", path, ...options, text], {
    stdio: "pipe",
  });
  return name.endsWith(".json") ? JSON.parse(readFileSync(path, "utf8")) : path;
}

/** The trace of `polyhead inspect --image`. */
export function inspectImage(folder, model, image, { options = [], name = "trace.json" } = {}) {
  const path = join(folder, name);
  execFileSync(program, ["inspect", "--model", model, "--image", image, "--out", path, ...options], { stdio: "pipe" });
  return name.endsWith(".json") ? JSON.parse(readFileSync(path, "utf8")) : path;
}

/** The trace of `polyhead inspect` of a sound. */
export function inspectSound(folder, model, sound, { options = [], name = "trace.json" } = {}) {
  const path = join(folder, name);
  execFileSync(program, ["inspect", "--model", model, "--out", path, ...options, sound], { stdio: "pipe" });
  return name.endsWith(".json") ? JSON.parse(readFileSync(path, "utf8")) : path;
}

/** The segments of `polyhead transcribe --words`. */
export function transcribed(model, sound) {
  const options = ["transcribe", "--model", model, "--words", "--format", "json", sound];
  return JSON.parse(execFileSync(program, options, { stdio: "pipe", encoding: "utf8" })).segments;
}

/** The comparison of `polyhead inspect --compare` of a word in texts. */
export function compared(folder, model, word, texts, name = "comparison.json") {
  const path = join(folder, name);
  execFileSync(program, ["inspect", "--model", model, "--compare", word, "--out", path, ...texts], { stdio: "pipe" });
  return name.endsWith(".json") ? JSON.parse(readFileSync(path, "utf8")) : path;
}

/** The translations of `polyhead translate`, by the default model. */
export function translated(texts, { from, to, beam }) {
  const languages = [...(from ? ["--from", from] : []), ...(to ? ["--to", to] : [])];
  const options = ["translate", "--model", defaultModel, "--format", "jsonl", "--beam", String(beam), ...languages, "--"];
  const out = execFileSync(program, [...options, ...texts], { stdio: "pipe", encoding: "utf8", maxBuffer: 1 << 24 });
  return out
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line).text);
}

/** Starts an explorer; returns its address. */
export function explore(test, model = tinyModel) {
  return started(test, ["explore", "--model", model, "--port", "0", "--no-open"]);
}

/** Starts a server; returns its address. */
export function serve(test, model = tinyModel) {
  return started(test, ["serve", "--model", model, "--listen", "127.0.0.1:0"]);
}

function started(test, command) {
  const child = spawn(program, command);
  test.after(() => child.kill());
  return new Promise((done, failed) => {
    child.stdout.once("data", (text) => done(String(text).trim()));
    child.once("exit", (code) => failed(new Error(`polyhead ${command[0]} ended with ${code}`)));
    let said = "";
    child.stderr.on("data", (text) => {
      said += text;
    });
    child.once("error", (error) => failed(new Error(`${error.message} ${said}`)));
  });
}

/** The numbers of an array in a trace. */
export function numbers(packed) {
  const bytes = Uint8Array.from(Buffer.from(packed.base64, "base64"));
  return new Float32Array(bytes.buffer);
}

/** The weight of a pair of tokens. */
export function weight(trace, kind, layer, head, row, column) {
  const found = trace.attention.find((own) => own.kind === kind && own.layer === layer);
  const [, rows, columns] = found.weights.shape;
  return numbers(found.weights)[(found.heads.indexOf(head) * rows + row) * columns + column];
}
