"use strict";
// The page of a session. All that came from the wire is shown by textContent or
// drawn on a canvas, and so can never be markup.
const $ = (id) => document.getElementById(id);
const ROW = 22, HEAD = 24, LABEL = 330, END = 190;
const ARROW = [" ", "→", "←"];
const GLYPH = { done: "●", failed: "✖", cancelled: "⊘", crossed: "✗", ignored: "✗", "late-result": "✗", silent: "┄", unanswered: "╳", "in-flight": "▸", cancelling: "✗" };
let d, view = "ids", shown = [], picked = -1, from = 0, to = 1, whole = [0, 1], drag = null, queued = false;
const ticks = new Map(); // exchange → indexes of its frames

async function unpack() {
  const raw = Uint8Array.from(atob($("data").textContent.trim()), (c) => c.charCodeAt(0));
  const stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

function begin(data) {
  d = data;
  const f = d.frames;
  for (const k of Object.keys(f)) f[k] = f[k] || [];
  f.of.forEach((x, i) => { if (x >= 0) { const l = ticks.get(x); l ? l.push(i) : ticks.set(x, [i]); } });
  let min = Infinity, max = -Infinity;
  for (const t of f.time) { if (t < min) min = t; if (t > max) max = t; }
  if (!(max > min)) { min = min === Infinity ? 0 : min; max = min + 1; }
  whole = [min - (max - min) * 0.01, max + (max - min) * 0.01];
  [from, to] = whole;
  const n = (v, w) => v.toLocaleString("en") + " " + w + (v === 1 ? "" : "s");
  $("about").textContent = [d.protocols.join(", "), n(f.seq.length, "frame"), n(d.exchanges.length, "exchange"), n(d.findings.length, "finding"),
    d.begun ? new Date(d.begun).toISOString().replace("T", " ").slice(0, 19) + " UTC" : "", d.dropped ? n(d.dropped, "frame") + " left out" : ""].filter(Boolean).join(" · ");
  for (const b of document.querySelectorAll("#tabs [data-view]")) {
    if (b.dataset.view === "findings" && d.findings.length) b.textContent = "Findings " + d.findings.length;
    b.onclick = () => turn(b.dataset.view);
  }
  turn("ids");
}

function turn(to) {
  view = to;
  for (const b of document.querySelectorAll("#tabs [data-view]")) b.setAttribute("aria-selected", b.dataset.view === view);
  $("zoom").style.visibility = view === "ids" ? "visible" : "hidden";
  $("rows").scrollTop = 0;
  filter();
}

// filter chooses the rows that the search text matches.
function filter() {
  const q = $("search").value.toLowerCase(), f = d.frames;
  const frame = (i) => f.id[i].toLowerCase().includes(q) || d.kinds[f.kind[i]].toLowerCase().includes(q) || f.payload[i].toLowerCase().includes(q) || f.says[i].toLowerCase().includes(q);
  const exchange = (x) => x.id.toLowerCase().includes(q) || (x.kind + " " + (x.label || "")).toLowerCase().includes(q) || x.outcome.includes(q);
  if (view === "ids") {
    shown = [...d.exchanges.keys()].filter((i) => !q || exchange(d.exchanges[i]) || (ticks.get(i) || []).some(frame));
  } else if (view === "frames") {
    shown = [...f.seq.keys()].filter((i) => !q || frame(i));
  } else if (view === "findings") {
    shown = [...d.findings.keys()].filter((i) => !q || JSON.stringify(d.findings[i]).toLowerCase().includes(q));
  } else {
    shown = [...d.stats.keys()].filter((i) => !q || d.stats[i].kind.toLowerCase().includes(q));
  }
  $("list").dataset.count = shown.length;
  draw();
}

function draw() { if (!queued) { queued = true; requestAnimationFrame(paint); } }

// paint makes the rows that are seen, and no others.
function paint() {
  queued = false;
  const rows = $("rows"), height = rows.clientHeight;
  const table = view === "stats", lines = view === "findings" ? 2 : 1;
  // No browser makes an element higher than some ten million pixels.
  const total = shown.length * ROW * lines + HEAD, scale = Math.max(1, total / 8e6);
  $("space").style.height = (table ? 0 : total / scale) + "px";
  for (const e of [...rows.children]) if (e.id !== "space") e.remove();
  const canvas = $("canvas"), ratio = devicePixelRatio || 1, width = rows.clientWidth;
  canvas.width = width * ratio; canvas.height = height * ratio;
  const c = canvas.getContext("2d");
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  if (table) return stats(rows);
  const top = rows.scrollTop * scale;
  const first = Math.floor(top / (ROW * lines)), last = Math.min(shown.length, first + Math.ceil(height / (ROW * lines)) + 1);
  for (let r = first; r < last; r++) {
    const y = rows.scrollTop + HEAD + r * ROW * lines - top;
    if (view === "ids") { lane(c, shown[r], y - rows.scrollTop, width); hit(rows, shown[r], y, () => pick(firstOf(shown[r]))); }
    else if (view === "frames") line(rows, frameText(shown[r]), y, () => pick(shown[r]), shown[r] === picked);
    else found(rows, d.findings[shown[r]], y);
  }
  if (view === "ids") axis(c, width);
}

const style = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
const firstOf = (x) => (ticks.get(x) || [])[0];

function line(rows, text, y, click, on) {
  const e = document.createElement("div");
  e.className = "text" + (on ? " picked" : "");
  e.style.top = y + "px";
  e.textContent = text;
  if (click) e.onclick = click;
  rows.append(e);
  return e;
}

function hit(rows, x, y, click) {
  const e = line(rows, "", y, click, picked >= 0 && d.frames.of[picked] === x);
  e.dataset.exchange = x;
  e.title = d.exchanges[x].kind + " " + d.exchanges[x].id;
  e.style.opacity = 0.45;
}

function frameText(i) {
  const f = d.frames;
  return [String(f.seq[i]).padStart(7), d.timed ? (f.time[i] / 1e6).toFixed(6).padStart(13) : "", ARROW[f.dir[i]], d.kinds[f.kind[i]].padEnd(26), f.id[i].padEnd(10), String(f.size[i]).padStart(7), f.says[i]].join(" ");
}

const x0 = () => LABEL, x1 = (w) => Math.max(LABEL + 40, w - END);
const at = (t, w) => x0() + (t - from) / (to - from) * (x1(w) - x0());
const clip = (c, text, w) => { let n = text.length; if (c.measureText(text).width <= w) return text; while (n > 0 && c.measureText(text.slice(0, n) + "…").width > w) n = Math.floor(n * 0.9); return text.slice(0, n) + "…"; };

function color(x) {
  if (x.cancel && x.outcome !== "cancelled") return style(x.state === "silent" ? "silent" : "after");
  return style({ done: "done", failed: "failed", cancelled: "cancel", unanswered: "silent" }[x.state] || "c2u");
}

// lane draws the life of an exchange.
function lane(c, i, y, w) {
  const x = d.exchanges[i], mid = y + ROW / 2;
  c.font = "13px ui-monospace, Menlo, Consolas, monospace"; c.textBaseline = "middle"; c.textAlign = "left";
  c.fillStyle = style(x.dir === 2 ? "u2c" : "c2u"); c.fillText(x.findings ? "!" + ARROW[x.dir] : " " + ARROW[x.dir], 8, mid);
  c.fillStyle = style("silent"); c.fillText(clip(c, x.id.replace(/^"|"$/g, "") || "·", 90), 34, mid);
  c.fillStyle = style("fg"); c.fillText(clip(c, x.label ? x.kind + " " + x.label : x.kind, LABEL - 145), 132, mid);
  c.save(); c.beginPath(); c.rect(x0(), y, x1(w) - x0() + 8, ROW); c.clip();
  const a = at(x.opened, w), b = Math.max(at(x.end, w), a + 1), cut = x.cancel ? at(x.asked, w) : Infinity;
  c.fillStyle = style("wait"); c.fillRect(a, mid - 1, Math.min(b, cut) - a, 2); c.fillRect(a, mid - 5, 1, 10);
  if (cut < b) { c.fillStyle = style("after"); c.fillRect(cut, mid - 1, b - cut, 2); }
  let before = -9;
  for (const k of ticks.get(i) || []) {
    const t = at(d.frames.time[k], w);
    if (t - before < 0.7 || d.frames.dir[k] === x.dir) continue;
    before = t;
    c.fillStyle = style(t > cut ? "after" : "part"); c.fillRect(t - 1, mid - 5, 2, 10);
  }
  c.textAlign = "center";
  if (x.cancel) { c.fillStyle = style("cancel"); c.fillText("✗", cut, mid); }
  c.fillStyle = color(x); c.fillText(GLYPH[x.state] || "●", b, mid);
  c.restore();
  c.textAlign = "left"; c.fillStyle = color(x);
  c.fillText(clip(c, x.outcome + (x.after ? " +" + x.after : ""), 110), x1(w) + 14, mid);
  c.fillStyle = style("dim"); c.textAlign = "right"; c.fillText(d.timed ? span(x.end - x.opened) : "", w - 12, mid);
}

function span(us) {
  if (us < 0) return "-" + span(-us);
  if (us < 1e3) return us.toFixed(0) + "µs";
  if (us < 1e6) return (us / 1e3).toPrecision(3) + "ms";
  return us < 6e7 ? (us / 1e6).toPrecision(3) + "s" : Math.floor(us / 6e7) + "m" + Math.floor(us / 1e6) % 60 + "s";
}

function axis(c, w) {
  c.fillStyle = style("bg"); c.fillRect(0, 0, w, HEAD);
  c.font = "12px ui-monospace, Menlo, Consolas, monospace"; c.textBaseline = "middle"; c.textAlign = "left";
  const raw = (to - from) / 6, unit = 10 ** Math.floor(Math.log10(raw)), step = [1, 2, 5, 10].find((m) => m * unit >= raw) * unit;
  for (let t = Math.ceil(from / step) * step; t < to; t += step) {
    const x = at(t, w);
    c.fillStyle = style("line"); c.fillRect(x, 4, 1, HEAD - 8);
    c.fillStyle = style("dim"); c.fillText(d.timed ? (Math.abs(t) < step / 2 ? "0" : span(t)) : "#" + Math.round(t), x + 4, HEAD / 2);
  }
  $("range").textContent = d.timed ? span(to - from) : Math.round(to - from) + " frames";
}

function found(rows, f, y) {
  const e = line(rows, f.name.padEnd(18) + f.frames.map((n) => "#" + n).join(" ").padEnd(18) + f.message, y, () => pick(indexOf(f.frames[f.frames.length - 1])));
  e.classList.add(f.severity);
  line(rows, "    " + f.rule + ". " + f.do, y + ROW).classList.add("rule");
}

const indexOf = (seq) => seq - d.frames.seq[0];

function stats(rows) {
  const table = document.createElement("table"), head = table.insertRow();
  for (const h of ["kind", "frames", "bytes", "answers", "p50 ms", "p90 ms", "p99 ms", "max ms"]) { const th = document.createElement("th"); th.textContent = h; head.append(th); }
  for (const i of shown) {
    const k = d.stats[i], row = table.insertRow();
    for (const v of [k.kind, k.frames, k.bytes, k.count, k.p50, k.p90, k.p99, k.max]) row.insertCell().textContent = v === undefined ? "" : v.toLocaleString("en");
  }
  rows.append(table);
}

// pick shows a frame.
function pick(i) {
  if (i === undefined || i < 0 || i >= d.frames.seq.length) return;
  picked = i;
  const f = d.frames, x = d.exchanges[f.of[i]];
  $("detail").hidden = false;
  $("what").textContent = "#" + f.seq[i] + " " + ARROW[f.dir[i]] + " " + d.kinds[f.kind[i]] + " " + f.id[i];
  $("facts").textContent = f.size[i] + " bytes · conn " + f.conn[i] + (d.timed ? " · " + (f.time[i] / 1e6).toFixed(6) + " s" : "") + (x ? " · " + x.kind + " " + x.id + ": " + x.outcome : "");
  $("found").replaceChildren(...d.findings.filter((w) => w.frames.includes(f.seq[i])).map((w) => {
    const e = document.createElement("div"); e.className = w.severity; e.textContent = w.name + ": " + w.message + " (" + w.rule + ")"; return e;
  }));
  $("ledger").replaceChildren(...(ticks.get(f.of[i]) || []).slice(0, 500).map((k) => {
    const e = document.createElement("div");
    e.textContent = (k === i ? "▸ " : "  ") + (d.timed ? "+" + span(f.time[k] - x.opened) : "").padStart(9) + "  #" + f.seq[k] + " " + ARROW[f.dir[k]] + " " + d.kinds[f.kind[k]] + " " + f.says[k];
    if (x.cancel && f.time[k] > x.asked) e.className = "late";
    e.onclick = () => pick(k);
    return e;
  }));
  $("payload").textContent = pretty(f.payload[i]);
  draw();
}

// pretty indents JSON without reading it as values: numbers and repeated keys
// stay as they were written.
function pretty(text) {
  if (text.startsWith("hex:")) return text.slice(4).replace(/(.{2})/g, "$1 ").replace(/(.{48})/g, "$1\n");
  if (!/^\s*[[{]/.test(text)) return text;
  let out = "", depth = 0, quoted = false;
  for (let i = 0; i < text.length; i++) {
    const ch = text[i];
    if (quoted) { out += ch; if (ch === "\\") out += text[++i] || ""; else if (ch === '"') quoted = false; continue; }
    if (ch === '"') { quoted = true; out += ch; }
    else if (ch === "{" || ch === "[") { depth++; out += ch + (/^\s*[\]}]/.test(text.slice(i + 1, i + 9)) ? "" : "\n" + "  ".repeat(depth)); }
    else if (ch === "}" || ch === "]") { depth--; out += (/[[{]$/.test(out) ? "" : "\n" + "  ".repeat(Math.max(depth, 0))) + ch; }
    else if (ch === ",") out += ",\n" + "  ".repeat(depth);
    else if (ch === ":") out += ": ";
    else if (!/\s/.test(ch)) out += ch;
  }
  return out;
}

function zoom(by, x) {
  const w = $("rows").clientWidth, share = x === undefined ? 0.5 : Math.min(1, Math.max(0, (x - x0()) / (x1(w) - x0())));
  const mid = from + (to - from) * share, width = Math.min((to - from) / by, whole[1] - whole[0]);
  from = mid - width * share; to = from + width;
  keepInside();
}
function pan(dt) { from += dt; to += dt; keepInside(); }
function keepInside() {
  const w = to - from;
  if (from < whole[0]) { from = whole[0]; to = from + w; }
  if (to > whole[1]) { to = whole[1]; from = to - w; }
  draw();
}

$("rows").addEventListener("scroll", draw);
$("rows").addEventListener("wheel", (e) => {
  if (view !== "ids" || !(e.ctrlKey || e.shiftKey || e.deltaX)) return;
  e.preventDefault();
  if (e.ctrlKey) zoom(e.deltaY < 0 ? 1.25 : 0.8, e.offsetX); else pan((e.deltaX || e.deltaY) / 600 * (to - from));
}, { passive: false });
$("rows").addEventListener("pointerdown", (e) => { if (view === "ids" && e.clientX > LABEL) drag = e.clientX; });
addEventListener("pointermove", (e) => { if (drag !== null && Math.abs(e.clientX - drag) > 2) { const w = $("rows").clientWidth; pan(-(e.clientX - drag) / (x1(w) - x0()) * (to - from)); drag = e.clientX; } });
addEventListener("pointerup", () => { drag = null; });
addEventListener("resize", draw);
$("search").addEventListener("input", filter);
$("in").onclick = () => zoom(2); $("out").onclick = () => zoom(0.5); $("fit").onclick = () => { [from, to] = whole; draw(); };
$("close").onclick = () => { $("detail").hidden = true; picked = -1; draw(); };
addEventListener("keydown", (e) => {
  if (e.target === $("search")) { if (e.key === "Escape") $("search").blur(); return; }
  const act = { "/": () => { e.preventDefault(); $("search").focus(); }, "+": () => zoom(2), "-": () => zoom(0.5), 0: () => $("fit").click(), Escape: () => $("close").click(),
    ArrowLeft: () => pan(-(to - from) / 8), ArrowRight: () => pan((to - from) / 8), j: () => pick(picked + 1), k: () => pick(picked - 1) }[e.key];
  if (act && !e.ctrlKey && !e.metaKey) act();
});
unpack().then(begin).catch((e) => { $("wrong").hidden = false; $("wrong").textContent = "This page cannot be read here: " + e; throw e; });
