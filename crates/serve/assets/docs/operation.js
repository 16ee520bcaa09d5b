// One endpoint: its purpose, fields, example commands and responses.

import { element, freshId, replace } from "../js/dom.js";
import { command } from "./curl.js";
import { limits, resolved, rows, typeText } from "./schema.js";

const NAMES = {
  "application/json": "JSON",
  "application/x-www-form-urlencoded": "form",
  "multipart/form-data": "multipart",
  "image/jpeg": "JPEG",
  "image/png": "PNG",
};

/** The article of an endpoint. */
export function operation(call, description, base) {
  const { operationId, method, path, summary, parameters = [], requestBody, responses } = call;
  return element(
    "article",
    { class: "panel call", id: operationId, "aria-labelledby": `${operationId}-title` },
    element(
      "h3",
      { id: `${operationId}-title` },
      element("span", { class: `verb ${method}` }, method),
      element("code", {}, path),
      element("span", { class: "summary" }, summary),
    ),
    element("p", {}, prose(call.description)),
    parameters.length ? table("Parameters", parameterRows(parameters, description)) : null,
    requestBody ? bodies(requestBody, description) : null,
    commands(call, base).map(([title, text]) => copied(title, text)),
    element("h4", {}, "Responses"),
    Object.entries(responses).map(([status, own]) => answer(status, resolved(own, description), description)),
  );
}

/** Running text with code between backticks. */
export function prose(text) {
  return text.split(/`([^`]+)`/).map((part, index) => (index % 2 ? element("code", {}, part) : part));
}

/** A text in a box of its own, with a button that copies it. */
export function copied(title, text) {
  const button = element("button", { type: "button", class: "copy" }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      // Without a secure origin there is no clipboard: the text is selected instead.
      getSelection().selectAllChildren(box);
      button.textContent = "Selected";
    }
    setTimeout(() => replace(button, "Copy"), 2000);
  });
  const box = element("code", {}, text);
  return element(
    "figure",
    { class: "example-box" },
    element("figcaption", {}, title, button),
    element("pre", { tabindex: "0", "aria-label": title }, box),
  );
}

/** The request bodies of an endpoint; those with the same fields share a table. */
function bodies(requestBody, description) {
  const byFields = new Map();
  for (const [media, { schema }] of Object.entries(requestBody.content)) {
    const key = schema.$ref ?? media;
    byFields.set(key, { schema, names: [...(byFields.get(key)?.names ?? []), NAMES[media] ?? media] });
  }
  return [...byFields.values()].map(({ schema, names }) =>
    table(`Fields as ${names.join(" or ")}`, rows(schema, description)),
  );
}

function parameterRows(parameters, description) {
  return parameters.map(({ name, required, schema, description: text }) => ({
    name,
    type: typeText(schema, description),
    limits: limits(schema, description),
    isRequired: required,
    text,
  }));
}

function table(title, fields) {
  const id = freshId("fields");
  const row = ({ name, type, limits: own, isRequired, text }) =>
    element(
      "tr",
      {},
      element(
        "th",
        { scope: "row" },
        element("code", {}, name),
        isRequired ? element("span", { class: "required" }, "required") : null,
      ),
      element("td", {}, type),
      element("td", {}, prose(text), own.length ? element("span", { class: "limits" }, own.join("; ")) : null),
    );
  return element(
    "div",
    { class: "scrolls", role: "region", tabindex: "0", "aria-labelledby": id },
    element("table", { class: "fields" }, element("caption", { id }, title), element("tbody", {}, fields.map(row))),
  );
}

/** Example commands as [title, command]. */
function commands(call, base) {
  const { parameters = [], requestBody } = call;
  if (!requestBody) {
    const inPath = parameters.filter((own) => own.in === "path");
    const path = inPath.reduce((text, own) => text.replace(`{${own.name}}`, own.example), call.path);
    const isQuery = parameters.some((own) => own.in === "query" && own.required);
    const fields = { q: "Kedi fareyi yedi.", source: "tr", target: "en" };
    const names = parameters.filter((own) => own.required).map((own) => own.name);
    const example = Object.fromEntries(Object.entries(fields).filter(([name]) => names.includes(name)));
    return [["Try it", command(base, { ...call, path }, isQuery ? "query" : null, example)]];
  }
  return Object.entries(requestBody.content).flatMap(([media, own]) => {
    const found = own.examples ? Object.values(own.examples) : [{ summary: "Try it", value: own.example }];
    return found.map(({ summary, value }) => [`${summary}, ${NAMES[media]}`, command(base, call, media, value)]);
  });
}

function answer(status, own, description) {
  const parts = Object.entries(own.content ?? {}).map(([media, { schema, example, examples }]) => {
    const fields = rows(schema, description);
    const found = examples ? Object.values(examples) : example === undefined ? [] : [{ value: example }];
    return [
      element("p", { class: "quiet" }, element("code", {}, media)),
      fields.length ? table(`Fields of ${status}`, fields) : null,
      found.map(({ summary, value }) =>
        copied(summary ?? "Example", typeof value === "string" ? value : JSON.stringify(value, null, 2)),
      ),
    ];
  });
  const names = Object.keys(own.headers ?? {});
  return element(
    "details",
    { class: "answer" },
    element("summary", {}, element("code", { class: status < 400 ? "good" : "poor" }, status), prose(own.description)),
    names.length ? element("p", { class: "quiet" }, "Header: ", prose(`\`${names.join("`, `")}\``), ".") : null,
    parts,
  );
}
