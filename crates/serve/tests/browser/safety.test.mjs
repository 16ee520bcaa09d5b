// Hostile and very long texts: shown, never executed, with visible limits.

import { test } from "node:test";
import assert from "node:assert/strict";
import { explore, inspect, scratch } from "./program.mjs";
import { browser, open, shoot, translate, view } from "./page.mjs";
import { pathToFileURL } from "node:url";

const HOSTILE =
  "<script>window.hacked=1</script> <img src=x onerror=window.hacked=2> </script><!-- \u202Eabc\u202C \u200F e\u0301\u0301\u0301 ￼ ' \" & {{1}}";
const VIEWS = ["translate", "heads", "model", "neurons", "heat-map", "beam", "intervene", "lessons/multi-head"];

test("hostile text is shown and never executed", async (t) => {
  const found = await browser(t);
  const file = inspect(scratch(t), HOSTILE, { name: "hostile.html" });
  for (const [address, isLive] of [
    [await explore(t), true],
    [pathToFileURL(file).href, false],
  ]) {
    const page = await open(found, address);
    // Split into segments first, then as one sentence.
    for (const asIs of isLive ? [false, true] : [true]) {
      if (isLive) await translate(page, HOSTILE, { asIs });
      for (const id of VIEWS.filter((own) => isLive || own !== "intervene")) {
        await view(page, id);
        assert.equal(await page.evaluate(() => window.hacked), undefined, id);
        assert.equal(await page.locator("main img, main script").count(), 0, id);
      }
    }
    await view(page, "translate");
    const shown = (await page.locator(".stage").textContent()).replaceAll("·", "");
    assert.ok(shown.includes("<script>window.hacked=1</script>") && shown.includes("‹202E›"), shown);
    if (isLive) await shoot(page, "hostile");
    assert.deepEqual(page.faults, []);
  }
});

test("a text of 2,000 tokens works, with a visible limit", async (t) => {
  const page = await open(await browser(t), await explore(t));
  await translate(page, "The teacher reads a book today. ".repeat(290), { asIs: true });
  const status = await page.locator(".status").first().textContent();
  const [tokens] = status.match(/\d+/);
  assert.ok(Number(tokens) > 1990, status);
  assert.match(status, /up to 512 tokens/);
  await view(page, "neurons");
  assert.match(await page.locator("#view-neurons .panel").first().textContent(), /shows up to 512/);
  await view(page, "model");
  assert.match(await page.locator("#view-model").textContent(), /shows up to 512/);
  await view(page, "heads");
  await view(page, "heat-map");
  await page.locator("#view-heat-map").getByRole("radio", { name: "Encoder" }).click();
  await page.locator("#view-heat-map .readout strong").waitFor({ timeout: 60000 });
  assert.deepEqual(page.faults, []);
});

test("a heat-map of 500 tokens scrolls without drawing what is not seen", async (t) => {
  const page = await open(await browser(t), await explore(t));
  await translate(page, "The teacher reads a book today. ".repeat(71), { asIs: true });
  await view(page, "heat-map");
  await page.locator("#view-heat-map").getByRole("radio", { name: "Encoder" }).click();
  await page.waitForFunction(() => document.querySelector(".map-box .spacer").offsetWidth > 1500);
  const canvas = await page.locator(".map").evaluate((node) => [node.width, node.height]);
  assert.ok(canvas[0] * canvas[1] < 4e6, `${canvas}`);
  const start = Date.now();
  for (let turn = 0; turn < 10; turn += 1) {
    await page.locator(".map-box").evaluate((box, place) => {
      box.scrollTo(place * 60, place * 60);
      return new Promise(requestAnimationFrame);
    }, turn);
  }
  assert.ok(Date.now() - start < 5000, `${Date.now() - start} ms for ten frames`);
  await shoot(page, "heat-map-500");
  assert.deepEqual(page.faults, []);
});

test("pages of other sites are refused", async (t) => {
  const address = await explore(t);
  const { port } = new URL(address);
  const foreign = await fetch(`${address}api/model`, { headers: { origin: "http://evil.example" } });
  assert.equal(foreign.status, 403);
  const own = await fetch(`${address}api/model`, { headers: { origin: `http://127.0.0.1:${port}` } });
  assert.equal(own.status, 200);
  assert.match(own.headers.get("content-security-policy"), /default-src 'self'/);
});
