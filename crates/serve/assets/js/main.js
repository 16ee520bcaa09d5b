// The entry point: fetches the model's description, or reads a trace embedded in the page, and builds the frame with its views.

import { element } from "./dom.js";
import { App } from "./app.js";
import { frame } from "./frame.js";
import { errorText, getModel } from "./api.js";
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
  const embedded = document.getElementById("trace");
  if (embedded) {
    const { model, trace } = JSON.parse(embedded.textContent);
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
  await sentence.start();
}

start().catch((error) => {
  document.body.append(
    element(
      "main",
      {},
      element("p", { class: "status bad", role: "alert" }, errorText(error)),
    ),
  );
});
