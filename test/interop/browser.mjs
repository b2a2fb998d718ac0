// Looks at the page of `wirectl report` as a person would: node browser.mjs
// PLAYWRIGHT CHROMIUM PAGE PICTURE. It prints what it saw as JSON.
const [playwright, executablePath, page, picture] = process.argv.slice(2);
const { chromium } = (await import(playwright)).default;
const browser = await chromium.launch({
  executablePath,
  args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync"],
});
const saw = { errors: [], requests: [] };
try {
  const tab = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  tab.on("console", (m) => { if (m.type() === "error" || m.type() === "warning") saw.errors.push(m.text()); });
  tab.on("pageerror", (e) => saw.errors.push(String(e)));
  tab.on("dialog", (d) => { saw.errors.push("dialog: " + d.message()); d.dismiss(); });
  tab.on("request", (r) => { if (!r.url().startsWith("file:") && !r.url().startsWith("data:")) saw.requests.push(r.url()); });
  const count = async () => Number(await tab.locator("#list").getAttribute("data-count"));
  const start = Date.now();
  await tab.goto("file://" + page);
  await tab.waitForSelector("#list[data-count]", { timeout: 60000 });
  saw.load = Date.now() - start;
  saw.about = await tab.textContent("#about");
  saw.ids = await count();
  saw.range = await tab.textContent("#range");
  await tab.waitForSelector(".text");
  await tab.locator(".text").first().click();
  saw.what = await tab.textContent("#what");
  saw.payload = await tab.textContent("#payload");
  saw.ledger = await tab.locator("#ledger div").count();
  await tab.click("#in");
  await tab.click("#in");
  await tab.waitForTimeout(100);
  saw.zoomed = await tab.textContent("#range");
  await tab.click("#fit");
  await tab.screenshot({ path: picture });
  await tab.click("[data-view=frames]");
  saw.frames = await count();
  await tab.locator("#rows").evaluate((e) => { e.scrollTop = e.scrollHeight; });
  await tab.waitForTimeout(100);
  saw.last = await tab.locator(".text").last().textContent();
  await tab.fill("#search", "cancel");
  await tab.waitForTimeout(100);
  saw.found = await count();
  await tab.fill("#search", "");
  await tab.click("[data-view=findings]");
  saw.findings = await count();
  await tab.click("[data-view=stats]");
  await tab.waitForSelector("table tr");
  saw.kinds = await tab.locator("table tr").count() - 1;
  saw.markup = await tab.locator("main img, main script, main iframe").count();
} finally {
  await browser.close();
}
console.log(JSON.stringify(saw));
