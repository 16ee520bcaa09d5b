// Every view shows the numbers of `polyhead inspect`.

import { test } from "node:test";
import assert from "node:assert/strict";
import { explore, inspect, scratch, weight } from "./program.mjs";
import { browser, open, translate, view } from "./page.mjs";

const TEXT = "The teacher reads a book today.";
const minus = (text) => Number(text.replace("−", "-"));
const close = (found, expected, tolerance = 6e-4) =>
  assert.ok(Math.abs(found - expected) <= tolerance, `${found} is not ${expected}`);

test("views agree with the trace in a file", async (t) => {
  const folder = scratch(t);
  const trace = inspect(folder, TEXT);
  const page = await open(await browser(t), await explore(t));
  await translate(page, TEXT);

  await t.test("translate", async () => {
    const labels = await page.locator(".stage button.token bdi").allTextContents();
    assert.deepEqual(
      labels,
      trace.target.tokens.map((token) => token.label),
    );
    const shares = await page.locator(".stage button.token").evaluateAll((nodes) => nodes.map((node) => node.title));
    shares.forEach((share, place) =>
      close(parseFloat(share.replace("<", "")) / 100, Math.exp(trace.steps[place].log_probability)),
    );
    await page.locator(".stage button.token").nth(2).hover();
    const readout = await page.locator(".translate .readout").textContent();
    // Alignments are read from the last of the two layers.
    const means = trace.source.tokens.map((_, key) =>
      [0, 1, 2, 3].reduce((sum, head) => sum + weight(trace, "cross", 1, head, 2, key) / 4, 0),
    );
    const best = means.indexOf(Math.max(...means));
    assert.ok(readout.includes(`attends to ${trace.source.tokens[best].label} ${means[best].toFixed(2)}`), readout);
  });

  await t.test("alternatives, and another one decoded from there", async () => {
    await page.locator(".stage button.token").nth(1).click();
    const pieces = await page.locator(".alternatives bdi").allTextContents();
    assert.deepEqual(
      pieces.slice(0, 5),
      trace.steps[1].alternatives.map((other) => other.piece.replace("▁", "")),
    );
    await page.locator(".stage").evaluate((stage) => stage.setAttribute("data-old", "1"));
    await page.locator(".alternatives .pick:not(:disabled)").first().click();
    const other = trace.steps[1].alternatives
      .find((own) => own.id !== trace.target.tokens[1].id)
      .piece.replace("▁", "");
    await page.waitForFunction(
      (label) => document.querySelectorAll(".stage button.token bdi")[1]?.textContent.replace("·", "") === label,
      other,
    );
    assert.equal(await page.locator(".stage button.token bdi").first().textContent(), trace.target.tokens[0].label);
    await translate(page, TEXT);
  });

  await t.test("heads", async () => {
    await view(page, "heads");
    await page.getByRole("radio", { name: "Encoder" }).locator("visible=true").click();
    await page.locator(".swatch").first().waitFor();
    assert.equal(await page.locator(".swatch").count(), trace.model.encoder.n_heads);
    await page.locator(".swatch").first().dblclick();
    await page.locator(".column.left .token").nth(3).hover();
    const readout = await page.locator("#view-heads .quiet").last().textContent();
    const layer = Number(
      await page.locator("#view-heads [role=radiogroup][aria-label=Layer] [aria-checked=true]").textContent(),
    );
    const row = trace.source.tokens.map((_, key) => weight(trace, "encoder", layer, 0, 3, key));
    const best = row.indexOf(Math.max(...row));
    assert.ok(readout.includes(`${trace.source.tokens[best].label} ${row[best].toFixed(2)}`), readout);
  });

  await t.test("model", async () => {
    await view(page, "model");
    const shown = await page.locator(".thumb .number").allTextContents();
    const expected = ["encoder", "decoder", "cross"].flatMap((kind) =>
      trace.attention.filter((own) => own.kind === kind).flatMap((own) => own.entropy),
    );
    assert.equal(shown.length, expected.length);
    shown.forEach((text, place) => close(Number(text), expected[place], 0.051));
    await page.getByLabel("decoder, layer 1, head 2").click();
    await page.waitForURL(/#heat-map$/);
  });

  await t.test("heat-map", async () => {
    await view(page, "heat-map");
    await page.locator(".map-box").focus();
    for (const [row, column] of [
      [0, 0],
      [4, 2],
      [7, 7],
    ]) {
      await page.keyboard.press("Home");
      for (let step = 0; step < 9; step += 1) await page.keyboard.press("ArrowUp");
      for (let step = 0; step < row; step += 1) await page.keyboard.press("ArrowDown");
      for (let step = 0; step < column; step += 1) await page.keyboard.press("ArrowRight");
      close(
        Number(await page.locator("#view-heat-map .readout strong").textContent()),
        weight(trace, "decoder", 1, 2, row, column),
        6e-5,
      );
    }
  });

  await t.test("neurons", async () => {
    await view(page, "neurons");
    await page.locator("#pair-share").waitFor();
    for (const place of [1, 5]) {
      await page.getByLabel("Query token", { exact: true }).selectOption(String(place));
      const shares = await page.locator(".neurons .share .number").allTextContents();
      shares.forEach((share, key) => close(Number(share), weight(trace, "decoder", 1, 2, place, key)));
    }
  });

  await t.test("beam", async () => {
    await view(page, "beam");
    const shown = await page.locator("#view-beam .hypothesis .sum").allTextContents();
    assert.equal(shown.length, trace.beam.nodes.length);
    shown.forEach((text, place) => close(minus(text), trace.beam.nodes[place].sum, 5.1e-3));
    assert.equal(await page.locator("#view-beam .hypothesis.best").count(), trace.target.tokens.length);
  });

  await t.test("intervene", async () => {
    await view(page, "intervene");
    const shows = (score) =>
      page.waitForFunction(
        (text) =>
          document
            .querySelectorAll(".sides .panel")[1]
            ?.querySelector("dd")
            ?.textContent.replace("−", "-")
            .startsWith(text),
        score.toFixed(3),
      );
    await page.getByLabel("cross, layer 0, head 1: 1.00").click();
    const changed = inspect(folder, TEXT, { options: ["--without", "cross:0:1"], name: "changed.json" });
    const facts = page.locator(".sides .panel").nth(1).locator("dd");
    await shows(changed.score);
    close(minus((await facts.nth(1).textContent()).split(" ")[0]), changed.log_probability);
    assert.equal(await page.locator(".sides .plain").nth(1).textContent(), changed.target.text);
    await page.getByLabel("Factor").fill("0.5");
    const half = inspect(folder, TEXT, { options: ["--scale", "cross:0:1=0.5"], name: "half.json" });
    await shows(half.score);
  });
  assert.deepEqual(page.faults, []);
});

test("lessons show the lectures' numbers", async (t) => {
  const page = await open(await browser(t), await explore(t));
  const texts = (selector) => page.locator(selector).allTextContents();
  const set = async (label, value) => page.getByLabel(label).fill(String(value));
  await view(page, "lessons/scaled");
  assert.deepEqual(await texts("#scaled-steps td:not(.corner)"), ["112.00", "14.00", "0.88", "96.00", "12.00", "0.12"]);
  await view(page, "lessons/lookup");
  assert.deepEqual(await texts("#lookup-weights .number"), ["0.167", "0.167", "0.500", "0.167"]);
  assert.deepEqual(await texts("#lookup-output"), ["[0.500, 0.500]"]);
  await set("Query [0, x]: x", 10);
  assert.deepEqual(await texts("#lookup-output"), ["[0.000, 1.000]"]);
  await view(page, "lessons/self-attention");
  await set("Scale of the keys", 10);
  await page.getByRole("radio", { name: "3 S = Q·Kᵀ" }).click();
  assert.deepEqual(
    (await texts("#view-lessons .numbers:last-child td:not(.corner)")).slice(-16),
    "10.0 10.0 0.0 10.0 10.0 10.0 0.0 10.0 0.0 0.0 10.0 0.0 10.0 10.0 0.0 10.0".split(" "),
  );
  await view(page, "lessons/masks");
  assert.deepEqual(await texts("#mask-pairs"), ["78"]);
  await view(page, "lessons/beam");
  assert.deepEqual(await texts("#beam-results li"), ["I am a student <eos> 0.2916", "thanks <eos> 0.2250"]);
  await set("beam_size", 1);
  assert.deepEqual(await texts("#beam-results li"), ["thanks <eos> 0.2250"]);
  await view(page, "lessons/smoothing");
  for (let turn = 0; turn < 6; turn += 1) await page.getByRole("button", { name: "Train 10 steps" }).click();
  assert.match(await page.locator(".lesson .result").textContent(), /“I am a student <eos>”/);
  await page.getByRole("button", { name: "The lecture's table" }).click();
  const table = await texts("#smoothing-outputs td:not(.corner)");
  assert.deepEqual(
    [
      [0, 2],
      [1, 1],
      [2, 0],
      [3, 4],
      [4, 5],
    ].map(([row, column]) => table[row * 6 + column]),
    ["0.93", "0.80", "0.99", "0.94", "0.98"],
  );
  await view(page, "lessons/cache");
  assert.deepEqual(await texts("#cache-count"), ["10"]);
  await view(page, "lessons/cost");
  assert.deepEqual(await texts("#cost-parameters"), ["1.75 · 10¹¹"]);
  await view(page, "lessons/positions");
  assert.match(await page.locator(".lesson .panel .number").first().textContent(), /position 7: \[0\.657, 0\.754/);
  assert.deepEqual(page.faults, []);
});
