// The explorer of an image classifier: what it shows is what `polyhead inspect --image --out x.json` has.

import { test } from "node:test";
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { basename } from "node:path";
import { pathToFileURL } from "node:url";
import { explore, inspectImage, numbers, scratch } from "./program.mjs";
import { browser, open, shoot, view } from "./page.mjs";
import { picture, randomImageModel } from "./random_images.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const VIEWS = ["image", "heads", "heat-map"];
const close = (found, expected, tolerance = 6e-5) =>
  assert.ok(Math.abs(found - expected) <= tolerance, `${found} is not ${expected}`);

function made(t) {
  const folder = scratch(t);
  randomImageModel(folder);
  return folder;
}

/** Gives a file to the page, and waits for its trace. */
async function see(page, path) {
  await page.locator(".status").filter({ hasText: "patches." }).waitFor();
  await page.locator("input[type=file]").setInputFiles(path);
  await page.locator(".status").filter({ hasText: `${basename(path)}: the model reads` }).waitFor();
}

/** The three best patches of a row of weights, as the readout names them. */
function named(weights, across) {
  const best = [...weights.keys()].sort((a, b) => weights[b] - weights[a]).slice(0, 3);
  return best.map((patch) => `${Math.floor(patch / across)},${patch % across} (${weights[patch].toFixed(4)})`).join(", ");
}

/** The weights of a token on all patches. */
function row(trace, layer, head, token) {
  const { weights, heads } = trace.attention.find((own) => own.layer === layer);
  const [, rows, columns] = weights.shape;
  const from = (heads.indexOf(head) * rows + token) * columns;
  return numbers(weights).subarray(from + trace.learned_tokens, from + columns);
}

const readout = (page) => page.locator("#view-image .readout");

/** Waits until the readout has a text. */
async function says(page, text) {
  await readout(page).filter({ hasText: text }).waitFor({ timeout: 5000 }).catch(async () => {
    assert.fail(`${await readout(page).textContent()} has no ${text}`);
  });
}

/** The colour of the middle of a patch, as the canvas has it. */
function colour(page, patch, side) {
  return page.locator("#view-image .picture canvas").evaluate(
    (canvas, [[down, across], own]) => {
      const at = [across, down].map((place) => Math.floor((place + 0.5) * own));
      // A copy, since canvases that are read often are warned about.
      const copy = new OffscreenCanvas(1, 1);
      const context = copy.getContext("2d", { willReadFrequently: true });
      context.drawImage(canvas, ...at, 1, 1, 0, 0, 1, 1);
      return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);
    },
    [patch, side],
  );
}

test("classes, heads, rollout and patches agree with the trace in a file", async (t) => {
  const [model, folder] = [made(t), scratch(t)];
  const path = picture(folder);
  const trace = inspectImage(folder, model, path);
  const page = await open(await browser(t), await explore(t, model));
  await see(page, path);

  await t.test("classes", async () => {
    const list = page.locator("#view-image .alternatives");
    assert.deepEqual(await list.locator(".pick").allTextContents(), trace.classes.map((own) => own.label));
    const shares = await list.locator(".number").allTextContents();
    trace.classes.forEach((own, place) => close(parseFloat(shares[place].replace("<", "")) / 100, own.probability, 6e-4));
  });

  await t.test("heads and rollout", async () => {
    const box = page.locator("#view-image");
    for (const [layer, head] of [[0, 0], [2, 3]]) {
      await box.getByRole("radiogroup", { name: "Layer" }).getByRole("radio", { name: String(layer), exact: true }).click();
      await box.getByRole("radiogroup", { name: "Head" }).getByRole("radio", { name: String(head), exact: true }).click();
      await says(page, `The class token attends most to patches ${named(row(trace, layer, head, 0), 8)}`);
    }
    await box.getByRole("radio", { name: "mean" }).click();
    const mean = new Float32Array(64);
    for (let head = 0; head < 4; head += 1) row(trace, 2, head, 0).forEach((weight, at) => (mean[at] += weight / 4));
    await says(page, named(mean, 8).split(" ")[0]);
    await box.getByRole("radio", { name: "rollout" }).click();
    await says(page, named(numbers(trace.rollout.encoder).subarray(1, 65), 8));
    assert.ok(!(await box.getByRole("radiogroup", { name: "Layer" }).isVisible()));
    await box.getByRole("radio", { name: "image alone" }).click();
    await says(page, "The image as the model sees it.");
  });

  await t.test("the picture is dark where weights are small", async () => {
    const box = page.locator("#view-image");
    const plain = await colour(page, [3, 4], 8);
    await box.getByRole("radio", { name: "attention" }).click();
    await box.getByRole("radiogroup", { name: "Head" }).getByRole("radio", { name: "1", exact: true }).click();
    const weights = row(trace, 2, 1, 0);
    await says(page, named(weights, 8));
    // Pixel 4 of 8 is half a pixel from the centre, so its neighbours count a little.
    const most = Math.max(...weights);
    const at = (down, across) => weights[down * 8 + across] / most;
    const mix = (down) => at(down, 4) * 0.9375 + at(down, 5) * 0.0625;
    const share = 0.12 + 0.88 * (mix(3) * 0.9375 + mix(4) * 0.0625);
    const found = await colour(page, [3, 4], 8);
    found.forEach((value, channel) => close(value, plain[channel] * share, 1.01));
  });

  await t.test("a patch by mouse and by keyboard", async () => {
    const canvas = page.locator("#view-image .picture canvas");
    const { width, height } = await canvas.boundingBox();
    await canvas.click({ position: { x: (width * 5.5) / 8, y: (height * 2.5) / 8 } });
    await says(page, `Patch 2,5 attends most to patches ${named(row(trace, 2, 1, 1 + 2 * 8 + 5), 8)}`);
    await page.locator("#view-image .picture").focus();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowRight");
    await says(page, `Patch 3,6 attends most to patches ${named(row(trace, 2, 1, 1 + 3 * 8 + 6), 8)}`);
    await page.keyboard.press("Escape");
    await says(page, "The class token attends most");
    await page.keyboard.press("ArrowUp");
    await says(page, "Patch 0,0 attends most");
    await page.getByRole("button", { name: "Back to the class token" }).click();
    await says(page, "The class token attends most");
  });

  await t.test("all heads, and the heat-map", async () => {
    await view(page, "heads");
    const thumbs = page.locator("#view-heads .thumb");
    assert.equal(await thumbs.count(), 12);
    const entropy = await thumbs.nth(6).locator(".number").textContent();
    assert.equal(entropy, trace.attention[1].entropy[2].toFixed(1));
    await page.getByLabel("encoder, layer 1, head 2").click();
    await page.waitForURL(/#image$/);
    await says(page, named(row(trace, 1, 2, 0), 8));
    await view(page, "heat-map");
    await page.locator("#view-heat-map .map-box").focus();
    for (const key of ["ArrowDown", "ArrowDown", "ArrowRight"]) await page.keyboard.press(key);
    close(Number(await page.locator("#view-heat-map .readout strong").textContent()), row(trace, 1, 2, 2)[0]);
  });
  assert.deepEqual(page.faults, []);
});

test("files are dropped in, and broken ones are said", async (t) => {
  const [model, folder] = [made(t), scratch(t)];
  const path = picture(folder, "<img src=x>.png", [40, 200]);
  const page = await open(await browser(t), await explore(t, model));
  await see(page, picture(folder));
  await view(page, "heads");
  const drop = (name, bytes) =>
    page.evaluate(
      ([own, base64]) => {
        const data = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
        const transfer = new DataTransfer();
        transfer.items.add(new File([data], own, { type: "image/png" }));
        const options = { dataTransfer: transfer, bubbles: true, cancelable: true };
        document.querySelector("main").dispatchEvent(new DragEvent("drop", options));
      },
      [name, bytes.toString("base64")],
    );
  await drop(basename(path), readFileSync(path));
  await page.locator(".status").filter({ hasText: "<img src=x>.png: the model reads the class token and 8 × 8 patches." }).waitFor();
  const file = readFileSync(path);
  for (const [bytes, text] of [
    [file.subarray(0, 60), "a damaged image"],
    [Buffer.from("GIF89a"), "an unknown format, expected PNG or JPEG"],
  ]) {
    await drop("broken.png", bytes);
    await page.locator(".status.bad").filter({ hasText: text }).waitFor();
    await page.getByText("Nothing to show: the model has not seen an image.").waitFor();
  }
  const bomb = Buffer.from(file);
  bomb.writeUInt32BE(60_000, 16);
  bomb.writeUInt32BE(60_000, 20);
  await drop("bomb.png", bomb);
  await page.locator(".status.bad").waitFor();
  // The page goes on.
  await page.getByRole("button", { name: "stripes" }).click();
  await page.locator(".status").filter({ hasText: "stripes: the model reads" }).waitFor();
  assert.equal(await page.locator("#view-heads .thumb").count(), 12);
  // Chromium reports each refused request as an error of its console only where the status says so: these are lines of JSON.
  assert.deepEqual(page.faults, []);
});

for (const [width, colorScheme] of [
  [1280, "light"],
  [360, "dark"],
]) {
  test(`views of images fit ${width} pixels, ${colorScheme}, and axe-core finds no violations`, async (t) => {
    const page = await open(await browser(t), await explore(t, made(t)), { width, colorScheme });
    await see(page, picture(scratch(t)));
    await page.evaluate(AXE);
    for (const id of VIEWS) {
      await view(page, id);
      if (id === "image") {
        await page.locator("#view-image .picture").focus();
        await page.keyboard.press("ArrowDown");
        await says(page, "Patch 0,0");
      }
      const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(over <= 0, `${id} overflows by ${over} pixels`);
      const { violations } = await page.evaluate(() => window.axe.run(document));
      const faults = violations.map(({ id: rule, nodes }) => [rule, nodes.slice(0, 3).map((node) => [node.html, node.failureSummary])]);
      assert.deepEqual(faults, [], `${id}: ${JSON.stringify(faults, null, 1)}`);
      await shoot(page, `image-${id}-${width}-${colorScheme}`);
    }
    assert.deepEqual(page.faults, []);
  });
}

test("a page in a file has the views, and asks for nothing", async (t) => {
  const [model, folder] = [made(t), scratch(t)];
  const path = picture(folder);
  const trace = inspectImage(folder, model, path);
  const file = inspectImage(folder, model, path, { name: "page.html" });
  const page = await open(await browser(t), pathToFileURL(file).href);
  const best = named(row(trace, 2, 0, 0), 8).split(" ")[0];
  await says(page, `The class token attends most to patches ${best}`);
  for (const id of VIEWS) {
    await view(page, id);
    assert.ok((await page.locator("main").innerText()).length > 50, id);
  }
  assert.equal(await page.locator("#view-heads .thumb").count(), 12);
  assert.deepEqual(page.asked, [pathToFileURL(file).href]);
  assert.deepEqual(page.faults, []);
  // What was not selected is not there, and says so.
  const part = inspectImage(folder, model, path, { name: "part.html", options: ["--layers", "1", "--heads", "0,2"] });
  const other = await open(await browser(t), pathToFileURL(part).href);
  await says(other, "The class token attends most");
  await other.getByRole("radiogroup", { name: "Layer" }).getByRole("radio", { name: "0", exact: true }).click();
  await says(other, "This attention is not in the file");
  assert.deepEqual(other.faults, []);
});
