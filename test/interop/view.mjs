// Tries to cancel the first call of a live session whose page does not allow it: node view.mjs
// PLAYWRIGHT CHROMIUM URL. It prints what the page said.
import { open } from "./commands.mjs";
const { browser, tab } = await open();
const saw = {};
try {
  await tab.waitForFunction(() => session.about?.open > 0 && session.frames.length > 0, null, { timeout: 60000 });
  await tab.keyboard.press("g");
  await tab.keyboard.press("Enter");
  await tab.waitForFunction(() => document.getElementById("payload").textContent);
  saw.commands = await tab.evaluate(() => Boolean(session.about.commands));
  saw.buttons = await tab.locator(".acts button").count();
  await tab.keyboard.press("X");
  await tab.waitForFunction(() => document.getElementById("said").textContent);
  saw.said = await tab.textContent("#said");
} finally {
  await browser.close();
}
console.log(JSON.stringify(saw));
