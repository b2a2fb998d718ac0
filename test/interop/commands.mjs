// Cancels the first call of a live session from its page: node commands.mjs PLAYWRIGHT
// CHROMIUM URL. It prints what the page said.
import { fileURLToPath } from "node:url";
const [script, playwright, executablePath, url] = process.argv.slice(1);

// open opens the page.
export async function open() {
  const { chromium } = (await import(playwright)).default;
  const browser = await chromium.launch({ executablePath, args: ["--headless", "--no-sandbox", "--disable-gpu"] });
  const tab = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  await tab.goto(url);
  return { browser, tab };
}

// cancelCall cancels the first call, once after it has changed its mind.
export async function cancelCall(tab) {
  const saw = {};
  await tab.waitForFunction(() => session.about?.commands && session.about.open > 0 && ui.shown.length > 0, null, { timeout: 60000 });
  saw.live = await tab.textContent("#state");
  await tab.keyboard.press("g");
  await tab.keyboard.press("X");
  await tab.waitForSelector("#ask[open]");
  saw.question = await tab.textContent("#question");
  await tab.click("#ask button[value=no]");
  saw.refused = await tab.evaluate(() => !session.about.altered && session.about.open > 0);
  await tab.keyboard.press("X");
  await tab.click("#yes");
  await tab.waitForFunction(() => document.getElementById("said").textContent.startsWith("done:") && session.about.altered, null, { timeout: 60000 });
  await tab.waitForFunction(() => [...session.exchanges.values()].some((x) => x.cancel), null, { timeout: 60000 });
  saw.said = await tab.textContent("#said");
  saw.count = await tab.textContent("#count");
  return saw;
}

if (script === fileURLToPath(import.meta.url)) {
  const { browser, tab } = await open();
  try {
    console.log(JSON.stringify(await cancelCall(tab)));
  } finally {
    await browser.close();
  }
}
