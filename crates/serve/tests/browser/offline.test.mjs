// `polyhead inspect --out x.html`: one file, no server, no network.

import { test } from "node:test";
import assert from "node:assert/strict";
import { statSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { inspect, scratch, weight } from "./program.mjs";
import { browser, open, shoot, view } from "./page.mjs";
import { randomModel } from "./random_model.mjs";

const VIEWS = ["translate", "heads", "model", "neurons", "heat-map", "beam", "lessons/lookup"];

test("a file with one head opens every view", async (t) => {
  const options = ["--kind", "encoder", "--layers", "1", "--heads", "1"];
  const file = inspect(scratch(t), "The teacher reads a book today.", { options, name: "one.html" });
  const page = await open(await browser(t), pathToFileURL(file).href);
  for (const id of VIEWS) {
    await view(page, id);
    assert.ok((await page.locator("main").innerText()).length > 50, id);
  }
  await view(page, "heads");
  assert.equal(await page.locator(".swatch").count(), 1);
  await view(page, "translate");
  assert.match(await page.locator(".translate .readout").textContent(), /not in the file/);
  assert.deepEqual(page.faults, []);
});

test("60 tokens on 6 + 6 layers of 8 heads: under 5 MB, open in under 2 s, no network requests", async (t) => {
  const model = scratch(t);
  randomModel(model);
  const folder = scratch(t);
  const text = `${"The teacher reads a book today. ".repeat(8)}Nobody slept well`.trim();
  const options = ["--target", "Kardeşim pazar günü evin arkasında iyi uyudu. ".repeat(8).trim()];
  const file = inspect(folder, text, { model, options, name: "pair.html" });
  const trace = inspect(folder, text, { model, options });
  assert.ok(
    trace.source.tokens.length >= 60 && trace.target.tokens.length >= 60,
    `${trace.source.tokens.length} and ${trace.target.tokens.length} tokens`,
  );
  const size = statSync(file).size;
  const found = await browser(t);
  await (await open(found, "about:blank")).close();
  const start = Date.now();
  const page = await open(found, pathToFileURL(file).href);
  await page.locator(".stage button.token").first().waitFor();
  const time = Date.now() - start;
  t.diagnostic(
    `${size} bytes, ${trace.source.tokens.length} + ${trace.target.tokens.length} tokens, open in ${time} ms`,
  );
  assert.ok(size < 5e6, `${size} bytes`);
  assert.ok(time < 2000, `${time} ms`);
  for (const id of VIEWS) {
    await view(page, id);
    await shoot(page, `offline-${id.replace("/", "-")}`);
  }
  await view(page, "heat-map");
  await page.locator(".map-box").focus();
  await page.keyboard.press("ArrowDown");
  const shown = Number(await page.locator("#view-heat-map .readout strong").textContent());
  assert.ok(Math.abs(shown - weight(trace, "cross", 4, 0, 1, 0)) < 1e-3);
  await view(page, "neurons");
  await page.locator("#pair-share").waitFor();
  const shares = await page.locator(".neurons .share .number").allTextContents();
  shares.forEach((share, key) => assert.ok(Math.abs(Number(share) - weight(trace, "cross", 4, 0, 0, key)) < 2e-3));
  assert.deepEqual(page.asked, [pathToFileURL(file).href]);
  assert.deepEqual(page.faults, []);
});
