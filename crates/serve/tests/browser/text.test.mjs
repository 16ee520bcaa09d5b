// The explorer of a language model: every view shows the numbers of `polyhead inspect`, fits the page, and passes axe-core.

import { test } from "node:test";
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { explore, inspectText, languageModel, numbers, scratch } from "./program.mjs";
import { browser, open, read, shoot, view } from "./page.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const TEXT = "the cat sat on the mat";
const GENERATED = 4;
const VIEWS = ["text", "lens", "contributions", "heads", "model", "neurons", "heat-map", "intervene"];
const minus = (text) => Number(text.replace("−", "-"));
const close = (found, expected, tolerance = 6e-4) =>
  assert.ok(Math.abs(found - expected) <= tolerance, `${found} is not ${expected}`);

/** Percentages of a list of alternatives are those of a distribution. */
async function assertAlternatives(list, prediction) {
  const shares = await list.locator(".number").allTextContents();
  assert.ok(shares.length >= 5);
  prediction.alternatives.forEach((own, place) =>
    close(parseFloat(shares[place].replace("<", "")) / 100, Math.exp(own.log_probability)),
  );
}

/** The weight of a pair of positions. */
function weight(trace, layer, head, row, column) {
  const { weights, heads } = trace.attention.find((own) => own.layer === layer);
  const [, rows, columns] = weights.shape;
  return numbers(weights)[(heads.indexOf(head) * rows + row) * columns + column];
}

test("views agree with the trace in a file", async (t) => {
  const folder = scratch(t);
  const trace = inspectText(folder, TEXT, { options: ["--generate", String(GENERATED)] });
  const page = await open(await browser(t), await explore(t, languageModel));
  await read(page, TEXT, GENERATED);
  const tokens = page.locator("#view-text .stage button.token");
  const last = trace.text.tokens.length - 1;

  await t.test("text", async () => {
    assert.equal(await tokens.count(), trace.text.tokens.length);
    assert.equal(await page.locator(".token.generated").count(), trace.generated);
    for (const position of [0, 4, last]) {
      await tokens.nth(position).click();
      const said = await page.locator("#view-text .readout").textContent();
      const following = trace.predictions[position - 1]?.following;
      if (!following) assert.match(said, /the first token/);
      else {
        assert.ok(said.includes(`rank ${following.rank},`), said);
        close(Number(/surprisal ([\d.]+)/.exec(said)[1]), -following.log_probability / Math.LN2, 6e-3);
      }
      await assertAlternatives(page.locator("#view-text .alternatives"), trace.predictions[position]);
    }
    // Expected tokens are lighter than surprising ones.
    const light = await tokens.evaluateAll((nodes) =>
      nodes.map((node) => getComputedStyle(node).backgroundColor.match(/\d+/g).reduce((sum, part) => sum + +part, 0)),
    );
    const bits = trace.predictions.slice(0, -1).map((own) => -own.following.log_probability);
    const [least, most] = [Math.min(...bits), Math.max(...bits)].map((own) => bits.indexOf(own) + 1);
    assert.ok(light[least] > light[most], `${light}`);
  });

  await t.test("lens", async () => {
    await view(page, "lens");
    const cells = page.locator(".lens .cell");
    await cells.first().waitFor();
    const { layers } = trace.lens;
    assert.equal(await cells.count(), layers.length * trace.text.tokens.length);
    const shares = await cells.evaluateAll((nodes) => nodes.map((node) => node.title));
    const best = layers.flatMap(({ predictions }) => predictions.map((own) => own.alternatives[0]));
    best.forEach((own, place) => close(parseFloat(shares[place]) / 100, Math.exp(own.log_probability)));
    await cells.nth(3).click();
    await assertAlternatives(page.locator("#view-lens .alternatives"), layers[0].predictions[3]);
    await page.keyboard.press("ArrowDown");
    await assertAlternatives(page.locator("#view-lens .alternatives"), layers[1].predictions[3]);
  });

  await t.test("contributions", async () => {
    await view(page, "contributions");
    for (const position of [3, last]) {
      await page.locator("#view-contributions").getByLabel("After token").selectOption(String(position));
      const own = trace.contributions.targets.find((target) => target.position === position);
      await page.waitForFunction(
        (sum) => document.getElementById("contribution-sum")?.textContent === sum,
        own.logit.toFixed(3).replace("-", "−"),
      );
      const rows = await page.locator(".contributions tbody tr").evaluateAll((nodes) =>
        nodes.map((node) => [...node.querySelectorAll(".number")].map((cell) => cell.textContent)),
      );
      assert.equal(rows.length, trace.contributions.parts.length);
      rows.forEach(([value, norm], place) => {
        close(minus(value), own.values[place]);
        close(minus(norm), own.norms[place], 6e-3);
      });
    }
    const other = trace.predictions[last].alternatives[2];
    await page.locator("#view-contributions").getByLabel("Logit of").selectOption(String(other.id));
    const options = ["--generate", String(GENERATED), `--contributions=last:#${other.id}`];
    const { logit } = inspectText(folder, TEXT, { options, name: "other.json" }).contributions.targets[0];
    await page.waitForFunction(
      (sum) => document.getElementById("contribution-sum")?.textContent === sum,
      logit.toFixed(3).replace("-", "−"),
    );
  });

  await t.test("heads and heat-map", async () => {
    await view(page, "heads");
    await page.locator(".swatch").first().dblclick();
    await page.locator(".column.left .token").nth(5).hover();
    const said = await page.locator("#view-heads .quiet").last().textContent();
    const row = trace.text.tokens.map((_, key) => weight(trace, 1, 0, 5, key));
    assert.ok(said.includes(row[row.indexOf(Math.max(...row))].toFixed(2)), said);
    await view(page, "model");
    await page.getByLabel("decoder, layer 0, head 1").click();
    await page.waitForURL(/#heat-map$/);
    await page.locator(".map-box").focus();
    for (let step = 0; step < 4; step += 1) await page.keyboard.press("ArrowDown");
    for (let step = 0; step < 2; step += 1) await page.keyboard.press("ArrowRight");
    close(Number(await page.locator("#view-heat-map .readout strong").textContent()), weight(trace, 0, 1, 4, 2), 6e-5);
    await view(page, "neurons");
    await page.locator("#pair-share").waitFor();
    await page.getByLabel("Query token", { exact: true }).selectOption("5");
    const shares = await page.locator(".neurons .share .number").allTextContents();
    shares.forEach((share, key) => close(Number(share), weight(trace, 0, 1, 5, key)));
  });

  await t.test("intervene", async () => {
    await view(page, "intervene");
    await page.locator("#view-intervene").getByLabel("After token").selectOption("4");
    await page.getByLabel("decoder, layer 1, head 0: 1.00").click();
    const changed = inspectText(folder, TEXT, { options: ["--without", "decoder:1:0"], name: "changed.json" });
    const after = page.locator("#view-intervene .sides .panel").nth(1);
    await page.waitForFunction(
      (share) =>
        document
          .querySelectorAll("#view-intervene .sides .panel")[1]
          ?.querySelector(".alternatives .number")
          ?.textContent.startsWith(share),
      (Math.exp(changed.predictions[4].alternatives[0].log_probability) * 100).toFixed(2),
    );
    await assertAlternatives(after.locator(".alternatives"), changed.predictions[4]);
    const before = page.locator("#view-intervene .sides .panel").first().locator(".alternatives");
    await assertAlternatives(before, trace.predictions[4]);
  });

  await t.test("another token, and the text from there", async () => {
    await view(page, "text");
    await tokens.nth(3).click();
    const chosen = trace.predictions[3].alternatives[1];
    await page.locator("#view-text .alternatives .pick").nth(1).click();
    await page.waitForFunction(
      (count) => document.querySelectorAll("#view-text .stage button.token").length === count,
      5 + GENERATED,
    );
    await tokens.nth(4).click();
    const said = await page.locator("#view-text .readout").textContent();
    assert.ok(said.includes("rank 2,"), said);
    close(Number(/surprisal ([\d.]+)/.exec(said)[1]), -chosen.log_probability / Math.LN2, 6e-3);
  });
  assert.deepEqual(page.faults, []);
});

for (const [width, colorScheme] of [
  [1280, "light"],
  [360, "dark"],
]) {
  test(`views of a language model fit ${width} pixels, ${colorScheme}, and axe-core finds no violations`, async (t) => {
    const page = await open(await browser(t), await explore(t, languageModel), { width, colorScheme });
    await read(page, "the cat's dogs 東京, the cat's dogs", 3);
    await page.evaluate(AXE);
    for (const id of [...VIEWS, "lessons/embeddings", "lessons/multi-head"]) {
      await view(page, id);
      const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(over <= 0, `${id} overflows by ${over} pixels`);
      const { violations } = await page.evaluate(() => window.axe.run(document));
      const found = violations.map(({ id: rule, nodes }) => [
        rule,
        nodes.slice(0, 3).map((node) => [node.html, node.failureSummary]),
      ]);
      assert.deepEqual(found, [], `${id}: ${JSON.stringify(found, null, 1)}`);
      await shoot(page, `language-model-${id.replace("/", "-")}-${width}-${colorScheme}`);
    }
    assert.deepEqual(page.faults, []);
  });
}

test("hostile text stays text, and mistakes are explained", async (t) => {
  const page = await open(await browser(t), await explore(t, languageModel));
  await read(page, "<img src=x onerror=alert(1)> \u202e </script>", 0);
  assert.equal(await page.locator("main img").count(), 0);
  await page.locator("textarea").fill("a ".repeat(100));
  await page.getByRole("button", { name: "Read", exact: true }).click();
  await page.locator(".status.bad").waitFor();
  assert.match(await page.locator(".status.bad").textContent(), /expected at most 64, the context of the model/);
  assert.equal(await page.locator("#view-text .stage button.token").count(), 0);
  await read(page, TEXT, 0);
  assert.deepEqual(page.faults, []);
});

test("a page in a file has the views, and asks for nothing", async (t) => {
  const folder = scratch(t);
  const file = inspectText(folder, TEXT, { name: "text.html" });
  const trace = inspectText(folder, TEXT);
  const page = await open(await browser(t), pathToFileURL(file).href);
  for (const id of VIEWS.filter((own) => own !== "intervene")) {
    await view(page, id);
    assert.ok((await page.locator("main").innerText()).length > 50, id);
  }
  await view(page, "text");
  await page.locator("#view-text .stage button.token").nth(2).click();
  await assertAlternatives(page.locator("#view-text .alternatives"), trace.predictions[2]);
  await view(page, "contributions");
  const own = trace.contributions.targets.find((target) => target.position === 2);
  assert.equal(minus(await page.locator("#contribution-sum").textContent()), Number(own.logit.toFixed(3)));
  await view(page, "lens");
  await page.locator(".lens .cell").first().click();
  await assertAlternatives(page.locator("#view-lens .alternatives"), trace.lens.layers[0].predictions[0]);
  assert.deepEqual(page.asked, [pathToFileURL(file).href]);
  assert.deepEqual(page.faults, []);
});
