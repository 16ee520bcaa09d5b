// A page in a browser, with all its errors.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { shots } from "./program.mjs";

const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";

/** Opens a browser for the length of a test. */
export async function browser(test) {
  // Without its own sandbox the browser also runs for root, as in containers; it loads nothing but our page.
  const found = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
  test.after(() => found.close());
  return found;
}

/** Opens an address; `page.faults` lists errors of the console, of scripts and of the network, `page.asked` all requests. */
export async function open(found, address, { width = 1280, height = 900, colorScheme = "light" } = {}) {
  const context = await found.newContext({ viewport: { width, height }, colorScheme, reducedMotion: "reduce" });
  const page = await context.newPage();
  page.faults = [];
  page.asked = [];
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) page.faults.push(message.text());
  });
  page.on("pageerror", (error) => page.faults.push(String(error.stack ?? error)));
  page.on("requestfailed", (request) => {
    if (!request.failure().errorText.includes("ABORTED")) page.faults.push(`failed: ${request.url()}`);
  });
  page.on("request", (request) => page.asked.push(request.url()));
  await page.goto(address);
  return page;
}

/** Translates a sentence and waits for its trace; `asIs` gives a text to the model as one sentence. */
export async function translate(page, text, { asIs = false } = {}) {
  await page.evaluate(() => {
    location.hash = "translate";
  });
  const tokens = page.locator(".stage button.token");
  // The page begins with a sentence of its own; the next request removes its tokens at once.
  await tokens.first().waitFor();
  await page.getByLabel("As one sentence, unprepared").setChecked(asIs);
  await tokens.first().waitFor();
  await page.getByLabel("Sentence", { exact: true }).locator("visible=true").last().fill(text);
  await page.getByRole("button", { name: "Translate", exact: true }).click();
  await tokens.first().waitFor({ timeout: 60000 });
}

/** Gives a text to a language model, continues it, or to an encoder, and waits for its trace. */
export async function read(page, text, generate = null) {
  const tokens = page.locator("#view-text .stage button.token");
  const status = page.locator(".status");
  // The page begins with a text of its own, and may go to the view of that example; the next request removes its tokens at once.
  await status.filter({ hasText: /tokens|expected/ }).first().waitFor();
  await page.evaluate(() => {
    location.hash = "text";
  });
  if (generate !== null) await page.getByLabel("New tokens").fill(String(generate));
  await page.locator(".sentence textarea").fill(text);
  await page.getByRole("button", { name: "Read", exact: true }).click();
  await tokens.first().waitFor({ timeout: 60000 });
}

/** Shows a view. */
export async function view(page, id) {
  await page.evaluate((own) => {
    location.hash = own;
  }, id);
  await page.locator(`#view-${id.split("/")[0]}`).waitFor({ state: "visible" });
  await page.waitForTimeout(150);
}

/** Saves a screenshot of the page from its top. */
export async function shoot(page, name) {
  mkdirSync(shots, { recursive: true });
  await page.evaluate(() => scrollTo(0, 0));
  await page.screenshot({ path: join(shots, `${name}.png`), fullPage: true });
}
