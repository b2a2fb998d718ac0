// Posts a request from a page, and records it: node har.mjs PLAYWRIGHT CHROMIUM URL BODY FILE.
// It prints the answer's text as JSON.
const [playwright, executablePath, url, body, path] = process.argv.slice(2);
const { chromium } = (await import(playwright)).default;
const browser = await chromium.launch({ executablePath, args: ["--headless", "--no-sandbox", "--disable-gpu"] });
try {
  const context = await browser.newContext({ recordHar: { path } });
  const tab = await context.newPage();
  await tab.goto(new URL("/v1/models", url).href);
  const text = await tab.evaluate(
    async ([url, body]) => (await fetch(url, { method: "POST", headers: { "Content-Type": "application/json" }, body })).text(),
    [url, body],
  );
  await context.close();
  console.log(JSON.stringify({ text }));
} finally {
  await browser.close();
}
