// The entry point: fetches the model's description, or reads a trace embedded in the page, and builds the frame with its views.

import { element } from "./dom.js";
import { App } from "./app.js";
import { frame } from "./frame.js";
import { errorText, getModel } from "./api.js";
import { sentenceBar } from "./sentence.js";
import { promptBar } from "./prompt.js";
import { readerBar } from "./reader.js";
import { imageBar } from "./image_bar.js";
import { soundBar } from "./sound_bar.js";
import { translateView } from "./views/translate.js";
import { headsView } from "./views/heads.js";
import { modelView } from "./views/model.js";
import { neuronsView } from "./views/neurons.js";
import { heatMapView } from "./views/heat_map.js";
import { beamView } from "./views/beam.js";
import { interveneView } from "./views/intervene.js";
import { lessonsView } from "./views/lessons.js";
import { textView } from "./views/text.js";
import { lensView } from "./views/lens.js";
import { contributionsView } from "./views/contributions.js";
import { interveneTextView } from "./views/intervene_text.js";
import { encoderView } from "./views/encoder.js";
import { vectorsView } from "./views/vectors.js";
import { interveneEncoderView } from "./views/intervene_encoder.js";
import { imageView } from "./views/image.js";
import { imageHeadsView } from "./views/image_heads.js";
import { soundView } from "./views/sound.js";

const views = [translateView, headsView, modelView, neuronsView, heatMapView, beamView, interveneView, lessonsView];

const attentionViews = [headsView, modelView, neuronsView, heatMapView];

/** The views of a language model, as far as it has what they show. */
function textViews({ sites, has_lens: hasLens, has_contributions: hasContributions }) {
  const hasAttention = sites.length > 0;
  return [
    textView,
    hasLens && lensView,
    hasContributions && contributionsView,
    ...(hasAttention ? attentionViews : []),
    hasAttention && interveneTextView,
    lessonsView,
  ].filter(Boolean);
}

/** The views of an encoder. */
function encoderViews({ sites }) {
  const hasAttention = sites.length > 0;
  const own = hasAttention ? [vectorsView, ...attentionViews, interveneEncoderView] : [];
  return [encoderView, ...own, lessonsView];
}

/** The views of an image classifier. */
const imageViews = [imageView, imageHeadsView, heatMapView];

/** The views of a speech recogniser. */
const soundViews = [soundView, modelView, heatMapView];

/** The views of the model of `app`. */
function viewsOf(app) {
  if (app.isImage) return imageViews;
  if (app.isSound) return soundViews;
  if (app.isText) return textViews(app.model);
  return app.isEncoder ? encoderViews(app.model) : views;
}

/** The input bar of the model of `app`. */
function barOf(app) {
  if (app.isImage) return imageBar(app);
  if (app.isSound) return soundBar(app);
  if (app.isText) return promptBar(app);
  return app.isEncoder ? readerBar(app) : sentenceBar(app);
}

/** What a page in a file knows about its model. */
function described(model, trace) {
  if (trace.picture) return { ...model, task: "image" };
  if (trace.mel) return { ...model, task: "speech" };
  if (trace.head) return { ...model, task: "encoder", head: trace.head, mask: null };
  if (!trace.predictions) return model;
  const task = "language-model";
  return { ...model, task, has_lens: trace.lens !== null, has_contributions: trace.contributions !== null };
}

async function start() {
  const embedded = document.getElementById("trace");
  if (embedded) {
    const { model: own, trace } = JSON.parse(embedded.textContent);
    const model = described(own, trace);
    const app = new App({ model, isLive: false });
    app.show(trace);
    frame(
      app,
      viewsOf(app).filter((view) => !view.needsModel),
      null,
    );
    return;
  }
  const app = new App({ model: await getModel(), isLive: true });
  const sentence = barOf(app);
  frame(app, viewsOf(app), sentence.node);
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
