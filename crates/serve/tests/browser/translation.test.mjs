// The explorer's translation is that of `polyhead translate`, with the default model; what the model read is shown.

import { test } from "node:test";
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { defaultModel, explore, languageModel, tinyModel, translated } from "./program.mjs";
import { browser, open, shoot, view } from "./page.mjs";

/** Texts of every kind, with their languages; see texts.py. */
const TEXTS = readFileSync(join(import.meta.dirname, "../golden/texts.tsv"), "utf8")
  .split("\n")
  .slice(0, -1)
  .map((line) => line.split("\t").map((field) => field.replaceAll("\\n", "\n")))
  .map(([text, from, to]) => ({ text, from, to }));

const NAMES = { "": "automatic", en: "English", de: "German", fr: "French", tr: "Turkish" };

test("200 texts of every kind have the translation of polyhead translate", async (t) => {
  const address = await explore(t, defaultModel);
  assert.ok(TEXTS.length >= 200);
  for (const languages of new Set(TEXTS.map(({ from, to }) => `${from} ${to}`))) {
    const texts = TEXTS.filter((own) => `${own.from} ${own.to}` === languages);
    const [from, to] = languages.split(" ");
    const expected = translated(
      texts.map((own) => own.text),
      { from, to, beam: 1 },
    );
    for (const [index, { text }] of texts.entries()) {
      const request = { text, from: from || null, to: to || null, beam_size: 1, without_weights: true };
      const answer = await fetch(`${address}api/translate`, { method: "POST", body: JSON.stringify(request) });
      const last = JSON.parse((await answer.text()).trimEnd().split("\n").at(-1));
      assert.equal(last.translation?.text, expected[index], `${JSON.stringify(text)} ${languages}`);
    }
  }
});

test("the page shows the translation, what the model read, and notes; errors clear the figure", async (t) => {
  const page = await open(await browser(t), await explore(t, defaultModel));
  await page.locator(".stage button.token").first().waitFor();
  const [from, to] = [page.getByLabel("From", { exact: true }), page.getByLabel("To", { exact: true })];
  const run = async (text, languages) => {
    const answered = page.waitForResponse((response) => response.url().endsWith("api/translate"));
    await from.selectOption({ label: NAMES[languages.from] });
    await to.selectOption({ label: NAMES[languages.to] });
    await to.dispatchEvent("change");
    await answered;
    await page.locator("textarea").fill(text);
    await page.getByRole("button", { name: "Translate", exact: true }).click();
    await page.waitForFunction(() => !/^(Translating|\d+ tokens) …$/.test(document.querySelector(".status").textContent));
    await page.waitForTimeout(50);
    return page.locator("#translation").textContent();
  };
  for (const [text, languages] of [
    ["MAIL ANN@EXAMPLE.ORG BEFORE 5 PM! 😀", { from: "en", to: "de" }],
    ["Ich habe den Schlüssel verloren. Wo ist er?", { from: "de", to: "fr" }],
    ["The <b>cat</b> ate 3.5 kg of mice at https://example.org/x.", { from: "en", to: "tr" }],
    ["", { from: "en", to: "de" }],
    ["Привет, как дела?", { from: "", to: "de" }],
  ]) {
    const [expected] = translated([text], { ...languages, beam: 5 });
    assert.equal(await run(text, languages), expected, text);
  }
  assert.match(await page.locator(".notes").textContent(), /Cyrillic script, which this model does not translate/);

  await run("MAIL ANN@EXAMPLE.ORG BEFORE 5 PM!", { from: "en", to: "de" });
  const read = await page.locator("#read .read").textContent();
  assert.ok(read.includes("‹0›") && !read.includes("MAIL"), read);
  assert.ok((await page.locator(".stage .tokens").first().textContent()).includes("‹0›"));
  await shoot(page, "prepared");

  await run("Guten Morgen. Wie geht es dir?", { from: "de", to: "fr" });
  const segments = await page.locator(".outcome option").allTextContents();
  assert.equal(segments.length, 4);
  assert.ok(segments[1].includes("hop 2 English → French"), segments[1]);
  await page.getByLabel("Segment", { exact: true }).selectOption("3");
  await page.waitForFunction(() => /How/.test(document.querySelector(".stage .tokens")?.textContent ?? ""));

  await page.route("**/api/translate", (route) =>
    route.fulfill({ status: 503, contentType: "application/json", body: '{"error":"out of order","hint":"wait"}' }),
  );
  for (const id of ["translate", "heads", "model", "neurons", "heat-map", "beam", "intervene"]) await view(page, id);
  await page.getByRole("button", { name: "Translate", exact: true }).click();
  await page.getByText("Out of order. Wait.").waitFor();
  for (const id of ["translate", "heads", "model", "neurons", "heat-map", "beam", "intervene"]) {
    await view(page, id);
    const left = page.locator(`#view-${id}`).locator(".token, .thumb, .map, .hypothesis, .numbers").locator("visible=true");
    assert.equal(await left.count(), 0, id);
    assert.match(await page.locator(`#view-${id}`).innerText(), /Nothing to show/, id);
  }
  assert.equal(await page.locator("#translation").locator("visible=true").count(), 0);
  assert.deepEqual(
    page.faults.filter((fault) => !fault.includes("503")),
    [],
  );
});

test("a link to a view shows that view", async (t) => {
  const found = await browser(t);
  for (const [model, id] of [
    [tinyModel, "lessons/lookup"],
    [languageModel, "heads"],
  ]) {
    const page = await open(found, `${await explore(t, model)}#${id}`);
    await page.locator(".status").filter({ hasText: /tokens/ }).first().waitFor({ state: "attached" });
    await page.waitForTimeout(300);
    assert.equal(new URL(page.url()).hash, `#${id}`);
    assert.ok(await page.locator(`#view-${id.split("/")[0]}`).isVisible());
    assert.deepEqual(page.faults, []);
  }
});

test("examples set languages, view, layer and head, and show what they claim", async (t) => {
  const page = await open(await browser(t), await explore(t, defaultModel));
  const choose = async (name) => {
    await page.locator(".claim").evaluate((node) => node.replaceChildren());
    await page.getByRole("button", { name, exact: true }).click();
    await page.locator(".claim:not(:empty)").waitFor();
    await page.waitForTimeout(300);
    return page.locator(".claim").textContent();
  };
  const chosen = (label) =>
    page.locator(`#view-heads [role=radiogroup][aria-label=${label}] [aria-checked=true]`).textContent();
  await page.locator(".claim:not(:empty)").waitFor();
  for (const [name, pattern] of [
    ["what is “it”?", /^“it” attends to “animal” most in encoder layer (\d+), head (\d+): weight ([\d.]+)\.$/],
    ["two banks", /most in encoder layer (\d+), head (\d+): .* the second to \S+ ([\d.]+)\.$/],
  ]) {
    const [, layer, head, weight] = pattern.exec(await choose(name));
    assert.equal(new URL(page.url()).hash, "#heads");
    assert.equal(await chosen("Layer"), layer);
    assert.equal(await chosen("Attention"), "Encoder");
    assert.deepEqual(await page.locator(".swatch[aria-pressed=true] span").allTextContents(), [head]);
    const readout = await page.locator("#view-heads .quiet").last().textContent();
    assert.match(readout, name === "two banks" ? /^bank attends/ : /^it attends/);
    assert.ok(readout.includes(` ${weight}`), readout);
  }
  assert.match(await choose("cat and mouse"), /attends to “mouse” most/);
  assert.match(await page.locator(".translate .readout").textContent(), /attends to mouse/);
  assert.match(await choose("two hops"), /not trained from German into French/);
  assert.match(await page.getByLabel("To", { exact: true }).inputValue(), /^fr/);
  assert.deepEqual(page.faults, []);
});
