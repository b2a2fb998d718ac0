// Looks at the page of a session as a person would: node browser.mjs PLAYWRIGHT CHROMIUM
// URL PICTURES. URL is a report or the address that `wirectl monitor --web` prints, and
// PICTURES a folder for what it looked like. It prints what it saw as JSON.
const [playwright, executablePath, url, pictures] = process.argv.slice(2);
const { chromium } = (await import(playwright)).default;
const browser = await chromium.launch({
  executablePath,
  args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync"],
});
const saw = { errors: [], requests: [] };
const own = url.startsWith("http:") ? new URL(url).origin + "/" : "file:";
try {
  const tab = await browser.newPage({ viewport: { width: 1280, height: 800 }, colorScheme: "light" });
  tab.on("console", (m) => { if (m.type() === "error" || m.type() === "warning") saw.errors.push(m.text()); });
  tab.on("pageerror", (e) => saw.errors.push(String(e)));
  tab.on("dialog", (d) => { saw.errors.push("dialog: " + d.message()); d.dismiss(); });
  tab.on("request", (r) => { if (!r.url().startsWith(own) && !r.url().startsWith("data:")) saw.requests.push(r.url()); });
  const count = async () => Number(await tab.locator("#list").getAttribute("data-count"));
  const painted = () => tab.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
  const start = Date.now();
  await tab.goto(url);
  await tab.waitForSelector(".row", { timeout: 60000 });
  await tab.waitForFunction(() => session.about && !session.about.live && session.frames.at(-1)?.seq === session.about.frames, null, { timeout: 60000 });
  await painted();
  saw.load = Date.now() - start;
  saw.address = tab.url();
  saw.about = await tab.textContent("#count");
  saw.ids = await count();
  saw.range = await tab.textContent("#range");
  await tab.locator(".row").first().click();
  saw.what = await tab.textContent("#what");
  await tab.waitForFunction(() => document.getElementById("payload").textContent);
  saw.payload = await tab.textContent("#payload");
  saw.ledger = await tab.locator("#ledger div").count();
  for (const [scheme, width, height] of [["light", 1280, 800], ["dark", 800, 600]]) {
    await tab.emulateMedia({ colorScheme: scheme });
    await tab.setViewportSize({ width, height });
    await painted();
    await tab.screenshot({ path: `${pictures}/${scheme}.png` });
  }
  await tab.setViewportSize({ width: 1280, height: 800 });
  await tab.keyboard.press("T");
  saw.theme = await tab.evaluate(() => document.documentElement.dataset.theme);
  await tab.keyboard.press("Escape");
  saw.closed = await tab.locator("#detail").isHidden();
  await tab.keyboard.press("+");
  await tab.keyboard.press("+");
  await painted();
  // A heading sorts, chips filter and are counted, and a link leads to a call with its answer.
  const took = () => tab.evaluate(() => ui.shown.filter((x) => !x.isHead && !x.of).map((x) => tookOf(x)));
  const byRun = await tab.evaluate(() => ui.byRun);
  if (byRun) await tab.keyboard.press("b");
  await tab.locator("#head span").nth(9).click();
  await painted();
  const sorted = await took();
  saw.sorted = sorted.every((t, i) => !i || t <= sorted[i - 1]);
  await tab.evaluate(() => { ui.column = {}; });
  await tab.locator("#chips button").nth(1).click();
  await painted();
  saw.slow = await tab.textContent("#count");
  await tab.keyboard.press("x");
  await tab.locator(".row").first().click();
  await tab.waitForFunction(() => document.getElementById("payload").textContent);
  await tab.locator("#both .opens").first().click().catch(() => {});
  saw.folds = await tab.locator("#both .folded").count();
  saw.link = new URL(tab.url()).hash;
  await tab.keyboard.press("Escape");
  if (byRun) await tab.keyboard.press("b");
  saw.zoomed = await tab.textContent("#range");
  await tab.keyboard.press("0");

  // From a key to the next frame of the browser.
  await tab.evaluate(() => {
    window.times = [];
    addEventListener("keydown", (e) => {
      const at = e.timeStamp;
      requestAnimationFrame(() => {
        const c = new MessageChannel();
        c.port1.onmessage = () => times.push([e.key, performance.now() - at]);
        c.port2.postMessage(0);
      });
    }, true);
  });
  for (const key of ["j", "j", "k", "PageDown", "G", "g", "s", "s", "s", "s", "s", "s", "O", "O", "2", "j", "G", "g", "3", "j", "1"]) {
    await tab.keyboard.press(key);
    await painted();
  }
  saw.keys = (await tab.evaluate(() => times)).sort((a, b) => b[1] - a[1]);

  await tab.keyboard.press("?");
  saw.help = await tab.textContent("#help");
  await tab.keyboard.press("?");
  await tab.keyboard.press("2");
  saw.frames = await count();
  await tab.keyboard.press("G");
  await painted();
  saw.last = await tab.locator(".row.picked").textContent();
  await tab.keyboard.press("/");
  await tab.keyboard.type("cancel");
  await tab.waitForFunction(() => !isLive || ui.filter.terms.every((t) => t.next > session.frames.at(-1).seq), null, { timeout: 60000 });
  await tab.waitForFunction(() => !ui.stale, null, { timeout: 60000 });
  saw.found = await count();
  await tab.fill("#search", "dir==u2c and kind==result");
  await painted();
  saw.filtered = await count();
  await tab.keyboard.press("Escape");
  await tab.keyboard.press("x");
  await tab.keyboard.press("3");
  saw.findings = await count();
  await tab.keyboard.press("4");
  await tab.waitForSelector("#kinds tr");
  saw.kinds = await tab.locator("#kinds tr").count() - 1;
  saw.markup = await tab.evaluate(() => {
    const own = new Set("MAIN SECTION ASIDE HEADER NAV FOOTER DIV SPAN B A I STRONG INPUT BUTTON CANVAS DIALOG FORM TEXTAREA P PRE CODE KBD BR H3 TABLE TBODY CAPTION TR TH TD SCRIPT DATALIST OPTION".split(" "));
    return [...document.body.querySelectorAll("*")].filter((e) => !own.has(e.tagName)).length + document.querySelectorAll("script").length - 2 + document.querySelectorAll("[href]").length - document.querySelectorAll("#home[href='/']").length +
      document.querySelectorAll("[src], [onclick], [onerror], [style*=url]").length;
  });
} finally {
  await browser.close();
}
console.log(JSON.stringify(saw));
