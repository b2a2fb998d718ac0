// Presses every key that the help of a page names: node keys.mjs PLAYWRIGHT CHROMIUM URL [WIRE]. It prints the
// keys, and those of them that change nothing, as JSON. WIRE is the page of a relay that takes commands.
import { open } from "./commands.mjs";
const wire = process.argv[5];
const { browser, tab } = await open();
const saw = { errors: [], keys: [], idle: [] };
const ofWire = ["X", "R", "H", "u", "e", "D"];
// What is pressed before a key, so that it has something to do.
const before = {
  1: ["2"], Enter: ["g"], Escape: ["g", "Enter"], Backspace: ["g", "Enter"], k: ["G"], ArrowUp: ["G"], PageUp: ["G"], "C-b": ["G"], "C-u": ["G"], j: ["g"], ArrowDown: ["g"], PageDown: ["g"], "C-f": ["g"], "C-d": ["g"], g: ["G"], Home: ["G"], G: ["g"], End: ["g"],
  h: ["+", "+"], ArrowLeft: ["+", "+"], l: ["+", "+", "h"], ArrowRight: ["+", "+", "h"], b: [], o: ["g"], 0: ["+"], n: ["g"], N: ["G"], x: ["E"], m: ["g"], "|": ["g", "Enter"], y: ["g", "j", "j"], Y: ["g"], S: ["b"],
};
const press = async (key) => {
  await tab.keyboard.press(key.startsWith("C-") ? "Control+" + key.slice(2) : key === " " ? "Space" : key);
  await tab.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
};
const state = () => tab.evaluate(() => JSON.stringify([ui.view, ui.at, ui.sort, ui.openOnly, ui.byRun, ui.allUnfolded, [...ui.unfolded], [...ui.cut], ui.lit, ui.follow, ui.frozen, ui.filter?.text, ui.detail?.seq, scale, session.bookmarks.size, location.hash,
  document.activeElement.id, [...document.querySelectorAll("dialog[open]")].map((e) => e.id), document.documentElement.dataset.theme, document.getElementById("said").textContent, window.copied]));
const reset = async () => {
  await tab.evaluate(() => { for (const d of document.querySelectorAll("dialog[open]")) d.close(); document.activeElement.blur(); });
  await tab.evaluate(() => { if (ui.frozen) freeze(); if (ui.detail) hide(); filterBy(""); turn("ids"); if (ui.openOnly) ui.openOnly = false; if (ui.byRun !== Boolean(session.about.run)) groupRuns(); scale.auto = true; scale.sight = false; say(""); window.copied = ""; ui.stale = true; paint(true); });
};
try {
  tab.on("pageerror", (e) => saw.errors.push(String(e)));
  await tab.waitForFunction(() => session.about && session.frames.at(-1)?.seq === session.about.frames && ui.shown.length > 0, null, { timeout: 60000 });
  await tab.evaluate(() => { navigator.clipboard.writeText = (text) => { window.copied = text; }; });
  saw.keys = await tab.evaluate(() => keys.flatMap(([, ...list]) => list.flatMap(([key, , , ...also]) => [key, ...also])));
  for (const key of saw.keys) {
    if (ofWire.includes(key)) continue;
    await reset();
    for (const first of before[key] || []) await press(first);
    const was = await state();
    await press(key === "S-Tab" ? "Shift+Tab" : key);
    if (key === "y") await tab.waitForFunction(() => window.copied || document.getElementById("said").textContent);
    if (await state() === was) saw.idle.push(key);
  }
  if (wire) {
    await tab.goto(wire);
    await tab.waitForFunction(() => session.about?.commands && session.about.open > 0 && ui.shown.length > 0, null, { timeout: 60000 });
    const does = async (key, text) => {
      await tab.evaluate(() => say(""));
      await press(key);
      await tab.waitForSelector("#ask[open]");
      if (text !== undefined) await tab.fill("#answer", text);
      await tab.click("#yes");
      await tab.waitForFunction(() => document.getElementById("said").textContent, null, { timeout: 60000 });
      const said = await tab.textContent("#said");
      if (!said.startsWith("done: ")) saw.idle.push(key + ": " + said);
    };
    await press("g");
    await does("H", "kind==RESPONSE_CHUNK");
    for (const key of ["u", "D", "e"]) {
      await tab.waitForFunction((last) => session.about.first && session.about.first.number !== last, await tab.evaluate(() => window.last), { timeout: 60000 });
      await tab.evaluate(() => { window.last = session.about.first.number; });
      const text = key === "e" ? (await tab.evaluate(() => session.about.first.text)).replace(/word/, "other") : undefined;
      await does(key, text);
    }
    await does("H", "");
    await does("R");
    await does("X");
  }
} finally {
  await browser.close();
}
console.log(JSON.stringify(saw));
