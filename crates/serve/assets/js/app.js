// What all views share: the model, the sentence that was asked about and its trace. Views listen; nobody else stores.

import { Refused, postAttention, streamTrace } from "./api.js";
import { Trace } from "./trace.js";

export class App {
  constructor({ model, isLive }) {
    Object.assign(this, { model, isLive, trace: null, request: null, listeners: new Map(), running: null });
    // What several views look at, so that changing views keeps the place.
    this.look = { kind: null, layer: null, head: 0 };
  }

  on(event, listener) {
    this.listeners.set(event, [...(this.listeners.get(event) ?? []), listener]);
  }

  tell(event, detail) {
    (this.listeners.get(event) ?? []).forEach((listener) => listener(detail));
  }

  /** Takes a trace in. */
  show(json) {
    this.trace = new Trace(json, (trace, kind, layer) => this.missing(trace, kind, layer));
    this.lookAtWhatThereIs();
    this.tell("trace", this.trace);
  }

  /** Keeps the place that is looked at, unless this trace does not have it. */
  lookAtWhatThereIs() {
    const [first] = this.trace.json.attention;
    const site = this.trace.alignmentSite;
    if (!site) return;
    this.look.kind ??= site.kind;
    if (!this.isLive && first && !this.trace.has(this.look.kind, this.look.layer ?? site.layer)) {
      Object.assign(this.look, { kind: first.kind, layer: first.layer, head: first.heads[0] });
    }
    this.look.layer = Math.min(this.look.layer ?? site.layer, this.trace.layers(this.look.kind) - 1);
    this.look.head = Math.min(this.look.head, this.trace.headCount(this.look.kind) - 1);
  }

  /** Translates and looks: `{text, from, to, beam_size, prefix}`. A newer request ends an older one. */
  async run(request) {
    this.running?.abort();
    const running = new AbortController();
    this.running = running;
    this.request = request;
    this.tell("started", request);
    try {
      const json = await streamTrace(request, (growth) => this.tell("growth", growth), running.signal);
      if (this.running !== running) return;
      this.running = null;
      this.show(json);
      this.tell("ended", null);
    } catch (error) {
      if (error.name === "AbortError" || this.running !== running) return;
      this.running = null;
      this.tell("ended", error);
    }
  }

  missing(trace, kind, layer) {
    if (!this.isLive) {
      return Promise.reject(
        new Refused("this attention is not in the file", "polyhead inspect --out keeps what its options name"),
      );
    }
    const ids = (tokens) => tokens.map((token) => token.id);
    return postAttention({
      source: ids(trace.source),
      target: ids(trace.target),
      kind,
      layer,
      intervention: trace.json.intervention,
    });
  }
}
