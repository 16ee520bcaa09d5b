// The explorer of an encoder: every view shows the numbers of `polyhead inspect`, fits the page, and passes axe-core.

import { test } from "node:test";
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { compared, explore, inspectEncoder, numbers, scratch } from "./program.mjs";
import { browser, open, read, shoot, view } from "./page.mjs";
import { randomEncoder } from "./random_encoder.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const TEXT = "I bank only at my local bank.";
const VIEWS = ["text", "vectors", "heads", "model", "neurons", "heat-map", "intervene"];
const minus = (text) => Number(text.replace("−", "-"));
const close = (found, expected, tolerance = 6e-4) =>
  assert.ok(Math.abs(found - expected) <= tolerance, `${found} is not ${expected}`);

/** A random encoder with a head. */
function made(t, head) {
  const folder = scratch(t);
  randomEncoder(folder, head);
  return folder;
}

/** Percentages of bars are the probabilities. */
async function assertShares(list, probabilities) {
  const shares = await list.locator(".number").allTextContents();
  probabilities.forEach((own, place) => close(parseFloat(shares[place].replace("<", "")) / 100, own));
}

/** A row of a packed matrix. */
function row(packed, index) {
  const [, columns] = packed.shape;
  return [...numbers(packed).subarray(index * columns, (index + 1) * columns)];
}

/** The weight of a pair of positions. */
function weight(trace, layer, head, from, to) {
  const { weights, heads } = trace.attention.find((own) => own.layer === layer);
  const [, rows, columns] = weights.shape;
  return numbers(weights)[(heads.indexOf(head) * rows + from) * columns + to];
}

test("views of an encoder without a head agree with the trace in a file", async (t) => {
  const model = made(t, "none");
  const trace = inspectEncoder(scratch(t), model, TEXT);
  const page = await open(await browser(t), await explore(t, model));
  await read(page, TEXT);
  const tokens = page.locator("#view-text .stage button.token");
  const banks = trace.text.tokens.flatMap((token, at) => (token.label === "bank" ? [at] : []));
  assert.equal(banks.length, 2);

  await t.test("similar tokens", async () => {
    assert.equal(await tokens.count(), trace.text.tokens.length);
    await tokens.nth(banks[0]).click();
    await page.getByText("Similar to bank, layer 2").waitFor();
    const cosines = row(trace.states.at(-1).similarities, banks[0])
      .filter((_, at) => at !== banks[0] && trace.text.tokens[at].start < trace.text.tokens[at].end)
      .sort((a, b) => b - a);
    const shown = await page.locator("#view-text .choices.sides .bar .number").allTextContents();
    shown.forEach((own, place) => close(minus(own), cosines[place], 6e-3));
  });

  await t.test("vectors", async () => {
    await view(page, "vectors");
    const box = page.locator("#view-vectors");
    await box.locator(".scatter .point").first().waitFor();
    // Special tokens have no place.
    assert.equal(await box.locator(".scatter .point").count(), trace.text.tokens.length - 2);
    for (const layer of [0, 2]) {
      await box.getByLabel("Layer", { exact: true }).fill(String(layer));
      assert.equal(await box.locator("output").first().textContent(), layer ? "layer 1" : "embedding");
      const expected = trace.states[layer];
      const said = await box.locator(".readout").textContent();
      const best = row(expected.similarities, banks[0]).filter((_, at) => at !== banks[0]);
      assert.ok(said.includes(Math.max(...best).toFixed(2)), said);
      const share = await box.locator(".plane .number").textContent();
      close(parseFloat(share), 100 * expected.variance, 0.51);
    }
    await box.getByRole("radio", { name: "cosines" }).click();
    await box.locator(".map-box").focus();
    for (let step = 0; step < 2; step += 1) await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowRight");
    const shown = minus(await box.locator(".readout strong").textContent());
    close(shown, row(trace.states[2].similarities, 2)[1], 6e-5);
    await box.getByRole("radio", { name: "points" }).click();
    await box.locator(".scatter .picks").last().click();
    assert.equal(await box.locator(".token.chosen").count(), 1);
  });

  await t.test("heads, heat-map and neurons", async () => {
    await view(page, "heads");
    await page.locator(".swatch").first().dblclick();
    await page.locator(".column.left .token").nth(3).hover();
    const said = await page.locator("#view-heads .quiet").last().textContent();
    const weights = trace.text.tokens.map((_, key) => weight(trace, 2, 0, 3, key));
    assert.ok(said.includes(Math.max(...weights).toFixed(2)), said);
    await view(page, "model");
    await page.getByLabel("encoder, layer 0, head 1").click();
    await page.waitForURL(/#heat-map$/);
    await page.locator("#view-heat-map .map-box").focus();
    for (let step = 0; step < 4; step += 1) await page.keyboard.press("ArrowDown");
    close(Number(await page.locator("#view-heat-map .readout strong").textContent()), weight(trace, 0, 1, 4, 0), 6e-5);
    await view(page, "neurons");
    await page.locator("#pair-share").waitFor();
    const shares = await page.locator(".neurons .share .number").allTextContents();
    shares.forEach((share, key) => close(Number(share), weight(trace, 0, 1, 0, key)));
  });

  await t.test("intervene", async () => {
    await view(page, "intervene");
    await page.getByLabel("encoder, layer 1, head 0: 1.00").click();
    const changed = inspectEncoder(scratch(t), model, TEXT, { options: ["--without", "encoder:1:0"] });
    const [a, b] = [trace, changed].map((own) => [...numbers(own.vector)]);
    const dot = (x, y) => x.reduce((sum, own, at) => sum + own * y[at], 0);
    const expected = (dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b))).toFixed(4);
    await page.waitForFunction((own) => document.getElementById("vector-cosine")?.textContent === own, expected);
  });
  assert.deepEqual(page.faults, []);
});

test("masked words, classes and entities agree with the trace in a file", async (t) => {
  const found = await browser(t);
  await t.test("masked words", async () => {
    const model = made(t, "masked_words");
    const page = await open(found, await explore(t, model));
    await read(page, TEXT);
    const trace = inspectEncoder(scratch(t), model, TEXT);
    const tokens = page.locator("#view-text .stage button.token");
    await tokens.nth(6).click();
    const list = page.locator("#view-text .choices.sides .panel").first();
    await assertShares(list, trace.masked_words[6].alternatives.map((own) => Math.exp(own.log_probability)));
    // The token is masked in the text, and read again.
    await page.getByRole("button", { name: "Mask this token" }).click();
    const masked = "I bank only at my [MASK] bank.";
    await page.waitForFunction(() => document.querySelector("#view-text .token.chosen")?.textContent === "[MASK]");
    assert.equal(await page.locator(".sentence textarea").inputValue(), masked);
    const after = inspectEncoder(scratch(t), model, masked);
    await assertShares(list, after.masked_words[6].alternatives.map((own) => Math.exp(own.log_probability)));
    assert.deepEqual(page.faults, []);
  });
  await t.test("classes", async () => {
    const model = made(t, "classes");
    const page = await open(found, await explore(t, model));
    await read(page, TEXT);
    const { classes } = inspectEncoder(scratch(t), model, TEXT);
    const list = page.locator("#view-text .choices").first();
    assert.deepEqual(await list.locator(".pick").allTextContents(), classes.map((own) => own.label));
    await assertShares(list, classes.map((own) => own.probability));
    assert.deepEqual(page.faults, []);
  });
  await t.test("entities", async () => {
    const model = made(t, "token_classes");
    const page = await open(found, await explore(t, model));
    await read(page, TEXT);
    const trace = inspectEncoder(scratch(t), model, TEXT);
    const list = page.locator("#view-text .choices").first();
    await assertShares(list, trace.entities.map((own) => own.probability));
    await page.locator("#view-text .stage button.token").nth(2).click();
    const own = page.locator("#view-text .choices.sides .panel").first();
    await assertShares(own, trace.token_classes[2].map((each) => each.probability));
    assert.deepEqual(page.faults, []);
  });
});

for (const [width, colorScheme] of [
  [1280, "light"],
  [360, "dark"],
]) {
  test(`views of encoders fit ${width} pixels, ${colorScheme}, and axe-core finds no violations`, async (t) => {
    const found = await browser(t);
    for (const head of ["none", "classes", "token_classes", "masked_words"]) {
      const page = await open(found, await explore(t, made(t, head)), { width, colorScheme });
      await read(page, "The bank’s 東京 <b>dogs</b>, my local bank.");
      await page.evaluate(AXE);
      const lessons = head === "none" ? ["lessons/two-vectors", "lessons/embeddings"] : [];
      for (const id of [...VIEWS, ...lessons]) {
        await view(page, id);
        if (id === "lessons/two-vectors") await page.locator("#comparison-cosines").waitFor();
        const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(over <= 0, `${id} overflows by ${over} pixels`);
        const { violations } = await page.evaluate(() => window.axe.run(document));
        const faults = violations.map(({ id: rule, nodes }) => [
          rule,
          nodes.slice(0, 3).map((node) => [node.html, node.failureSummary]),
        ]);
        assert.deepEqual(faults, [], `${head} ${id}: ${JSON.stringify(faults, null, 1)}`);
        await shoot(page, `encoder-${head}-${id.replace("/", "-")}-${width}-${colorScheme}`);
      }
      assert.deepEqual(page.faults, []);
      await page.close();
    }
  });
}

test("pages in files have the views, and ask for nothing", async (t) => {
  const found = await browser(t);
  const folder = scratch(t);
  for (const head of ["none", "masked_words"]) {
    const file = inspectEncoder(folder, made(t, head), TEXT, { name: "page.html" });
    const page = await open(found, pathToFileURL(file).href);
    for (const id of VIEWS.filter((own) => own !== "intervene")) {
      await view(page, id);
      assert.ok((await page.locator("main").innerText()).length > 50, id);
    }
    await view(page, "vectors");
    assert.equal(await page.locator("#view-vectors .scatter .point").count(), 8);
    await view(page, "lessons/two-vectors");
    await page.getByText("a file without a model").waitFor();
    assert.deepEqual(page.asked, [pathToFileURL(file).href]);
    assert.deepEqual(page.faults, []);
  }
  const model = made(t, "none");
  const texts = [TEXT, "the bank of the river </script>"];
  const file = compared(folder, model, "bank", texts, "comparison.html");
  const expected = compared(folder, model, "bank", texts);
  for (const colorScheme of ["light", "dark"]) {
    const page = await open(found, pathToFileURL(file).href, { colorScheme });
    const cells = await page.locator("#comparison-cosines tbody tr").last().locator("td").allTextContents();
    const last = expected.layers.at(-1);
    [last.similarities[0][1], last.similarities[0][2], last.similarities[1][2], last.others].forEach((own, place) =>
      close(minus(cells[place]), own),
    );
    await page.evaluate(AXE);
    const { violations } = await page.evaluate(() => window.axe.run(document));
    assert.deepEqual(violations.map(({ id }) => id), []);
    await shoot(page, `comparison-${colorScheme}`);
    assert.deepEqual(page.asked, [pathToFileURL(file).href]);
    assert.deepEqual(page.faults, []);
  }
});
