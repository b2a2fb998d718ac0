// Looks at the first call of a live session while it runs, and tries to cancel it from a page
// that does not allow it: node view.mjs PLAYWRIGHT CHROMIUM URL. It prints what the page said.
import { open } from "./commands.mjs";
const { browser, tab } = await open();
const saw = {};
try {
  await tab.waitForFunction(() => session.about?.open > 0 && session.frames.length > 600, null, { timeout: 60000 }); // it has long been running
  await tab.locator(".row").first().click();
  saw.payload = await tab.locator("#payload:not(:empty)").textContent();
  await tab.keyboard.press("Escape");
  await tab.waitForSelector("#detail", { state: "hidden" });
  await tab.keyboard.press("g");
  await tab.keyboard.press("Enter");
  await tab.waitForSelector("#payload:not(:empty)");
  const last = await tab.evaluate(() => session.frames.at(-1).seq);
  await tab.waitForFunction((last) => session.frames.at(-1).seq > last + 10 && ui.detail.list.at(-1).seq > last + 10, last); // it still changes
  await tab.locator("#ledger .picked + div").click(); // the next frame of the exchange
  saw.next = await tab.evaluate(() => ui.detail.seq === ui.detail.list[1].seq);
  saw.commands = await tab.evaluate(() => Boolean(session.about.commands));
  saw.buttons = await tab.locator(".acts button").count();
  await tab.keyboard.press("X");
  await tab.waitForFunction(() => document.getElementById("said").textContent);
  saw.said = await tab.textContent("#said");
} finally {
  await browser.close();
}
console.log(JSON.stringify(saw));
