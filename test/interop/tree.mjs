// Looks at the page of an agent's run: its tree, the lit critical path, how far a cancel went, and the
// frames of a call: node tree.mjs PLAYWRIGHT CHROMIUM URL. It prints what it saw as JSON.
import { open } from "./commands.mjs";
const { browser, tab } = await open();
const saw = { errors: [] };
try {
  tab.on("pageerror", (e) => saw.errors.push(String(e)));
  const pressed = async (...keys) => {
    for (const key of keys) await tab.keyboard.press(key);
    await tab.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  };
  await tab.waitForFunction(() => session.about && !session.about.live && session.heads.size === 3, null, { timeout: 60000 });
  saw.rows = await tab.evaluate(() => ui.shown.map((x) => "  ".repeat(x.level) + [x.role && letters[x.role], x.name || x.kind, x.wire, x.state].filter(Boolean).join(" ")));
  await pressed("p", "g");
  saw.lit = await tab.evaluate(() => ui.shown.filter((x) => x.path).map((x) => x.name + " " + span(onPath(x))));
  await pressed("Enter");
  saw.stops = await tab.evaluate(() => [...document.querySelectorAll("#stops div")].map((e) => e.textContent));
  await pressed("j", "j", "Enter");
  saw.frames = await tab.evaluate(() => ui.detail.list.map((f) => f.kind));
} finally {
  await browser.close();
}
console.log(JSON.stringify(saw));
