// The API documentation page: every call is shown, the form works, and nothing overflows.

import { test } from "node:test";
import assert from "node:assert/strict";
import { serve } from "./program.mjs";
import { browser, open, shoot } from "./page.mjs";

for (const [width, colorScheme] of [
  [1280, "light"],
  [360, "dark"],
]) {
  test(`calls, fields and answers at ${width} pixels, ${colorScheme}`, async (t) => {
    const address = await serve(t);
    const page = await open(await browser(t), `${address}docs`, { width, colorScheme });
    await page.locator(".call").first().waitFor();
    const { paths } = await (await fetch(`${address}openapi.json`)).json();
    const described = Object.values(paths).flatMap((methods) => Object.values(methods).map((own) => own.operationId));
    const shown = await page.locator(".call").evaluateAll((nodes) => nodes.map((node) => node.id));
    assert.deepEqual(shown.toSorted(), described.toSorted());
    const fields = await page.locator("#translate .fields").first().textContent();
    for (const name of ["q", "source", "target", "format", "alternatives", "api_key", "50000 characters"]) {
      assert.ok(fields.includes(name), name);
    }
    await page.locator("details").evaluateAll((nodes) => nodes.forEach((node) => node.setAttribute("open", "")));
    const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(over <= 0, `the page overflows by ${over} pixels`);
    await shoot(page, `docs-${width}-${colorScheme}`);
    assert.ok(
      page.asked.every((url) => url.startsWith(address)),
      String(page.asked),
    );
    assert.deepEqual(page.faults, []);
  });
}

test("the form translates, and the answer is shown as text", async (t) => {
  const address = await serve(t);
  const page = await open(await browser(t), `${address}docs`);
  await page.getByLabel("Text", { exact: true }).fill("The teacher reads a book today.");
  await page.keyboard.press("Control+Enter");
  await page.locator(".translated").waitFor();
  const body = JSON.stringify({ q: "The teacher reads a book today.", source: "auto", target: "tr", format: "text" });
  const asked = await fetch(`${address}translate`, { method: "POST", body });
  assert.equal(await page.locator(".translated").textContent(), (await asked.json()).translatedText);
  assert.ok((await page.locator(".answered").textContent()).includes(`-d '${body}'`));
  await page.getByLabel("Text", { exact: true }).fill("<img src=x onerror=window.hacked=1>");
  await page.getByRole("button", { name: "Translate", exact: true }).click();
  await page.getByText("<img src=x").last().waitFor();
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  const unnamed = await page.evaluate(() =>
    [...document.querySelectorAll("button, input, select, textarea")]
      .filter((node) => !(node.textContent.trim() || node.getAttribute("aria-label") || node.labels?.length))
      .map((node) => node.outerHTML),
  );
  assert.deepEqual(unnamed, []);
  assert.deepEqual(page.faults, []);
});
