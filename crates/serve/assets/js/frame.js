// The frame of the page: masthead with tabs, one section for each view, and the choice of view. The address after `#` names
// the view, so that links and the back button work.

import { drawn, element, replace } from "./dom.js";
import { grouped } from "./format.js";
import { arrowKeys, rove } from "./keys.js";
import { themeSwitch } from "./theme.js";

/** Builds the page from views `{ id, title, about, build }`; `sentence` is shown above those that need a trace. */
export function frame(app, views, sentence) {
  const tabs = views.map((view) =>
    element(
      "button",
      {
        class: "tab",
        role: "tab",
        type: "button",
        id: `tab-${view.id}`,
        "aria-controls": `view-${view.id}`,
        onclick: () => {
          location.hash = view.id;
        },
      },
      view.title,
    ),
  );
  const bar = element("div", { class: "tabs", role: "tablist", "aria-label": "Views" }, tabs);
  arrowKeys(bar, () => tabs, { vertical: false, onMove: (tab) => tab.click() });
  const panels = views.map((view) =>
    element("section", {
      class: "view",
      id: `view-${view.id}`,
      role: "tabpanel",
      "aria-labelledby": `tab-${view.id}`,
      tabindex: "-1",
      hidden: true,
    }),
  );
  const built = new Map();
  const done = app.isImage ? "seen an image" : app.isSound ? "heard a sound" : `${app.model.task ? "read" : "decoded"} a text`;
  const blank = element("div", { class: "empty" }, element("p", {}, `Nothing to show: the model has not ${done}.`));
  let current = null;

  function show() {
    const [id, ...rest] = location.hash.slice(1).split("/");
    const index = Math.max(
      views.findIndex((view) => view.id === id),
      0,
    );
    const view = views[index];
    tabs.forEach((tab, own) => tab.setAttribute("aria-selected", String(own === index)));
    rove(tabs, tabs[index]);
    tabs[index].scrollIntoView({ block: "nearest", inline: "nearest" });
    panels.forEach((panel, own) => {
      panel.hidden = own !== index;
    });
    if (sentence) sentence.hidden = view.hasNoSentence === true;
    document.title = `${view.title} · Polyhead`;
    current = view;
    if (!built.has(view)) {
      built.set(view, view.build(app));
      const about = element("header", {}, element("h2", {}, view.title), element("p", {}, view.about));
      replace(panels[index], about, built.get(view).node);
    }
    update(rest);
  }
  function update(rest = []) {
    const view = built.get(current);
    if (!view) return;
    // A figure of an earlier text never stays.
    const isBlank = !app.trace && !current.showsAlways;
    view.node.hidden = isBlank;
    blank.hidden = !isBlank;
    if (isBlank) panels[views.indexOf(current)].append(blank);
    view.update?.(app.trace, rest);
  }

  const masthead = element(
    "header",
    { class: "masthead" },
    element("div", { class: "brand" }, mark(), element("h1", {}, "Polyhead")),
    bar,
    themeSwitch(() => update()),
  );
  document.body.append(masthead, element("main", {}, sentence, panels), footer(app));
  app.on("trace", () => update());
  addEventListener("hashchange", show);
  show();
}

/** Shows the view of an example that was chosen at the address `begun`; who has gone to another view meanwhile stays there. */
export function arrive(app, view, begun) {
  if (location.hash === `#${view}`) app.emit("focus");
  else if (location.hash === begun) location.hash = view;
}

function footer(app) {
  const { name, parameters, sites, d_model: width } = app.model;
  const stacks = [...new Map(sites.map((site) => [site.stack, site])).values()];
  const heads = [...new Set(stacks.map((stack) => stack.n_heads))].join(" and ");
  const layers = stacks.length ? `${stacks.map((stack) => stack.n_layers).join(" + ")} layers, ${heads} heads, ` : "";
  const sizes = `${layers}width ${width}`;
  const count = parameters
    ? `, ${parameters < 1e6 ? grouped(parameters) : `${(parameters / 1e6).toFixed(1)} million`} parameters`
    : "";
  return element(
    "footer",
    { class: "footer" },
    `Model ${name}: ${sizes}${count}. Everything here runs on this machine.`,
  );
}

function mark() {
  const line = (d, stroke) => drawn("path", { d, stroke });
  return drawn(
    "svg",
    { viewBox: "0 0 32 32", "aria-hidden": "true" },
    drawn("rect", { width: 32, height: 32, rx: 7, fill: "#0f4c63" }),
    drawn(
      "g",
      { fill: "none", "stroke-width": 2.4, "stroke-linecap": "round" },
      line("M8 9C16 9 16 23 24 23", "#f2b45c"),
      line("M8 16C16 16 16 9 24 9", "#7fd1c4"),
      line("M8 23C16 23 16 16 24 16", "#e7eef0"),
    ),
  );
}
