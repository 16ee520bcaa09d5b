// State that all views share: the model, the request, its translation and the trace of one segment. Views listen to its
// events and store nothing of it.

import { ApiError, postAttention, postNeurons, postStates, streamTrace } from "./api.js";
import { Trace } from "./trace.js";

/** The call of each kind of model that reads a request. */
const PATHS = { "language-model": "api/text", encoder: "api/encoder", image: "api/image", speech: "api/sound" };

export class App {
  constructor({ model, isLive }) {
    Object.assign(this, { model, isLive, trace: null, translation: null, request: null, listeners: new Map(), running: null });
    // The attention site that all views show, so that it survives a change of view.
    this.selection = { kind: null, layer: null, head: 0 };
    // The position and the token of a text that all views of a language model show.
    this.place = { position: 0, token: null };
    // A head and a token for one view to show alone: `{ view, head, row }`.
    this.focus = null;
  }

  on(event, listener) {
    this.listeners.set(event, [...(this.listeners.get(event) ?? []), listener]);
  }

  emit(event, detail) {
    (this.listeners.get(event) ?? []).forEach((listener) => listener(detail));
  }

  /** Shows a trace, and the translation that it is a segment of; null shows nothing. */
  show(json, translation = null) {
    this.translation = translation;
    this.trace =
      json &&
      new Trace(json, {
        attention: (trace, kind, layer) => this.missing(trace, kind, layer),
        states: (trace) => this.missingStates(trace),
      });
    if (this.trace) this.clampSelection();
    if (this.trace?.text) this.clampPlace();
    this.emit("trace", this.trace);
  }

  /** Takes the focus that is meant for a view; null if there is none. */
  takeFocus(view) {
    if (this.focus?.view !== view) return null;
    const { focus } = this;
    this.focus = null;
    return focus;
  }

  /** Keeps the selection, unless this trace does not have it. */
  clampSelection() {
    const [first] = this.trace.json.attention;
    const site = this.trace.alignmentSite;
    if (!site) return;
    this.selection.kind ??= site.kind;
    if (!this.isLive && first && !this.trace.has(this.selection.kind, this.selection.layer ?? site.layer)) {
      Object.assign(this.selection, { kind: first.kind, layer: first.layer, head: first.heads[0] });
    }
    this.selection.layer = Math.min(this.selection.layer ?? site.layer, this.trace.layers(this.selection.kind) - 1);
    this.selection.head = Math.min(this.selection.head, this.trace.headCount(this.selection.kind) - 1);
  }

  /** Keeps a chosen position that the text has; else it is the last one of the text that was given. */
  clampPlace() {
    const { length } = this.trace.text;
    if (this.place.position < length && this.place.isChosen) return;
    const position = this.isEncoder ? this.trace.firstPlace(this.model.mask) : length - this.trace.json.generated - 1;
    this.place = { position, token: null };
  }

  /** Chooses a position of a text, and a token that may follow it; default: the one that does. */
  choose(position, token = null) {
    this.place = { position, token, isChosen: true };
    this.emit("place", this.place);
  }

  /** True for a language model. */
  get isText() {
    return this.model.task === "language-model";
  }

  /** True for an encoder. */
  get isEncoder() {
    return this.model.task === "encoder";
  }

  /** True for an image classifier. */
  get isImage() {
    return this.model.task === "image";
  }

  /** True for a speech recogniser. */
  get isSound() {
    return this.model.task === "speech";
  }

  /** The folder of the model's calls. */
  get calls() {
    return { "language-model": "text/", encoder: "encoder/", image: "image/", speech: "sound/" }[this.model.task] ?? "";
  }

  /** Translates and traces `{text, from, to, as_is, segment, beam_size, prefix}`. A new request cancels a running one. */
  async run(request) {
    this.running?.abort();
    const running = new AbortController();
    this.running = running;
    this.request = request;
    this.emit("started", request);
    try {
      const path = PATHS[this.model.task] ?? "api/translate";
      const found = await streamTrace(path, request, (growth) => this.emit("growth", growth), running.signal);
      if (this.running !== running) return;
      this.running = null;
      if (found.trace) Object.assign(found.trace, { request, notes: found.notes });
      this.show(found.trace, found.translation ?? null);
      this.emit("ended", null);
    } catch (error) {
      if (error.name === "AbortError" || this.running !== running) return;
      this.running = null;
      // The figures of an earlier text would contradict the message.
      this.show(null);
      this.emit("ended", error);
    }
  }

  missing(trace, kind, layer) {
    if (!this.isLive) {
      return Promise.reject(
        new ApiError("this attention is not in the file", "Select it with --kind, --layers and --heads of polyhead inspect"),
      );
    }
    // Of a sound, nothing is changed.
    const changed = this.isSound ? {} : { intervention: trace.json.intervention };
    return postAttention(this.calls, { ...inputOf(trace), kind, layer, ...changed });
  }

  missingStates(trace) {
    if (!this.isLive) {
      return Promise.reject(new ApiError("the vectors of a text this long are not in the file", "Shorten the text"));
    }
    const shown = trace.text.flatMap((token, index) => (token.start < token.end ? [index] : []));
    return postStates({ ...tokensOf(trace), shown, intervention: trace.json.intervention });
  }

  /** Queries and keys of one head. */
  neurons(trace, site, signal) {
    return postNeurons(this.calls, { ...tokensOf(trace), ...site, intervention: trace.json.intervention }, signal);
  }
}

/** What a trace is of: an image, a sound, or tokens. */
function inputOf(trace) {
  if (trace.json.mel) return { request: trace.json.request };
  return trace.json.picture ? { image: trace.json.request.image } : tokensOf(trace);
}

/** The tokens that a trace is of, as requests have them. */
export function tokensOf(trace) {
  const ids = (tokens) => tokens.map((token) => token.id);
  return trace.text ? { ids: ids(trace.text) } : { source: ids(trace.source), target: ids(trace.target) };
}
