// Beam: the tree of hypotheses. Each column is a step, best on top; pruned hypotheses are faint, the path of the translation is
// strong.

import { drawn, element, replace } from "../dom.js";
import { checkbox } from "../controls.js";
import { fixed, percent } from "../format.js";
import { fitted } from "../lines.js";
import { byteLabel, pieceLabels, visible } from "../tokens.js";

const [WIDTH, HEIGHT, GAP, ROW] = [138, 34, 44, 46];

export const beamView = {
  id: "beam",
  title: "Beam",
  about:
    "At each step every hypothesis is extended by its most probable tokens, and the best are kept. Numbers are sums of log-probabilities; finished hypotheses are compared by their sum over a length penalty.",
  build,
};

function build(app) {
  const pruned = checkbox("Show pruned hypotheses", true, () => update(app.trace));
  const readout = element("div", { class: "readout below", "aria-live": "polite" });
  const box = element("div", { class: "tree", tabindex: "0", role: "group", "aria-label": "Tree of hypotheses" });
  const legend = element(
    "p",
    { class: "legend quiet" },
    ["best", "kept", "finished", "pruned"].map((name) =>
      element(
        "span",
        { class: name },
        { best: "the translation", kept: "kept", finished: "finished", pruned: "pruned" }[name],
      ),
    ),
  );
  const node = element("div", {}, element("div", { class: "controls" }, pruned.node, legend), box, readout);

  function update(trace) {
    if (!trace) return;
    if (!trace.json.beam) {
      const text = trace.json.given
        ? "The translation was given, so there was no search."
        : app.request?.beam_size === 1
          ? "Greedy decoding follows one hypothesis, so there is no tree. Choose a beam size of 2 or more."
          : "This translation was decoded again with other rules, so that the search alone does not find it. See the notes.";
      replace(box, element("div", { class: "empty" }, element("p", {}, text)));
      readout.textContent = "";
      return;
    }
    const labels = pieceLabels(trace.json.beam.nodes.map((own) => own.piece));
    const before = [];
    const nodes = trace.json.beam.nodes.map((own, index) => {
      before.push(own.parent === null ? [] : [...before[own.parent], trace.json.beam.nodes[own.parent].piece]);
      return { ...own, label: byteLabel(own.piece, before[index]) ?? labels[index] };
    });
    const shown = nodes
      .map((own, index) => ({ ...own, index }))
      .filter((own) => pruned.value || own.fate !== "pruned" || own.best);
    const rank = new Map();
    const counts = [];
    for (const own of shown) {
      rank.set(own.index, counts[own.step] ?? 0);
      counts[own.step] = (counts[own.step] ?? 0) + 1;
    }
    const at = (own) => [own.step * (WIDTH + GAP) + 8, rank.get(own.index) * ROW + 8];
    const lines = shown
      .filter((own) => own.parent !== null)
      .map((own) => edge(at(nodes[own.parent] && { ...nodes[own.parent], index: own.parent }), at(own), own));
    const boxes = shown.map((own) => hypothesis(own, at(own), () => describe(nodes, own)));
    const size = [counts.length * (WIDTH + GAP), Math.max(...counts) * ROW + 16];
    replace(box, drawn("svg", { width: size[0], height: size[1], viewBox: `0 0 ${size[0]} ${size[1]}` }, lines, boxes));
    describe(nodes, shown.findLast((own) => own.best) ?? shown[0]);
  }

  function describe(nodes, own) {
    const path = [];
    for (let node_ = own; node_; node_ = node_.parent === null ? null : nodes[node_.parent]) path.unshift(node_);
    const fate = { kept: "was kept", finished: "is finished", pruned: "was pruned" }[own.fate];
    replace(
      readout,
      element(
        "span",
        { class: "path" },
        path.map((step) => element("span", { class: "token" }, element("bdi", {}, visible(step.label)))),
      ),
      element(
        "span",
        { class: "quiet" },
        ` ${fate}: sum ${fixed(own.sum, 3)}, last token ${percent(Math.exp(own.log_probability))}.`,
      ),
    );
  }
  return { node, update };
}

function edge([x, y], [toX, toY], own) {
  const [from, to, half] = [x + WIDTH, toX, (x + WIDTH + toX) / 2];
  const [start, end] = [y + HEIGHT / 2, toY + HEIGHT / 2];
  return drawn("path", {
    class: `edge ${kind(own)}`,
    d: `M${from} ${start}C${half} ${start} ${half} ${end} ${to} ${end}`,
  });
}

function hypothesis(own, [x, y], onFocus) {
  const label = visible(own.label);
  const short = fitted(label, WIDTH - 64, `14px ${getComputedStyle(document.body).fontFamily}`);
  return drawn(
    "g",
    {
      class: `hypothesis ${kind(own)}`,
      transform: `translate(${x} ${y})`,
      tabindex: "0",
      role: "img",
      "aria-label": `step ${own.step}: ${label}, ${fixed(own.sum, 2)}, ${own.fate}`,
      onfocus: onFocus,
      onpointerenter: onFocus,
    },
    drawn("rect", { width: WIDTH, height: HEIGHT, rx: 7 }),
    drawn("text", { x: 9, y: 22, class: "piece" }, short),
    drawn("text", { x: WIDTH - 8, y: 22, "text-anchor": "end", class: "sum" }, fixed(own.sum, 2)),
  );
}

function kind(own) {
  return own.best ? "best" : own.fate;
}
