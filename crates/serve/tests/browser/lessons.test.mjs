// The lessons compute what the library computes: lessons.json is compared with the library by the test `lessons` of
// polyhead-serve, and here with the modules of the page and with what it shows.

import { test } from "node:test";
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { compared, explore, scratch, tinyModel } from "./program.mjs";
import { browser, open, view } from "./page.mjs";

const LESSONS = JSON.parse(readFileSync(join(import.meta.dirname, "../golden/lessons.json"), "utf8"));
const number = (text) => Number(text.replace("−", "-"));

/** Asserts that numbers are equal as far as they are shown. */
function close(found, expected, tolerance, about) {
  assert.equal(found.length, expected.length, about);
  found.forEach((own, index) =>
    assert.ok(Math.abs(own - expected[index]) <= tolerance, `${about}: ${found} is not ${expected}`),
  );
}

test("lessons show the numbers of the library", async (t) => {
  const page = await open(await browser(t), await explore(t));
  const texts = (selector) => page.locator(selector).locator("visible=true").allTextContents();
  const set = async (label, value) => page.getByLabel(label, { exact: true }).locator("visible=true").fill(String(value));
  const cells = async (id) => (await texts(`#${id} td:not(.corner)`)).map(number);

  await t.test("lookup", async () => {
    await view(page, "lessons/lookup");
    for (const { x, base, weights, output } of LESSONS.lookup) {
      await page.locator(`.lesson [role=radio][data-value="${base}"]`).click();
      await set("Query [0, x]: x", x);
      close((await texts("#lookup-weights .number")).map(number), weights, 6e-4, "weights");
      close(JSON.parse((await texts("#lookup-output"))[0].replaceAll("−", "-")), output, 6e-4, "output");
    }
  });

  await t.test("contexts", async () => {
    await view(page, "lessons/contexts");
    const words = (await texts("#contexts-sentence"))[0].split(" ");
    for (const [position, width, around] of LESSONS.contexts) {
      await page.locator(`.lesson [role=radio][data-value="${position}"]`).locator("visible=true").click();
      await set("Window", width);
      assert.equal((await texts("#contexts-context"))[0], around.map((at) => words[at]).join(", "));
    }
  });

  await t.test("ratios", async () => {
    await view(page, "lessons/ratios");
    close(await cells("ratios-table"), LESSONS.ratios.flat(), 6e-4, "ratios");
  });

  await t.test("scaled", async () => {
    await view(page, "lessons/scaled");
    for (const { given, d, weights, without } of LESSONS.scaled) {
      await set("Score q·k₁ at dₖ = 64", given[0]);
      await set("Score q·k₂ at dₖ = 64", given[1]);
      await set("Dimensions of a key, dₖ", d);
      const shown = await cells("scaled-steps");
      close([shown[2], shown[5]], weights, 6e-3, "weights");
      const [, first, second] = /gives ([\d.]+) and ([\d.]+)/.exec((await texts("#scaled-without"))[0]);
      close([Number(first), Number(second.replace(/\.$/, ""))], without, 6e-5, "without");
      // Scores grow with the number of dimensions.
      assert.ok(Math.abs(shown[0] - given[0] * Math.sqrt(d / 64)) < 6e-3, `${shown}`);
    }
  });

  await t.test("self-attention", async () => {
    await view(page, "lessons/self-attention");
    await page.getByRole("radio", { name: "6 weights · V" }).click();
    for (const { factor, weights, output } of LESSONS.self_attention) {
      await set("Scale of the keys", factor);
      close(await cells("self-weights"), weights, 6e-4, "weights");
      close(await cells("self-output"), output, 6e-4, "output");
      assert.notDeepEqual(await cells("self-output"), (await cells("self-e")).slice(0, 8));
    }
  });

  await t.test("masks", async () => {
    await view(page, "lessons/masks");
    const knobs = page.locator(".lesson .knobs .slider").locator("visible=true");
    for (const { kind, n, w, pairs } of LESSONS.masks) {
      await page.locator(`.lesson [role=radio][data-value="${kind}"]`).click();
      await set("Tokens n", n);
      assert.equal(await knobs.count(), ["full", "causal"].includes(kind) ? 1 : 2, kind);
      if (kind === "padding") await set("Padding tokens", Math.min(w, n - 1));
      else if (!["full", "causal"].includes(kind)) await set("Neighbours on each side, w", w);
      assert.deepEqual(await texts("#mask-pairs"), [String(pairs)], `${kind} ${n} ${w}`);
    }
  });

  await t.test("positions", async () => {
    await view(page, "lessons/positions");
    for (const { layout, position, first } of LESSONS.positions) {
      await page.locator(`.lesson [role=radio][data-value="${layout}"]`).click();
      await set("Position i", position);
      const [row] = await texts(".lesson .panel .number");
      close(row.match(/\[(.*), …\]/)[1].split(", ").map(number), first, 6e-4, layout);
    }
  });

  await t.test("beam", async () => {
    await view(page, "lessons/beam");
    for (const { beam_size: size, alpha, columns, finished } of LESSONS.beam) {
      await set("beam_size", size);
      await set("Length penalty α", alpha);
      const found = await page.evaluate(
        async ([own, a]) => (await import("/js/lessons/beam.js")).beamSearch(own, a),
        [size, alpha],
      );
      const about = `beam ${size}, α ${alpha}`;
      assert.deepEqual(
        found.columns.map((column) => column.map((own) => [own.id, own.fate ?? "pruned"])),
        columns.map((column) => column.map(([id, , fate]) => [id, fate])),
        about,
      );
      close(
        found.columns.flat().map((own) => own.sum),
        columns.flat().map(([, sum]) => sum),
        2e-5,
        about,
      );
      const shown = await cells("beam-scores");
      close(
        shown,
        finished.flatMap(([ids, sum, score]) => [sum, ids.length, score]),
        6e-4,
        about,
      );
    }
  });

  await t.test("smoothing", async () => {
    await view(page, "lessons/smoothing");
    for (const { epsilon, table, untrained } of LESSONS.smoothing) {
      await set("Label smoothing ε", epsilon);
      for (const [button, expected] of [
        ["The lecture's table", table],
        ["Reset", untrained],
      ]) {
        await page.getByRole("button", { name: button }).click();
        close((await texts(".lesson .result strong")).map(number), [expected], 6e-4, `${button} ${epsilon}`);
      }
    }
  });

  await t.test("embeddings", async () => {
    const { rows } = await page.evaluate(async () => {
      const body = JSON.stringify({ words: ["cat", "dog", "mouse", "street", "road", "tired"] });
      return (await fetch("/api/embeddings", { method: "POST", body })).json();
    });
    await view(page, "lessons/embeddings");
    await page.getByText(/model's own table|single token/).first().waitFor();
    const shown = await texts("#embedding-similarity .number");
    close(shown.map(number), rows[0]?.similarities ?? [], 6e-3, "similarities");
  });

  await t.test("one word, two vectors", async () => {
    const expected = compared(scratch(t), tinyModel, "teacher", ["The teacher reads a book, a teacher."]);
    await view(page, "lessons/two-vectors");
    await page.getByLabel("Texts, one on each line").fill("The teacher reads a book, a teacher.");
    await page.getByLabel("Word", { exact: true }).locator("visible=true").fill("teacher");
    await page.getByRole("button", { name: "Compare" }).click();
    const first = String(expected.layers[0].similarities[0][1].toFixed(3)).replace("-", "−");
    await page.waitForFunction(
      (own) => document.querySelector("#comparison-cosines td:not(.corner)")?.textContent === own,
      first,
    );
    const shown = await cells("comparison-cosines");
    const numbers = expected.layers.flatMap(({ similarities, others }) => [similarities[0][1], others]);
    close(shown, numbers, 6e-4, "cosines");
    for (const [layer, own] of expected.layers.entries()) {
      await page.getByLabel("Layer", { exact: true }).locator("visible=true").fill(String(layer));
      close(
        (await texts("#comparison-readout .number")).map(number),
        [own.similarities[0][1], own.others],
        6e-3,
        `layer ${layer}`,
      );
    }
    assert.equal(await page.locator(".comparison .scatter .badge").count(), 2);
    await page.getByLabel("Word", { exact: true }).locator("visible=true").fill("nobody");
    await page.getByRole("button", { name: "Compare" }).click();
    await page.getByText(/is not a word of the text, expected one of them/).waitFor();
    assert.equal(await page.locator(".comparison").isVisible(), false);
    // The answer was an error, as it should be.
    page.faults = page.faults.filter((fault) => !fault.includes("status of 400"));
  });

  await t.test("cache and cost", async () => {
    await view(page, "lessons/cache");
    assert.deepEqual(await texts("#cache-source"), ["8"]);
    // 2 · 6 layers · 10 tokens · 512 · 4 bytes, and 8 source tokens.
    assert.deepEqual(await texts("#cache-bytes"), ["245.8 kB + 196.6 kB"]);
    await page.getByLabel("Cache keys and values").uncheck();
    assert.deepEqual([await texts("#cache-count"), await texts("#cache-source")], [["55"], ["80"]]);
    await view(page, "lessons/cost");
    // At n = 6·d both numbers are equal, so that twice the text is (4 + 2) / 2 times the operations.
    await set("Width d", 64);
    await set("Tokens n", Math.log2(6 * 64).toFixed(1));
    const equal = await page.evaluate(async () => (await import("/js/lessons/cost.js")).operations(6 * 64, 64));
    assert.equal(equal.pairs, equal.tokens);
    assert.ok(Math.abs(number((await texts("#cost-twice"))[0]) - 3) < 0.05);
  });
  assert.deepEqual(page.faults, []);
});
