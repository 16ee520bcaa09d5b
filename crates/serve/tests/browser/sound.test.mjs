// The explorer of a speech recogniser: what it shows is what `polyhead inspect --out x.json` has and `polyhead transcribe` writes.

import { test } from "node:test";
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { basename } from "node:path";
import { pathToFileURL } from "node:url";
import { explore, inspectSound, numbers, scratch, transcribed, weight } from "./program.mjs";
import { browser, open, shoot, view } from "./page.mjs";
import { randomSoundModel, sound } from "./random_sounds.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const VIEWS = ["sound", "model", "heat-map"];

function made(t) {
  const folder = scratch(t);
  randomSoundModel(folder);
  return folder;
}

/** Gives a file to the page, and waits for its trace. */
async function hear(page, path) {
  await page.locator(".status").filter({ hasText: "tokens." }).waitFor();
  await page.locator("input[type=file]").setInputFiles(path);
  await page.locator(".status").filter({ hasText: `${basename(path)}: ` }).waitFor();
}

/** Waits until the readout has a text. */
async function says(page, text) {
  const readout = page.locator("#view-sound .readout");
  await readout.filter({ hasText: text }).waitFor({ timeout: 5000 }).catch(async () => {
    assert.fail(`${await readout.textContent()} has no ${text}`);
  });
}

/** What the readout says of a token. */
function said(trace, layer, head, token) {
  const columns = trace.frames.tokens.length - 1;
  const weights = Array.from({ length: columns }, (_, column) => weight(trace, "cross", layer, head, token, column));
  const best = [...weights.keys()].sort((a, b) => weights[b] - weights[a]).slice(0, 3);
  const named = best.map((column) => `${(column * trace.step).toFixed(2)} s (${weights[column].toFixed(4)})`);
  return `${trace.target.tokens[token].label} attends most to ${named.join(", ")}`;
}

test("tokens, words and frames agree with the trace in a file", async (t) => {
  const [model, folder] = [made(t), scratch(t)];
  const path = sound(folder);
  const trace = inspectSound(folder, model, path);
  const page = await open(await browser(t), await explore(t, model));
  await hear(page, path);
  const box = page.locator("#view-sound");

  await t.test("tokens of each head", async () => {
    const tokens = box.locator(".stage button.token");
    assert.equal(await tokens.count(), trace.target.tokens.length);
    for (const [layer, head, token] of [[1, 0, 0], [0, 1, 2], [1, 1, trace.target.tokens.length - 1]]) {
      await box.getByRole("radiogroup", { name: "Layer" }).getByRole("radio", { name: String(layer), exact: true }).click();
      await box.getByRole("radiogroup", { name: "Head" }).getByRole("radio", { name: String(head), exact: true }).click();
      await tokens.nth(token).click();
      await says(page, said(trace, layer, head, token));
      assert.equal(await box.locator(".token.chosen").count(), 1);
    }
    await box.locator(".stage button.token").first().focus();
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("Enter");
    await says(page, said(trace, 1, 1, 1));
  });

  await t.test("words with their times", async () => {
    // The command reads what follows the first complete segment again.
    const { words } = transcribed(model, path)[0];
    const shown = await box.locator(".words .word").evaluateAll((nodes) => nodes.map((node) => [...node.children].map((own) => own.textContent)));
    assert.ok(words.length > 0 && words.length <= shown.length);
    assert.equal(shown.length, trace.said.length);
    words.forEach(({ word, start, end }, at) => {
      assert.deepEqual(shown[at], [word, `${start.toFixed(2)}–${end.toFixed(2)} s`]);
    });
    await box.locator(".words .word").last().click();
    await says(page, `is said from ${trace.said.at(-1).start.toFixed(2)} s to`);
    assert.ok(await box.locator(".range").isVisible());
  });

  await t.test("frames", async () => {
    const [columns, bands] = trace.mel.shape;
    assert.equal(columns, trace.frames.tokens.length - 1);
    const size = await box.locator(".frames canvas").first().evaluate((canvas) => [canvas.width, canvas.height]);
    assert.deepEqual(size, [columns, bands]);
    // The darkest pixel is the largest number.
    const data = numbers(trace.mel);
    const most = data.indexOf(Math.max(...data));
    const at = [Math.floor(most / bands), bands - 1 - (most % bands)];
    const colour = await box.locator(".frames canvas").first().evaluate((canvas, place) => {
      const copy = new OffscreenCanvas(1, 1);
      const context = copy.getContext("2d", { willReadFrequently: true });
      context.drawImage(canvas, ...place, 1, 1, 0, 0, 1, 1);
      return [...context.getImageData(0, 0, 1, 1).data];
    }, at);
    assert.deepEqual(colour, [9, 55, 82, 255]);
  });

  await t.test("all heads, and the heat-map", async () => {
    await view(page, "model");
    assert.equal(await page.locator("#view-model .thumb").count(), 4);
    await page.getByLabel("cross, layer 0, head 1").click();
    await page.waitForURL(/#heat-map$/);
    await page.locator("#view-heat-map .map-box").focus();
    for (const key of ["ArrowDown", "ArrowRight", "ArrowRight"]) await page.keyboard.press(key);
    const shown = Number(await page.locator("#view-heat-map .readout strong").textContent());
    assert.ok(Math.abs(shown - weight(trace, "cross", 0, 1, 1, 2)) < 6e-5, `${shown}`);
  });
  assert.deepEqual(page.faults, []);
});

test("settings, notes and broken files", async (t) => {
  const [model, folder] = [made(t), scratch(t)];
  const page = await open(await browser(t), await explore(t, model));
  await hear(page, sound(folder, { name: "stereo.wav", seconds: 3, rate: 22050, channels: 2 }));
  const status = page.locator(".status");
  await status.filter({ hasText: "2 channels, mixed to one; 22050 samples per second, resampled to 16000." }).waitFor();
  await status.filter({ hasText: "The first 2 s at most are shown" }).waitFor();
  const asked = [];
  page.on("request", (request) => asked.push(JSON.parse(request.postData() ?? "{}")));
  await page.getByLabel("Language").selectOption({ label: "German" });
  await page.getByLabel("Write English").check();
  await status.filter({ hasText: "stereo.wav: " }).waitFor();
  assert.deepEqual(
    asked.map(({ language, translate }) => [language, translate]),
    [["de", false], ["de", true]],
  );
  for (const [bytes, text] of [
    [Buffer.from("ID3abcdefgh"), "an MP3 file, expected WAV"],
    [Buffer.from("RIFF....WAVE"), "no format and no samples"],
  ]) {
    await page.locator("input[type=file]").setInputFiles({ name: "<b>.wav", mimeType: "audio/wav", buffer: bytes });
    await page.locator(".status.bad").filter({ hasText: text }).waitFor();
    await page.getByText("Nothing to show").or(page.locator("#view-sound .sound-view[hidden]")).first().waitFor({ state: "attached" });
  }
  await page.getByRole("button", { name: "three beeps" }).click();
  await status.filter({ hasText: "three beeps: 2.00 s" }).waitFor();
  assert.deepEqual(page.faults, []);
});

for (const [width, colorScheme] of [
  [1280, "light"],
  [360, "dark"],
]) {
  test(`views of sounds fit ${width} pixels, ${colorScheme}, and axe-core finds no violations`, async (t) => {
    const page = await open(await browser(t), await explore(t, made(t)), { width, colorScheme });
    await hear(page, sound(scratch(t)));
    await page.evaluate(AXE);
    for (const id of VIEWS) {
      await view(page, id);
      if (id === "sound") await page.locator("#view-sound .words .word").first().click();
      const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(over <= 0, `${id} overflows by ${over} pixels`);
      const { violations } = await page.evaluate(() => window.axe.run(document));
      const faults = violations.map(({ id: rule, nodes }) => [rule, nodes.slice(0, 3).map((node) => [node.html, node.failureSummary])]);
      assert.deepEqual(faults, [], `${id}: ${JSON.stringify(faults, null, 1)}`);
      await shoot(page, `sound-${id}-${width}-${colorScheme}`);
    }
    assert.deepEqual(page.faults, []);
  });
}

test("a page in a file has the views, and asks for nothing", async (t) => {
  const [model, folder] = [made(t), scratch(t)];
  const path = sound(folder);
  const file = inspectSound(folder, model, path, { name: "page.html" });
  const page = await open(await browser(t), pathToFileURL(file).href);
  await says(page, "attends most to");
  for (const id of VIEWS) {
    await view(page, id);
    assert.ok((await page.locator("main").innerText()).length > 50, id);
  }
  assert.deepEqual(page.asked, [pathToFileURL(file).href]);
  assert.deepEqual(page.faults, []);
});
