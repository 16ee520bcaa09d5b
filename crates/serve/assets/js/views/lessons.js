// Lessons: the worked examples of the lectures, each a short interactive page.

import { element, replace } from "../dom.js";
import { scaledLesson } from "../lessons/scaled.js";
import { lookupLesson } from "../lessons/lookup.js";
import { selfAttentionLesson } from "../lessons/self_attention.js";
import { multiHeadLesson } from "../lessons/multi_head.js";
import { twoVectorsLesson } from "../lessons/two_vectors.js";
import { positionsLesson } from "../lessons/positions.js";
import { masksLesson } from "../lessons/masks.js";
import { beamLesson } from "../lessons/beam.js";
import { smoothingLesson } from "../lessons/smoothing.js";
import { embeddingsLesson } from "../lessons/embeddings.js";
import { contextsLesson } from "../lessons/contexts.js";
import { ratiosLesson } from "../lessons/ratios.js";
import { cacheLesson } from "../lessons/cache.js";
import { costLesson } from "../lessons/cost.js";

const LESSONS = [
  embeddingsLesson,
  contextsLesson,
  ratiosLesson,
  lookupLesson,
  scaledLesson,
  selfAttentionLesson,
  multiHeadLesson,
  positionsLesson,
  twoVectorsLesson,
  masksLesson,
  smoothingLesson,
  beamLesson,
  cacheLesson,
  costLesson,
];

export const lessonsView = {
  id: "lessons",
  title: "Lessons",
  about: "Attention from the ground up, in fourteen short pages. Every number is recomputed as you move the controls.",
  hasNoSentence: true,
  showsAlways: true,
  build,
};

function build(app) {
  const links = LESSONS.map((lesson, index) =>
    element(
      "a",
      { href: `#lessons/${lesson.id}`, id: `lessons/${lesson.id}` },
      element("span", { class: "number" }, String(index + 1)),
      lesson.title,
    ),
  );
  const page = element("article", { class: "lesson" });
  const node = element("div", { class: "lessons" }, element("nav", { "aria-label": "Lessons" }, links), page);
  const built = new Map();
  let current = null;

  function update(_trace, [id] = []) {
    const index = id
      ? Math.max(
          LESSONS.findIndex((lesson) => lesson.id === id),
          0,
        )
      : Math.max(LESSONS.indexOf(current), 0);
    const lesson = LESSONS[index];
    links.forEach((link, own) =>
      own === index ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current"),
    );
    if (!built.has(lesson)) built.set(lesson, lesson.build(app));
    const { node: body, draw } = built.get(lesson);
    if (current !== lesson) {
      current = lesson;
      const [before, after] = [LESSONS[index - 1], LESSONS[index + 1]];
      replace(
        page,
        element("h3", {}, lesson.title),
        body,
        element(
          "nav",
          { class: "turn", "aria-label": "Other lessons" },
          before ? element("a", { href: `#lessons/${before.id}` }, `← ${before.title}`) : element("span", {}),
          after ? element("a", { href: `#lessons/${after.id}` }, `${after.title} →`) : element("span", {}),
        ),
      );
      links[index].scrollIntoView({ block: "nearest", inline: "nearest" });
    }
    draw?.();
  }
  return { node, update };
}
