// What the program is asked over HTTP. Errors come as `{error, hint}`.

/** An error with a hint of what to do. */
export class Refused extends Error {
  constructor(message, hint) {
    super(message);
    this.hint = hint;
  }
}

/** What model is served, and its limits. */
export async function getModel() {
  return (await checked(await fetch("api/model"))).json();
}

export async function postTrace(request, signal) {
  return (await checked(await post("api/trace", request, signal))).json();
}

export async function postAttention(request) {
  return (await checked(await post("api/attention", request))).json();
}

export async function postNeurons(request, signal) {
  return (await checked(await post("api/neurons", request, signal))).json();
}

/** A trace whose translation is told as it grows: `onGrowth({text, tokens})`. Lines of JSON, the trace last. */
export async function streamTrace(request, onGrowth, signal) {
  const response = await checked(await post("api/translate", request, signal));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const rest = [];
  for (;;) {
    const { done, value } = await reader.read();
    const parts = (value ?? "").split("\n");
    for (const part of parts.slice(0, -1)) {
      rest.push(part);
      const line = JSON.parse(rest.splice(0).join(""));
      if (line.error) throw new Refused(line.error, line.hint);
      if (line.trace) return line.trace;
      onGrowth(line);
    }
    if (parts.at(-1)) rest.push(parts.at(-1));
    if (done) throw new Refused("the answer broke off", "is polyhead explore still running?");
  }
}

function post(path, body, signal) {
  const headers = { "content-type": "application/json" };
  return fetch(path, { method: "POST", headers, body: JSON.stringify(body), signal }).catch((error) => {
    if (error.name === "AbortError") throw error;
    throw new Refused("the program does not answer", "is polyhead explore still running?");
  });
}

async function checked(response) {
  if (response.ok) return response;
  const said = await response.json().catch(() => ({}));
  throw new Refused(said.error ?? `the program answered ${response.status}`, said.hint ?? "");
}
