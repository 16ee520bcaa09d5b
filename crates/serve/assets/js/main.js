// The start: asks what model there is, or finds a trace in the page itself, and builds the frame with its views.

import { element } from "./dom.js";
import { App } from "./app.js";
import { frame } from "./frame.js";
import { getModel } from "./api.js";
import { sentenceBar } from "./sentence.js";
import { translateView } from "./views/translate.js";
import { headsView } from "./views/heads.js";
import { modelView } from "./views/model.js";
import { neuronsView } from "./views/neurons.js";
import { heatMapView } from "./views/heat_map.js";
import { beamView } from "./views/beam.js";
import { interveneView } from "./views/intervene.js";
import { lessonsView } from "./views/lessons.js";

const views = [translateView, headsView, modelView, neuronsView, heatMapView, beamView, interveneView, lessonsView];

async function start() {
  const kept = document.getElementById("trace");
  if (kept) {
    const { model, trace } = JSON.parse(kept.textContent);
    const app = new App({ model, isLive: false });
    app.show(trace);
    frame(
      app,
      views.filter((view) => !view.needsModel),
      null,
    );
    return;
  }
  const app = new App({ model: await getModel(), isLive: true });
  const sentence = sentenceBar(app);
  frame(app, views, sentence.node);
  sentence.start("The cat ate the mouse.");
}

start().catch((error) => {
  document.body.append(
    element(
      "main",
      {},
      element("p", { class: "status bad", role: "alert" }, error.message),
      element("p", {}, error.hint ?? ""),
    ),
  );
});
