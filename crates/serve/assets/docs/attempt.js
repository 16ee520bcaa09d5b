// A form that calls POST /translate and shows the response.

import { element, freshId, replace } from "../js/dom.js";
import { languageName } from "../js/format.js";
import { command } from "./curl.js";
import { copied } from "./operation.js";
import { resolved } from "./schema.js";

const CALL = { method: "post", path: "/translate" };

/** The form, with the response below. */
export function attempt(description, base) {
  const schema = (name) => resolved({ $ref: `#/components/schemas/${name}` }, description);
  const text = element("textarea", { id: freshId("try"), rows: "3", required: true }, "The cat ate the mouse.");
  const source = choice("From", schema("SourceCode").enum, "auto");
  const targets = schema("LanguageCode").enum;
  const target = choice("To", targets, targets.includes("tr") ? "tr" : targets[0]);
  const format = choice("Format", ["text", "html"], "text");
  const key = element("input", { id: freshId("try"), type: "text", autocomplete: "off", spellcheck: "false" });
  const button = element("button", { class: "primary", type: "submit" }, "Translate");
  const result = element("div", { class: "answered", "aria-live": "polite" });
  const request = () => {
    const fields = { q: text.value, source: source.value(), target: target.value(), format: format.value() };
    return key.value ? { ...fields, api_key: key.value } : fields;
  };
  const form = element(
    "form",
    { class: "attempt" },
    element("label", { class: "visually-hidden", for: text.id }, "Text"),
    text,
    element(
      "div",
      { class: "controls" },
      source.node,
      target.node,
      format.node,
      element("div", { class: "control" }, element("label", { for: key.id }, "API key, if required"), key),
      button,
    ),
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    replace(result, ...(await send(request(), base)));
    button.disabled = false;
  });
  // Enter alone makes a new line.
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  return element("section", { class: "panel", id: "try" }, element("h3", {}, "Try it"), form, result);
}

async function send(request, base) {
  const shown = copied("Command", command(base, CALL, "application/json", request));
  const start = performance.now();
  try {
    const headers = { "content-type": "application/json" };
    const response = await fetch("translate", { method: "POST", headers, body: JSON.stringify(request) });
    const time = Math.round(performance.now() - start);
    const answer = await response.json();
    const text = response.ok ? answer.translatedText : `${answer.error} (${answer.hint})`;
    return [
      element("p", { class: response.ok ? "translated" : "status bad", dir: "auto" }, text),
      element("p", { class: "quiet" }, `Status ${response.status}, ${time} ms`),
      copied("Response", JSON.stringify(answer, null, 2)),
      shown,
    ];
  } catch {
    return [element("p", { class: "status bad" }, "The server is not responding."), shown];
  }
}

/** A labelled list to choose from. */
function choice(label, values, chosen) {
  const name = (value) => {
    if (value === "auto") return "detect";
    return /^[a-z]{2,3}$/.test(value) && label !== "Format" ? languageName(value) : value;
  };
  const select = element(
    "select",
    { id: freshId("try") },
    values.map((value) => element("option", { value, selected: value === chosen }, name(value))),
  );
  const node = element("div", { class: "control" }, element("label", { for: select.id }, label), select);
  return { node, value: () => select.value };
}
