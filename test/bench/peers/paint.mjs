// Presses keys in the page of a session: node paint.mjs PLAYWRIGHT CHROMIUM URL ROWS. It prints
// the milliseconds from each key to the next frame of the browser.
import { createRequire } from "node:module";
const [playwright, executablePath, url, rows] = process.argv.slice(2);
const { chromium } = createRequire(import.meta.url)(playwright);
const browser = await chromium.launch({ executablePath, args: ["--headless", "--no-sandbox", "--disable-gpu"] });
try {
  const tab = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  await tab.goto(url);
  await tab.waitForFunction((rows) => session.about && !session.about.live && !ui.stale && ui.shown.length === rows, Number(rows), { timeout: 60000 });
  await tab.evaluate(() => {
    window.times = [];
    addEventListener("keydown", (e) => requestAnimationFrame(() => {
      const painted = new MessageChannel();
      painted.port1.onmessage = () => times.push(performance.now() - e.timeStamp);
      painted.port2.postMessage(0);
    }), true);
  });
  let pressed = 0;
  for (const key of ["j", "k", "PageDown", "G", "g", "s", "s", "s", "s", "s", "s", "Enter", "j", "Escape", "O", "O", "2", "G", "g", "1"]) {
    await tab.keyboard.press(key);
    await tab.waitForFunction((n) => times.length === n, ++pressed);
  }
  console.log(JSON.stringify(await tab.evaluate(() => times)));
} finally {
  await browser.close();
}
