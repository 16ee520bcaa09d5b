// The entry point of a file with a comparison of words in context.

import { comparisonFigure } from "./comparison.js";
import { element } from "./dom.js";
import { themeSwitch } from "./theme.js";

function start() {
  const { name, comparison } = JSON.parse(document.getElementById("comparison").textContent);
  const figure = comparisonFigure();
  const words = comparison.words.join(", ");
  const masthead = element(
    "header",
    { class: "masthead" },
    element("div", { class: "brand" }, element("h1", {}, "Polyhead")),
    element("div", { class: "tabs" }),
    themeSwitch(() => figure.draw()),
  );
  const about = element("header", {}, element("h2", {}, `${words} in context`), element("p", {}, `Model ${name}.`));
  document.body.append(masthead, element("main", {}, element("section", { class: "view lesson" }, about, figure.node)));
  document.title = `${words} · Polyhead`;
  figure.show(comparison);
}

start();
