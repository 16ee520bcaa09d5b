// The input bar for a model that reads a text: the text, settings, examples, and a status line.

import { element, replace } from "./dom.js";
import { errorText } from "./api.js";
import { arrive } from "./frame.js";

/**
 * The bar; it runs requests of `app` and shows their status. `settings` are nodes beside the examples, which are
 * `{ name, text, view, claim }`; `request(text)` makes the request, `choose(example)` sets the settings, `summary(app)` is the
 * status after a request.
 */
export function textBar(app, { placeholder, settings, examples, request, choose, summary }) {
  const text = element("textarea", {
    rows: 1,
    maxlength: app.model.limits.text,
    "aria-label": "Text",
    placeholder,
    spellcheck: "false",
    dir: "auto",
  });
  const button = element("button", { class: "primary", type: "submit" }, "Read");
  const claim = element("p", { class: "claim", role: "status" });
  const outcome = element("div", { class: "outcome" }, claim);
  const status = element("p", { class: "status", role: "status", "aria-live": "polite" });
  const example = (own) => element("button", { type: "button", class: "example", onclick: () => show(own) }, own.name);
  const form = element(
    "form",
    {
      class: "sentence",
      onsubmit: (event) => {
        event.preventDefault();
        send();
      },
    },
    text,
    element("div", { class: "go" }, button),
    element(
      "div",
      { class: "settings" },
      settings,
      element("div", { class: "examples", role: "group", "aria-label": "Examples" }, examples.map(example)),
    ),
  );
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      send();
    }
  });
  function send() {
    app.place = { position: 0, token: null };
    return app.run(request(text.value));
  }
  async function show(own, begun = location.hash) {
    text.value = own.text;
    choose(own);
    await send();
    if (!app.trace || app.request.text !== own.text) return;
    const found = await own.claim?.(app);
    replace(claim, found ?? null);
    arrive(app, own.view, begun);
  }
  const say = (message, isBad = false) => {
    status.classList.toggle("bad", isBad);
    replace(status, message);
  };
  app.on("started", ({ text: own }) => {
    // A view may have changed the text.
    if (own && text.value !== own) text.value = own;
    replace(claim);
    say("Reading …");
  });
  app.on("growth", (growth) => say(`${growth.tokens} new tokens …`));
  app.on("ended", (error) => {
    if (!error) say(summary(app));
    else say(errorText(error), true);
  });
  return {
    node: element("section", { "aria-label": "Text" }, form, status, outcome),
    // A link to a view shows that view.
    start: () => show(examples[0], ""),
  };
}
