// Calls of the explorer's HTTP API. Errors come as `{error, hint}`.

/** An error with a hint. */
export class ApiError extends Error {
  constructor(message, hint) {
    super(message);
    this.hint = hint;
  }
}

/** The message of an error and its hint, as sentences for the page. */
export function errorText(error) {
  return [error.message, error.hint].filter(Boolean).map(sentence).join(" ");
}

/** The description of the model, and its limits. */
export async function getModel() {
  return (await checked(await fetch("api/model"))).json();
}

/** The trace of a segment; null where the model decoded none. */
export async function postTrace(request, signal) {
  return (await (await checked(await post("api/trace", request, signal))).json()).trace;
}

/** Rows of the model's embeddings. */
export async function postEmbeddings(words) {
  return (await checked(await post("api/embeddings", { words }))).json();
}

/** The weights of an attention site; `calls` is the folder of the model's calls. */
export async function postAttention(calls, request) {
  return (await checked(await post(`api/${calls}attention`, request))).json();
}

/** Queries and keys of a head. */
export async function postNeurons(calls, request, signal) {
  return (await checked(await post(`api/${calls}neurons`, request, signal))).json();
}

/** The trace of a text under an encoder. */
export async function postEncoder(request, signal) {
  return (await (await checked(await post("api/encoder/trace", request, signal))).json()).trace;
}

/** The states of tokens under an encoder. */
export async function postStates(request) {
  return (await checked(await post("api/encoder/states", request))).json();
}

/** Words compared in their contexts. */
export async function postCompare(request, signal) {
  return (await checked(await post("api/compare", request, signal))).json();
}

/** The trace of a text under a language model. */
export async function postText(request, signal) {
  return (await (await checked(await post("api/text/trace", request, signal))).json()).trace;
}

/** The logit lens at some positions of a text. */
export async function postLens(request, signal) {
  return (await checked(await post("api/text/lens", request, signal))).json();
}

/** What the layers add to a logit. */
export async function postContributions(request, signal) {
  return (await checked(await post("api/text/contributions", request, signal))).json();
}

/** `{translation, trace}`; reports the growing text to `onGrowth({text, tokens})`. Lines of JSON, the answer last. */
export async function streamTrace(path, request, onGrowth, signal) {
  const response = await checked(await post(path, request, signal));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const rest = [];
  for (;;) {
    const { done, value } = await reader.read();
    const parts = (value ?? "").split("\n");
    for (const part of parts.slice(0, -1)) {
      rest.push(part);
      const line = JSON.parse(rest.splice(0).join(""));
      if (line.error) throw new ApiError(line.error, line.hint);
      if ("trace" in line) return line;
      onGrowth(line);
    }
    if (parts.at(-1)) rest.push(parts.at(-1));
    if (done) throw new ApiError("the connection was lost", "Is polyhead explore still running?");
  }
}

function post(path, body, signal) {
  const headers = { "content-type": "application/json" };
  return fetch(path, { method: "POST", headers, body: JSON.stringify(body), signal }).catch((error) => {
    if (error.name === "AbortError") throw error;
    throw new ApiError("Polyhead is not responding", "Is polyhead explore still running?");
  });
}

async function checked(response) {
  if (response.ok) return response;
  const body = await response.json().catch(() => ({}));
  throw new ApiError(body.error ?? `the server answered with status ${response.status}`, body.hint ?? "");
}

/** A text with a capital first letter and a full stop. */
function sentence(text) {
  const end = /[.?!]$/.test(text) ? "" : ".";
  return `${text[0].toUpperCase()}${text.slice(1)}${end}`;
}
