// A page in Chromium, driven by puppeteer over the pipe of the browser: what is open when a
// navigation or the page ends is never answered, or by an error.
import { createRequire } from "node:module";
import http from "node:http";
const [modules, browserPath] = process.argv.slice(2);
const puppeteer = createRequire(modules + "/")("puppeteer-core");

const slow = http.createServer((request, response) => {
  if (request.url === "/slow") return; // is never answered
  response.setHeader("Content-Type", "text/html");
  response.end("<title>Harbour</title>");
});
await new Promise((done) => slow.listen(0, "127.0.0.1", done));
const address = `http://127.0.0.1:${slow.address().port}`;

const browser = await puppeteer.launch({
  executablePath: browserPath, pipe: true, headless: true,
  args: ["--no-sandbox", "--disable-gpu", "--disable-extensions", "--disable-background-networking", "--disable-component-update"],
});
const page = await browser.newPage();
await page.goto(address + "/");
console.log(await page.title());

// A navigation that is stopped is a result with an errorText.
const session = await page.createCDPSession();
const seen = new Promise((done) => slow.once("request", done));
const navigation = session.send("Page.navigate", { url: address + "/slow" });
await seen;
await session.send("Page.stopLoading");
console.log((await navigation).errorText);

// A command in a page that is closed is not answered.
const open = page.evaluate(() => new Promise(() => {})).catch((error) => error.message);
await page.evaluate(() => 1);
await page.close();
console.log(await open);
await browser.close();
slow.close();
slow.closeAllConnections();
