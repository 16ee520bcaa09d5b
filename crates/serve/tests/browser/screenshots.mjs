// The pictures of the README: `node screenshots.mjs ADDRESS FOLDER`, with an explorer running at the address.

import { join } from "node:path";
import { chromium } from "playwright-core";

const [, , address, folder] = process.argv;
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox"],
});

/** A page that shows `view` of the translation of `text`. */
async function shown(view, text, { width = 1180, colorScheme = "light" } = {}) {
  const page = await browser.newPage({ viewport: { width, height: 1400 }, colorScheme });
  await page.goto(address);
  await page.locator(".stage button.token").first().waitFor();
  await page.locator("textarea").fill(text);
  await page.getByRole("button", { name: "Translate", exact: true }).click();
  await page.locator(".stage button.token").first().waitFor();
  await page.evaluate((id) => (location.hash = id), view);
  await page.mouse.move(5, 1390);
  await page.waitForTimeout(500);
  return page;
}

const path = (name) => join(folder, `${name}.png`);
const translate = await shown("translate", "The cat ate the mouse.");
await translate.locator(".stage button.token").nth(2).click();
await translate.waitForTimeout(500);
await translate.screenshot({ path: path("translate"), clip: { x: 0, y: 0, width: 1180, height: 970 } });
const it = "The animal didn't cross the street because it was too tired.";
const heads = await shown("heads", it, { width: 860 });
await heads.locator(".columns").screenshot({ path: path("heads") });
const beam = await shown("beam", "The cat ate the mouse.");
await beam.locator("#view-beam .tree").screenshot({ path: path("beam") });
const model = await shown("model", "I bank only at my local bank.", { colorScheme: "dark" });
await model.locator("#view-model .grids").screenshot({ path: path("model") });
const lesson = await shown("lessons/lookup", "The cat ate the mouse.");
await lesson.locator(".lesson").screenshot({ path: path("lesson") });
await browser.close();
