// Looks at a run of wirectl rlm in its page, and interrupts its cell: node runs.mjs
// PLAYWRIGHT CHROMIUM URL. It prints what it saw as JSON.
const [playwright, executablePath, url] = process.argv.slice(2);
const { chromium } = (await import(playwright)).default;
const browser = await chromium.launch({ executablePath, args: ["--headless", "--no-sandbox", "--disable-gpu"] });
const saw = { errors: [] };
try {
  const tab = await browser.newPage({ viewport: { width: 1280, height: 800 }, colorScheme: "light" });
  tab.on("pageerror", (e) => saw.errors.push(String(e)));
  const rows = () => tab.evaluate(() => ui.shown.map((x) => "  ".repeat(x.level) + [x.place, x.name || x.kind, x.state].filter(Boolean).join(" ")));
  const pressed = async (key) => {
    await tab.keyboard.press(key);
    await tab.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  };
  await tab.goto(url);
  await tab.waitForFunction(() => session.about?.commands && ui.shown.some((x) => x.kind === "chat/completions"), null, { timeout: 60000 });
  saw.rows = await rows();
  saw.order = await tab.textContent("#order");
  await pressed("g");
  for (let i = 0; i < 3; i++) await pressed("j");
  await pressed("o");
  saw.folded = (await rows()).length;
  await pressed("o");
  await pressed("X");
  await tab.waitForSelector("#ask[open]");
  saw.question = await tab.textContent("#question");
  await tab.click("#yes");
  await tab.waitForFunction(() => [...session.exchanges.values()].some((x) => x.kind === "execute" && x.state === "cancelled") && session.about && !session.about.live, null, { timeout: 60000 });
  saw.said = await tab.textContent("#said");
  saw.after = await rows();
  await pressed("5");
  await tab.waitForFunction(() => ui.shown.some((p) => p.name), null, { timeout: 60000 });
  saw.peers = await tab.evaluate(() => ui.shown.filter((p) => p.name).map((p) => p.name + " " + p.state));
  await pressed("g");
  await pressed("Enter");
  saw.conns = await tab.evaluate(() => ui.shown.length);
  await pressed("x");
  await pressed("2");
  await pressed("g");
  await pressed("m");
  saw.marked = await tab.evaluate(() => session.bookmarks.size);
  await pressed("f");
  await tab.keyboard.type("bookmarks");
  await pressed("Enter");
  saw.found = await tab.evaluate(() => ui.shown.length);
  await tab.reload();
  await tab.waitForFunction(() => session.about && session.frames.length > 0, null, { timeout: 60000 });
  await pressed("2");
  await pressed("g");
  saw.kept = await tab.textContent(".row > span");
} finally {
  await browser.close();
}
console.log(JSON.stringify(saw));
