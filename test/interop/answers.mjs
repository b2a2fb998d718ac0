// Looks at the answers of a page: the joined one of a model with a jq filter, a call as a command, and a
// request sent to a server: node answers.mjs PLAYWRIGHT CHROMIUM URL PICTURES [SERVER]. It prints what it saw as
// JSON, and puts what that looked like into the folder PICTURES.
import { open } from "./commands.mjs";
const [pictures, server] = process.argv.slice(5);
const { browser, tab } = await open();
const saw = { errors: [] };
try {
  tab.on("pageerror", (e) => saw.errors.push(String(e)));
  const text = (selector) => tab.locator(selector + ":not(:empty)").textContent();
  if (await tab.evaluate(() => isLive && !id)) await tab.locator(".row").first().click(); // of a hub
  await tab.waitForFunction(() => session.about && !session.about.live && session.frames.at(-1)?.seq === session.about.frames && ui.shown.length > 0, null, { timeout: 60000 });
  await tab.keyboard.press("G");
  await tab.keyboard.press("Enter");
  saw.answer = await text("#reply");
  saw.title = await text("#both h3 span");
  saw.frames = await tab.evaluate(() => ui.detail.list.length);
  for (const [scheme, width, height] of [["light", 1400, 900], ["dark", 800, 600]]) {
    await tab.emulateMedia({ colorScheme: scheme });
    await tab.setViewportSize({ width, height });
    await tab.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    await tab.screenshot({ path: `${pictures}/${scheme}.png` });
  }
  await tab.keyboard.press("l");
  await tab.waitForFunction(() => ui.detail.seq === ui.detail.list[1].seq);
  saw.raw = await text("#payload");
  await tab.keyboard.press("Escape");
  await tab.keyboard.press("Enter");
  await text("#reply");
  await tab.evaluate(() => { navigator.clipboard.writeText = (text) => { window.copied = text; }; });
  await tab.keyboard.press("y");
  await tab.waitForFunction(() => document.getElementById("said").textContent);
  saw.copied = await tab.evaluate(() => window.copied || document.getElementById("said").textContent);
  saw.offers = await tab.evaluate(() => ["|", "R", "X"].filter((key) => acts.has(key)).join(""));
  if (saw.offers.includes("|")) {
    for (const filter of ["keys | length", "keys |"]) {
      await tab.keyboard.press("|");
      await tab.fill("#answer", filter);
      await tab.keyboard.press("Enter");
      await tab.waitForFunction(() => document.querySelector("#detail .jq") && document.getElementById("reply").textContent);
      saw.filtered = [...saw.filtered || [], await text("#payload"), await text("#reply")];
    }
    await tab.locator("#detail .jq button").click();
    saw.whole = await text("#payload");
  }
  if (saw.offers.includes("R") && !server) {
    await tab.keyboard.press("R");
    saw.refused = await tab.textContent("#said");
  }
  for (const to of server ? ["node server.js", server] : []) {
    await tab.locator(".acts button").click();
    await tab.waitForSelector("#ask[open]");
    saw.question = await tab.textContent("#question");
    await tab.fill("#answer", to);
    await tab.evaluate(() => say(""));
    await tab.keyboard.press("Enter");
    await tab.waitForFunction(() => /address|answered|connect/.test(document.getElementById("said").textContent), null, { timeout: 60000 });
    saw.sent = [...saw.sent || [], await tab.textContent("#said")];
  }
  if (server) {
    await tab.waitForSelector("#ask[open]");
    saw.repeated = await tab.inputValue("#answer");
    await tab.keyboard.press("Escape");
  }
} finally {
  await browser.close();
}
console.log(JSON.stringify(saw));
