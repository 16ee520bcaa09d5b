// Every view at desktop and phone width, light and dark: nothing overflows, no errors; screenshots are saved.

import { test } from "node:test";
import assert from "node:assert/strict";
import { explore } from "./program.mjs";
import { browser, open, shoot, translate, view } from "./page.mjs";
import { LESSONS, VIEWS } from "./layout.mjs";

for (const [width, colorScheme] of [
  [1280, "light"],
  [1280, "dark"],
  [360, "light"],
  [360, "dark"],
]) {
  test(`all views at ${width} pixels, ${colorScheme}`, async (t) => {
    const page = await open(await browser(t), await explore(t), { width, colorScheme });
    await translate(page, "The teacher reads a book today.");
    for (const id of [...VIEWS, ...LESSONS.map((name) => `lessons/${name}`)]) {
      await view(page, id);
      if (id === "heads") await page.locator(".column.left .token").nth(2).focus();
      const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(over <= 0, `${id} overflows by ${over} pixels`);
      await shoot(page, `${id.replace("/", "-")}-${width}-${colorScheme}`);
    }
    assert.deepEqual(page.faults, []);
  });
}

test("the keyboard reaches everything", async (t) => {
  const page = await open(await browser(t), await explore(t));
  await translate(page, "The teacher reads a book today.");
  await page.locator("#tab-translate").focus();
  await page.keyboard.press("ArrowRight");
  await page.waitForURL(/#heads$/);
  assert.equal(await page.evaluate(() => document.activeElement.id), "tab-heads");
  await page.keyboard.press("End");
  await page.waitForURL(/#lessons$/);
  await view(page, "heads");
  await page.locator("#view-heads [role=radio][aria-checked=true]").first().focus();
  await page.keyboard.press("ArrowRight");
  assert.equal(await page.evaluate(() => document.activeElement.getAttribute("aria-checked")), "true");
  const unnamed = await page.evaluate(() =>
    [...document.querySelectorAll("button, input, select, textarea")]
      .filter((node) => !(node.textContent.trim() || node.getAttribute("aria-label") || node.labels?.length))
      .map((node) => node.outerHTML),
  );
  assert.deepEqual(unnamed, []);
  const switched = page.getByLabel(/^Theme/);
  const before = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await switched.focus();
  await page.keyboard.press("Enter");
  assert.notEqual(await page.evaluate(() => getComputedStyle(document.body).backgroundColor), before);
  assert.deepEqual(page.faults, []);
});
