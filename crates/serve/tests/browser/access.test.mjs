// axe-core finds no violations on any page; heads differ by more than colour; nothing moves under the pointer.

import { test } from "node:test";
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { explore } from "./program.mjs";
import { browser, open, translate, view } from "./page.mjs";
import { LESSONS, VIEWS } from "./layout.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

for (const [width, colorScheme] of [
  [1280, "light"],
  [360, "dark"],
]) {
  test(`axe-core finds no violations at ${width} pixels, ${colorScheme}`, async (t) => {
    const page = await open(await browser(t), await explore(t), { width, colorScheme });
    await translate(page, "The teacher reads a book today. It is 漢 old.");
    await page.evaluate(AXE);
    for (const id of [...VIEWS, ...LESSONS.map((name) => `lessons/${name}`)]) {
      await view(page, id);
      if (id === "translate") await page.locator(".stage button.token").first().click();
      const { violations } = await page.evaluate(() => window.axe.run(document));
      const found = violations.map(({ id: rule, nodes }) => [rule, nodes.slice(0, 3).map((node) => [node.html, node.failureSummary])]);
      assert.deepEqual(found, [], `${id}: ${JSON.stringify(found, null, 1)}`);
    }
  });
}

test("nothing moves under the pointer", async (t) => {
  const page = await open(await browser(t), await explore(t), { width: 700 });
  await translate(page, "The teacher reads a book today.");
  for (const [id, selector] of [
    ["beam", "#view-beam .hypothesis"],
    ["heads", "#view-heads .column.left .token"],
  ]) {
    await view(page, id);
    const nodes = page.locator(selector);
    const count = await nodes.count();
    const top = () => nodes.first().evaluate((node) => node.getBoundingClientRect().top + scrollY);
    const before = await top();
    for (let index = 0; index < count; index += Math.ceil(count / 12)) {
      await nodes.nth(index).dispatchEvent("pointerenter");
      await page.waitForTimeout(20);
      assert.equal(await top(), before, `${id} ${index}`);
    }
  }
});

test("heads have dashes of their own, and lines are behind the tokens", async (t) => {
  const page = await open(await browser(t), await explore(t), { width: 360 });
  await translate(page, "The teacher reads a book today and the garden is old today.");
  const dashes = await page.evaluate(async () => {
    const { headDash } = await import("/js/colour.js");
    return Array.from({ length: 16 }, (_, head) => headDash(head).join(" "));
  });
  assert.equal(new Set(dashes.slice(0, 4)).size, 4);
  for (let head = 0; head < 8; head += 1) assert.notEqual(dashes[head], dashes[head + 8], `${head}`);
  // The canvas is below every token: the topmost element in the middle of a token is the token.
  const covered = await page.evaluate(() => {
    document.querySelector(".stage canvas").style.pointerEvents = "auto";
    return [...document.querySelectorAll(".stage .token")].filter((token) => {
      token.scrollIntoView({ block: "center" });
      const { left, top, width, height } = token.getBoundingClientRect();
      const found = document.elementFromPoint(left + width / 2, top + height / 2);
      return !token.contains(found) || getComputedStyle(token).backgroundColor.includes(", 0)");
    }).length;
  });
  assert.equal(covered, 0);
});
