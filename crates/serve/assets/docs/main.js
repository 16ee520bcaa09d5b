// The API documentation page: reads openapi.json and shows every endpoint with its fields, examples and responses.

import { element } from "../js/dom.js";
import { themeSwitch } from "../js/theme.js";
import { attempt } from "./attempt.js";
import { operation, prose } from "./operation.js";

const METHODS = ["post", "get"];

async function start() {
  const response = await fetch("openapi.json");
  if (!response.ok) throw new Error(`openapi.json: status ${response.status}`);
  const description = await response.json();
  const base = new URL("./", document.baseURI).href.replace(/\/$/, "");
  const calls = Object.entries(description.paths).flatMap(([path, methods]) =>
    METHODS.filter((method) => methods[method]).map((method) => ({ ...methods[method], path, method })),
  );
  const groups = description.tags.map((tag) => ({ tag, calls: calls.filter((call) => call.tags.includes(tag.name)) }));
  document.body.append(
    masthead(),
    element(
      "div",
      { class: "pages" },
      contents(groups),
      element(
        "main",
        { id: "calls" },
        element("h2", {}, `${description.info.title} ${description.info.version}`),
        element("p", {}, prose(description.info.description)),
        attempt(description, base),
        groups.map(({ tag, calls: own }) =>
          element(
            "section",
            { class: "group" },
            element("h2", {}, tag.name),
            element("p", { class: "quiet" }, prose(tag.description)),
            own.map((call) => operation(call, description, base)),
          ),
        ),
      ),
    ),
  );
  // The target of the address exists only now.
  if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
}

function masthead() {
  return element(
    "header",
    { class: "masthead" },
    element("a", { class: "skip", href: "#calls" }, "Skip to the endpoints"),
    element("div", { class: "brand" }, element("h1", {}, "Polyhead")),
    element(
      "nav",
      { class: "tabs places", "aria-label": "Pages" },
      element("a", { href: "./" }, "Explorer"),
      element("a", { href: "openapi.json" }, "openapi.json"),
    ),
    themeSwitch(() => {}),
  );
}

/** The list of all endpoints at the side. */
function contents(groups) {
  const link = (call) =>
    element(
      "li",
      {},
      element("a", { href: `#${call.operationId}` }, element("span", { class: "verb" }, call.method), call.path),
    );
  const list = ({ tag, calls }) => [element("h3", {}, tag.name), element("ul", {}, calls.map(link))];
  return element("nav", { class: "contents", "aria-label": "Endpoints" }, groups.map(list));
}

start().catch((error) => {
  document.body.append(element("main", {}, element("p", { class: "status bad", role: "alert" }, error.message)));
});
