"use strict";
// The page of a session. All that came from the wire is shown by textContent or
// drawn on a canvas, and so can never be markup.
const $ = (id) => document.getElementById(id);
const ROW = 22, HEAD = 24, END = 222;
const FONT = '13px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace';
const ARROW = [" ", "→", "←"];
let d, view = "ids", shown = [], named = [], picked = -1, from = 0, to = 1, whole = [0, 1], ends = [0, 1], drag = null, queued = false;
const ticks = new Map(); // exchange → indexes of its frames
const below = new Map(); // operation → indexes of the exchanges that belong to it
const unfolded = new Set(); // operations
let longest = 0; // name of an exchange, in characters
let style = {}; // the colours of the page

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
  d.exchanges.forEach((x, i) => {
    if (x.of >= 0) { const l = below.get(x.of); l ? l.push(i) : below.set(x.of, [i]); }
    longest = Math.max(longest, (x.name || x.kind).length);
  });
  let min = Infinity, max = -Infinity;
  for (const t of f.time) { if (t < min) min = t; if (t > max) max = t; }
  for (const x of d.exchanges || []) max = Math.max(max, x.end); // with its connection
  if (!(max > min)) { min = min === Infinity ? 0 : min; max = min + 1; }
  ends = [min, max];
  whole = [min - (max - min) * 0.01, max + (max - min) * 0.01];
  [from, to] = whole;
  const failed = d.exchanges.filter((x) => x.of < 0 && x.state === "failed").length;
  const n = (v, w) => v.toLocaleString("en") + " " + w + (v === 1 ? "" : "s");
  $("about").textContent = [d.protocols.join(", "), n(f.seq.length, "frame"), n(d.exchanges.length, "exchange"),
    failed ? failed.toLocaleString("en") + " failed" : "", n(d.findings.length, "finding"),
    d.begun ? new Date(d.begun).toISOString().replace("T", " ").slice(0, 19) + " UTC" : "", d.gone ? n(d.gone, "earlier exchange") + " left out" : "",
    d.dropped ? n(d.dropped, "earlier frame") + " left out" : "", d.untold ? n(d.untold, "payload") + " left out" : ""].filter(Boolean).join(" · ");
  for (const b of document.querySelectorAll("#tabs [data-view]")) {
    if (b.dataset.view === "findings" && d.findings.length) b.textContent = "Findings " + d.findings.length;
    b.onclick = () => turn(b.dataset.view);
  }
  legend();
  turn("ids");
}

// part makes an element with a text.
function part(text, name, tag = "span") {
  const e = document.createElement(tag);
  e.textContent = text;
  if (name) e.className = name;
  return e;
}

// legend says what the marks of lanes mean, drawn as the lanes draw them.
function legend() {
  for (const [state, text] of [["part", "part"], ["done", "done"], ["failed", "failed"], ["asked", "cancel asked"], ["after", "came after it"], ["cancelled", "cancelled"], ["silent", "no answer"]]) {
    const mark = document.createElement("canvas"), e = part("");
    mark.width = mark.height = 28; mark.style.width = mark.style.height = "14px"; mark.style.verticalAlign = "-2px"; mark.dataset.state = state;
    e.append(mark, " " + text);
    if (state === "failed") e.title = "failed, tool-error, timed-out or died";
    $("legend").append(e);
  }
  const colored = () => {
    const s = getComputedStyle(document.documentElement);
    style = new Proxy({}, { get: (all, name) => all[name] ??= s.getPropertyValue("--" + name).trim() });
    for (const mark of document.querySelectorAll("#legend canvas")) {
      const c = mark.getContext("2d");
      c.setTransform(2, 0, 0, 2, 0, 0); c.clearRect(0, 0, 14, 14);
      if (mark.dataset.state === "part" || mark.dataset.state === "after") { c.fillStyle = style[mark.dataset.state]; c.fillRect(6, 2, 3, 10); } else sign(c, mark.dataset.state, 7, 7);
    }
    if (d) draw();
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", colored);
  colored();
}

// sign draws what became of an exchange; states differ in shape, too.
function sign(c, state, x, y) {
  c.lineWidth = 2; c.lineCap = "round";
  const cross = (r) => { c.beginPath(); c.moveTo(x - r, y - r); c.lineTo(x + r, y + r); c.moveTo(x + r, y - r); c.lineTo(x - r, y + r); c.stroke(); };
  const circle = (r) => { c.beginPath(); c.arc(x, y, r, 0, 7); };
  c.strokeStyle = c.fillStyle = color(state);
  switch (state) {
    case "done": circle(4); c.fill(); break;
    case "failed": circle(5); c.fill(); c.strokeStyle = style.bg; c.lineWidth = 1.5; cross(2); break;
    case "cancelled": circle(4); c.stroke(); c.beginPath(); c.moveTo(x - 2.8, y + 2.8); c.lineTo(x + 2.8, y - 2.8); c.stroke(); break;
    case "in-flight": c.beginPath(); c.moveTo(x - 3, y - 4); c.lineTo(x + 4, y); c.lineTo(x - 3, y + 4); c.fill(); break;
    case "abandoned": case "silent": c.lineWidth = 1.5; circle(4); c.setLineDash([2, 2.2]); c.stroke(); c.setLineDash([]); break;
    case "asked": case "cancelling": cross(3.5); break;
    default: c.beginPath(); c.moveTo(x, y - 5); c.lineTo(x + 5, y); c.lineTo(x, y + 5); c.lineTo(x - 5, y); c.fill(); // it ended in spite of a cancel
  }
}

const color = (state) => style[{ done: "done", failed: "failed", cancelled: "cancel", asked: "cancel", cancelling: "cancel", silent: "silent", abandoned: "silent", "in-flight": "c2u" }[state] || "after"];

function turn(to) {
  view = to;
  for (const b of document.querySelectorAll("#tabs [data-view]")) b.setAttribute("aria-selected", b.dataset.view === view);
  $("zoom").style.visibility = $("legend").style.visibility = view === "ids" ? "visible" : "hidden";
  $("rows").scrollTop = 0;
  filter();
}

// filter chooses the rows that the search text matches.
function filter() {
  const q = $("search").value, f = d.frames, re = new RegExp(q.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "i"), has = (text) => re.test(text);
  const frame = (i) => has(f.id[i]) || has(d.kinds[f.kind[i]]) || has(f.says[i]) || has(f.payload[i]);
  const exchange = (x) => has(x.id) || has(x.kind + " " + (x.name || "")) || has(x.outcome + " " + x.state);
  if (view === "ids") {
    const match = (i) => exchange(d.exchanges[i]) || (ticks.get(i) || []).some(frame);
    shown = [...d.exchanges.keys()].filter((i) => {
      const x = d.exchanges[i];
      if (x.of >= 0) return unfolded.has(x.of) && (!q || match(i));
      return !q || match(i) || (below.get(i) || []).some(match);
    });
  } else if (view === "frames") {
    shown = [...f.seq.keys()].filter((i) => !q || frame(i));
  } else if (view === "findings") {
    shown = [...d.findings.keys()].filter((i) => !q || has(JSON.stringify(d.findings[i])));
  } else {
    shown = [...d.stats.keys()].filter((i) => !q || has(d.stats[i].kind));
    named = d.names.filter((x) => !q || has(x.kind + " " + x.name));
  }
  $("list").dataset.count = shown.length;
  draw();
}

function draw() { if (d && !queued) { queued = true; requestAnimationFrame(paint); } }

// paint makes the rows that are seen, and no others.
function paint() {
  queued = false;
  const rows = $("rows"), height = rows.clientHeight;
  const table = view === "stats", lines = view === "findings" ? 2 : 1;
  // No browser makes an element higher than some ten million pixels.
  const total = shown.length * ROW * lines, scale = Math.max(1, total / 8e6);
  $("space").style.height = (table ? 0 : total / scale) + "px";
  $("head").style.display = table ? "none" : "";
  for (const e of [...rows.children]) if (e.id !== "space" && e.id !== "head") e.remove();
  const canvas = $("canvas"), ratio = devicePixelRatio || 1, width = rows.clientWidth;
  canvas.width = width * ratio; canvas.height = height * ratio;
  const c = canvas.getContext("2d");
  c.setTransform(ratio, 0, 0, ratio, 0, 0); c.font = FONT; c.textBaseline = "middle";
  if (table) return stats(rows);
  heading();
  if (view === "ids") axis(c, width, height);
  const top = rows.scrollTop * scale;
  const first = Math.floor(top / (ROW * lines)), last = Math.min(shown.length, first + Math.ceil(height / (ROW * lines)) + 1);
  c.save(); c.beginPath(); c.rect(0, HEAD, width, height); c.clip();
  for (let r = first; r < last; r++) {
    const y = rows.scrollTop + HEAD + r * ROW * lines - top;
    if (view === "ids") { hit(rows, shown[r], y); lane(c, shown[r], y - rows.scrollTop, width); }
    else if (view === "frames") frameRow(rows, shown[r], y);
    else found(rows, d.findings[shown[r]], y);
  }
  c.restore();
  if (!shown.length) row(rows, [part(view === "findings" && !$("search").value ? "no rule was broken" : "nothing here matches", "dim")], HEAD);
}

const firstOf = (x) => (ticks.get(x) || [])[0];

// row adds a line of a list; with columns, their widths are as of a grid.
function row(rows, parts, y, click, columns) {
  const e = document.createElement("div");
  e.className = "text" + (columns ? " columns" : "");
  e.style.top = y + "px";
  if (columns) e.style.gridTemplateColumns = columns;
  e.append(...parts);
  if (click) e.onclick = click;
  rows.append(e);
  return e;
}

// heading names the columns of the list.
function heading() {
  const names = { frames: ["#", "time", "", "kind", "id", "bytes", "what it says"], findings: ["", "finding", "frames", "what was found"] }[view];
  $("head").replaceChildren();
  if (!names) return;
  const e = row($("head"), names.map((n) => part(n, n === "#" || n === "time" || n === "bytes" ? "r" : "")), 0, null, COLUMNS[view]);
  e.className = "columns"; e.style.padding = "2px 14px";
}

const COLUMNS = { frames: "56px 84px 10px minmax(110px, 1.4fr) minmax(44px, 0.6fr) 56px minmax(100px, 3fr)", findings: "10px 150px 150px minmax(0, 1fr)" };

function hit(rows, x, y) {
  const e = row(rows, [], y, () => pick(firstOf(x)));
  if (picked >= 0 && d.frames.of[picked] === x) e.classList.add("picked");
  e.dataset.exchange = x;
  e.title = (d.exchanges[x].name || "") + " " + d.exchanges[x].kind + " " + d.exchanges[x].id;
  if (!below.has(x)) return;
  const b = part(unfolded.has(x) ? "▾" : "▸", "fold", "button");
  b.title = "what belongs to it (o)"; b.setAttribute("aria-expanded", unfolded.has(x));
  b.onclick = (ev) => { ev.stopPropagation(); fold(x); };
  e.append(b);
}

// fold folds an operation, or unfolds it.
function fold(x) {
  if (x === undefined) return;
  const op = d.exchanges[x].of >= 0 ? d.exchanges[x].of : x;
  if (!unfolded.delete(op) && below.has(op)) unfolded.add(op);
  filter();
}

// foldAll folds all operations, or unfolds them.
function foldAll() {
  const any = unfolded.size > 0;
  unfolded.clear();
  if (!any) for (const op of below.keys()) unfolded.add(op);
  filter();
}

// framesOf returns the frames of an exchange and of what belongs to it.
function framesOf(x) {
  const own = ticks.get(x) || [], more = below.get(x);
  return more ? [own, ...more.map((i) => ticks.get(i) || [])].flat().sort((a, b) => a - b) : own;
}

const side = (dir) => ["", "c2u", "u2c"][dir];

function frameRow(rows, i, y) {
  const f = d.frames;
  const e = row(rows, [part(f.seq[i], "r dim"), part(d.timed ? (f.time[i] / 1e6).toFixed(6) : "", "r dim"), part(ARROW[f.dir[i]], side(f.dir[i])),
    part(d.kinds[f.kind[i]], "name"), part(bare(f.id[i]), "id"), part(f.size[i].toLocaleString("en"), "r dim"), part(f.says[i])], y, () => pick(i), COLUMNS.frames);
  if (i === picked) e.classList.add("picked");
  else if (picked >= 0 && f.of[i] >= 0 && f.of[i] === f.of[picked]) e.classList.add("same");
}

// bare is an id without the quotes of JSON.
const bare = (id) => id.replace(/^"(.*)"$/, "$1");

const idAt = () => below.size ? 60 : 42, nameAt = (w) => idAt() + (w < 900 ? 62 : 94);
const label = (w) => Math.min(Math.max(w < 900 ? 250 : 350, nameAt(w) + longest * 8.3 + 14), Math.max(w * 0.4, 250));
const x0 = (w) => label(w), x1 = (w) => Math.max(label(w) + 40, w - END);
const at = (t, w) => x0(w) + (t - from) / (to - from) * (x1(w) - x0(w));
const clip = (c, text, w) => { let n = text.length; if (c.measureText(text).width <= w) return text; while (n > 0 && c.measureText(text.slice(0, n) + "…").width > w) n = Math.floor(n * 0.9); return text.slice(0, n) + "…"; };

// lane draws the life of an exchange.
function lane(c, i, y, w) {
  const x = d.exchanges[i], mid = y + ROW / 2, narrow = w < 900;
  c.textAlign = "left";
  c.fillStyle = style[x.dir === 2 ? "u2c" : "c2u"]; c.fillText(ARROW[x.dir], 24, mid);
  if (x.findings) { c.fillStyle = style.failed; c.fillText("!", 12, mid); }
  if (x.of >= 0) { c.fillStyle = style.dim; c.fillText(x.guessed ? "└?" : "└", 42, mid); }
  c.fillStyle = style.id; c.fillText(clip(c, bare(x.id) || "·", narrow ? 54 : 84), idAt(), mid);
  const left = nameAt(w), name = clip(c, x.name || x.kind, label(w) - left - 14);
  c.font = "600 " + FONT; c.fillStyle = style.fg; c.fillText(name, left, mid);
  const after = left + c.measureText(name + " ").width;
  c.font = FONT;
  if (x.name && after < label(w) - 40) { c.fillStyle = style.dim; c.fillText(clip(c, x.kind, label(w) - after - 14), after, mid); }
  c.save(); c.beginPath(); c.rect(x0(w) - 6, y, x1(w) - x0(w) + 14, ROW); c.clip();
  const a = at(x.opened, w), b = Math.max(at(x.end, w), a + 1), cut = x.cancel ? at(x.asked, w) : Infinity;
  c.fillStyle = style.wait; c.fillRect(a, mid - 1, Math.min(b, cut) - a, 2); c.fillRect(a - 1, mid - 5, 2, 10);
  if (cut < b) { c.fillStyle = style.after; c.fillRect(cut, mid - 1, b - cut, 2); }
  const list = ticks.get(i) || [], time = d.frames.time;
  let before = -9, k = 0;
  for (let n = list.length; k < n;) { const m = (k + n) >> 1; if (time[list[m]] < from) k = m + 1; else n = m; }
  for (; k < list.length && time[list[k]] <= to; k++) {
    const t = at(time[list[k]], w);
    if (t - before < 0.7 || d.frames.dir[list[k]] === x.dir || t > b - 3 && !x.open) continue;
    before = t;
    c.fillStyle = style[t > cut ? "after" : "part"]; c.fillRect(t - 1, mid - 5, 2.5, 10);
  }
  if (x.cancel) sign(c, "asked", cut, mid);
  if (!x.cancel || b - cut > 6) sign(c, x.state, b, mid);
  c.restore();
  sign(c, x.state, x1(w) + 22, mid);
  c.textAlign = "left"; c.fillStyle = color(x.state);
  c.fillText(clip(c, x.outcome + (x.after ? " +" + x.after : ""), 126), x1(w) + 34, mid);
  c.fillStyle = style.dim; c.textAlign = "right"; c.fillText(d.timed && (x.end > x.opened || list.length > 1) ? span(x.took || 0) : "", w - 12, mid);
}

function span(us) {
  if (us < 0) return "-" + span(-us);
  if (us < 1e3) return us.toFixed(0) + "µs";
  if (us < 1e6) return (us / 1e3).toPrecision(3) + "ms";
  return us < 6e7 ? (us / 1e6).toPrecision(3) + "s" : Math.floor(us / 6e7) + "m" + Math.floor(us / 1e6) % 60 + "s";
}

// tick is span with as many digits as steps of the axis take.
function tick(us, step) {
  const size = Math.abs(us), unit = size < 1e3 ? 1 : size < 1e6 ? 1e3 : 1e6;
  const digits = Math.max(0, Math.ceil(-Math.log10(step / unit) - 1e-9)), sign = us < 0 ? "-" : "";
  if (size < 6e7) return sign + (size / unit).toFixed(digits) + (unit === 1 ? "µs" : unit === 1e3 ? "ms" : "s");
  const seconds = Math.round(size / 1e6 * 10 ** digits) / 10 ** digits;
  return sign + Math.floor(seconds / 60) + "m" + (seconds % 60).toFixed(digits) + "s";
}

// axis draws the scale of the lanes, and its lines behind them.
function axis(c, w, h) {
  c.textAlign = "left"; c.fillStyle = style.dim;
  c.fillText("id", idAt(), HEAD / 2); c.fillText("name", nameAt(w), HEAD / 2); c.fillText("outcome", x1(w) + 34, HEAD / 2);
  c.textAlign = "right"; c.fillText("took", w - 12, HEAD / 2);
  c.textAlign = "left";
  const raw = (to - from) / 6, unit = 10 ** Math.floor(Math.log10(raw)), round = [1, 2, 5, 10].find((m) => m * unit >= raw) * unit;
  const step = d.timed ? round : Math.max(1, round);
  for (let t = Math.ceil(from / step) * step; t < to; t += step) {
    const x = at(t, w), text = d.timed ? (Math.abs(t) < step / 2 ? "0" : tick(t, step)) : "#" + (Math.round(t) || 0).toLocaleString("en");
    c.fillStyle = style.line; c.fillRect(x, 6, 1, HEAD - 6);
    c.fillStyle = style.grid; c.fillRect(x, HEAD, 1, h);
    if (x + 4 + c.measureText(text).width < x1(w) + 30) { c.fillStyle = style.dim; c.fillText(text, x + 5, HEAD / 2); }
  }
  const seen = Math.max(0, Math.min(to, ends[1]) - Math.max(from, ends[0]));
  $("range").textContent = d.timed ? span(seen) : Math.round(seen + 1).toLocaleString("en") + " frames";
}

function found(rows, f, y) {
  const go = () => pick(indexOf(f.frames[f.frames.length - 1]));
  row(rows, [part({ error: "!", warning: "▲" }[f.severity] || "i", f.severity), part(f.name, "name " + f.severity), part(f.frames.map((n) => "#" + n).join(" "), "id"), part(f.message)], y, go, COLUMNS.findings);
  const rule = row(rows, [f.rule + ". " + f.do], y + ROW);
  rule.classList.add("rule"); rule.title = rule.textContent;
}

const indexOf = (seq) => seq - d.frames.seq[0];

function stats(rows) {
  const box = part("", "", "div"), cards = part("", "cards", "div"), table = document.createElement("table"), head = table.insertRow(), names = document.createElement("table"), chart = document.createElement("canvas");
  box.id = "stats"; chart.id = "traffic";
  const n = (v) => v.toLocaleString("en"), card = (v, what, name) => { const e = part("", name, "div"); e.append(part(v, "", "b"), part(what, "dim")); cards.append(e); };
  const f = d.frames, outcomes = new Map();
  card(n(f.seq.length), "frames"); card(n(f.size.reduce((a, b) => a + b, 0)), "bytes of payload");
  if (d.timed && f.time.length) card(span(f.time[f.time.length - 1] - f.time[0]), "from first to last");
  for (const x of d.exchanges) outcomes.set(x.outcome, [x.state, (outcomes.get(x.outcome) || [0, 0])[1] + 1]);
  for (const [what, [state, count]] of [...outcomes].sort((a, b) => b[1][1] - a[1][1])) card(n(count), what, state === "failed" ? "error" : "");
  if (d.usage && tokens(d.usage)) card(tokens(d.usage), "tokens");
  if (d.usage && d.usage[3]) card(dollars(d.usage[3]), "cost");
  if (d.findings.length) card(n(d.findings.length), "findings", "warning");
  for (const m of d.models || []) card(tokens(m.usage) || n(m.calls) + " calls", m.name + (m.rate ? " · " + m.rate + " tokens/s" : "") + (m.usage[3] ? " · " + dollars(m.usage[3]) : ""));
  const took = (ms) => ms === undefined ? "" : span(ms * 1e3);
  if (named.length) {
    const top = names.insertRow();
    for (const h of ["name", "calls", "errors", "p50", "p99", "bytes", "~tokens", "defined", "kind"]) top.append(part(h, "", "th"));
    for (const x of named) {
      const cells = names.insertRow();
      for (const v of [x.name, n(x.calls), x.errors ? n(x.errors) : "", took(x.p50), took(x.p99), x.calls ? n(x.bytes) : "", x.calls ? "~" + n(x.tokens) : "", x.defined ? n(x.defined) : "", x.kind]) cells.insertCell().textContent = v;
      cells.cells[2].className = "error"; cells.cells[8].className = "dim";
    }
    names.id = "names";
    const t = d.tools, sum = names.createCaption();
    sum.textContent = (t ? "sent with every conversation: " + n(t.count) + (t.count === 1 ? " tool, " : " tools, ") + n(t.bytes) + " bytes, ~" + n(t.tokens) + " tokens · " : "") + "~ is an estimate: bytes/4";
  }
  for (const h of ["kind", "frames", "bytes", "answers", "p50", "p90", "p99", "max"]) head.append(part(h, "", "th"));
  for (const i of shown) {
    const k = d.stats[i], cells = table.insertRow();
    for (const v of [k.kind, n(k.frames), n(k.bytes), k.count ? n(k.count) : "", took(k.p50), took(k.p90), took(k.p99), took(k.max)]) cells.insertCell().textContent = v;
  }
  box.append(cards, chart, names, table);
  rows.append(box);
  traffic(chart);
}

// traffic draws the frames over time: those of the controller above the line,
// those of the unit below.
function traffic(chart) {
  const w = chart.clientWidth, h = chart.clientHeight, ratio = devicePixelRatio || 1, c = chart.getContext("2d"), f = d.frames;
  chart.width = w * ratio; chart.height = h * ratio;
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  const bins = Math.max(1, Math.floor(w / 5)), up = new Float64Array(bins), down = new Float64Array(bins);
  f.time.forEach((t, i) => { (f.dir[i] === 2 ? down : up)[Math.min(bins - 1, Math.floor((t - whole[0]) / (whole[1] - whole[0]) * bins))]++; });
  const most = Math.max(...up, ...down, 1), mid = h / 2, unit = (mid - 18) / most;
  for (let i = 0; i < bins; i++) {
    c.fillStyle = style.c2u; c.fillRect(i * 5, mid - 1 - up[i] * unit, 4, up[i] * unit);
    c.fillStyle = style.u2c; c.fillRect(i * 5, mid + 1, 4, down[i] * unit);
  }
  c.fillStyle = style.line; c.fillRect(0, mid - 0.5, w, 1);
  c.font = FONT; c.fillStyle = style.c2u; c.fillText("→ frames of the controller, at most " + most.toLocaleString("en") + " a bar", 0, 9);
  c.fillStyle = style.u2c; c.fillText("← frames of the unit", 0, h - 2);
}

// pick shows a frame.
function pick(i) {
  if (i === undefined || i < 0 || i >= d.frames.seq.length) return;
  picked = i;
  const f = d.frames, x = d.exchanges[f.of[i]];
  $("detail").hidden = false;
  $("what").replaceChildren(part("#" + f.seq[i] + " "), part(ARROW[f.dir[i]] + " ", side(f.dir[i])), part(d.kinds[f.kind[i]] + " "), part(bare(f.id[i]), "id"));
  $("facts").className = "dim";
  $("facts").textContent = f.size[i].toLocaleString("en") + " bytes · connection " + f.conn[i] + (d.timed ? " · " + (f.time[i] / 1e6).toFixed(6) + " s" : "") + (x ? " · " + facts(x) : "");
  $("found").replaceChildren(...d.findings.filter((w) => w.frames.includes(f.seq[i])).map((w) => part(w.name + ": " + w.message + " (" + w.rule + ")", w.severity, "div")));
  const list = framesOf(f.of[i]), start = Math.max(0, Math.min(list.indexOf(i) - 100, list.length - 500));
  $("ledger").replaceChildren(...list.slice(start, start + 500).map((k) => {
    const e = part("", "columns" + (k === i ? " picked" : "") + (x.cancel && f.time[k] > x.asked ? " late" : ""), "div");
    e.append(part(d.timed ? "+" + span(f.time[k] - x.opened) : "", "r dim"), part("#" + f.seq[k], "r dim"), part(ARROW[f.dir[k]], side(f.dir[k])), part(d.kinds[f.kind[k]], "name"), part(f.says[k]));
    e.onclick = () => pick(k);
    return e;
  }));
  $("ledger").querySelector(".picked")?.scrollIntoView({ block: "nearest" });
  colored(pretty(f.payload[i]));
  draw();
}

// facts says what became of an exchange, and what of it has no column.
function facts(x) {
  const list = [(x.name ? x.name + " " : "") + x.kind + " " + bare(x.id) + ": " + x.outcome];
  if (x.inferred) list.push("inferred from the reason of its cancel");
  if (x.reason) list.push("reason: " + x.reason);
  if (x.version) list.push("version " + x.version);
  if (x.usage && tokens(x.usage)) list.push("tokens: " + tokens(x.usage));
  if (x.usage && x.usage[3]) list.push("cost: " + dollars(x.usage[3]));
  if (x.model) list.push(...modelFacts(x.model));
  const more = below.get(d.exchanges.indexOf(x));
  if (more) list.push(more.length + (more.length === 1 ? " exchange belongs" : " exchanges belong") + " to it");
  if (x.of >= 0) { const op = d.exchanges[x.of]; list.push("belongs to " + (op.name || op.kind) + " " + bare(op.id) + (x.guessed ? ", a guess: another is like it" : "")); }
  return list.join(" · ");
}

// modelFacts says what is known of a model and its answer.
function modelFacts(m) {
  const list = ["model " + m.name];
  if (m.stop) list.push("stopped: " + m.stop);
  if (m.tools) list.push("calls: " + m.tools.join(", "));
  if (m.first) list.push("first token after " + span(m.first));
  if (m.rate) list.push(m.rate + " tokens/s");
  return list.concat(m.prompt || []);
}

const tokens = (usage) => ["input", "cached", "output"].map((what, i) => usage[i] ? usage[i].toLocaleString("en") + " " + what : "").filter(Boolean).join(", ");
const dollars = (micros) => "$" + (micros / 1e6).toFixed(micros < 100 ? 6 : 4);

// colored shows a payload, that of JSON in colours.
function colored(text) {
  const parts = [];
  if (/^\s*[[{]/.test(text)) {
    for (const m of text.matchAll(/("(?:[^"\\]|\\.)*"?)(?=(\s*:)?)|(-?\d[\d.eE+-]*|true|false|null)|([^"\d-]+|.)/gsu)) {
      parts.push(m[1] ? part(m[1], m[2] ? "k" : "s") : part(m[0], m[3] ? "n" : "p"));
    }
  } else parts.push(text);
  $("payload").replaceChildren(...parts);
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
  const w = $("rows").clientWidth, share = x === undefined ? 0.5 : Math.min(1, Math.max(0, (x - x0(w)) / (x1(w) - x0(w))));
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
$("rows").addEventListener("pointerdown", (e) => { if (view === "ids" && e.clientX > label($("rows").clientWidth)) drag = e.clientX; });
addEventListener("pointermove", (e) => { if (drag !== null && Math.abs(e.clientX - drag) > 2) { const w = $("rows").clientWidth; pan(-(e.clientX - drag) / (x1(w) - x0(w)) * (to - from)); drag = e.clientX; } });
addEventListener("pointerup", () => { drag = null; });
addEventListener("resize", draw);
$("search").addEventListener("input", filter);
$("in").onclick = () => zoom(2); $("out").onclick = () => zoom(0.5); $("fit").onclick = () => { [from, to] = whole; draw(); };
$("close").onclick = () => { $("detail").hidden = true; picked = -1; draw(); };
addEventListener("keydown", (e) => {
  if (e.target === $("search")) { if (e.key === "Escape") $("search").blur(); return; }
  const act = { "/": () => { e.preventDefault(); $("search").focus(); }, "+": () => zoom(2), "-": () => zoom(0.5), 0: () => $("fit").click(), Escape: () => $("close").click(),
    o: () => fold(d.frames.of[picked] >= 0 ? d.frames.of[picked] : undefined), O: foldAll,
    ArrowLeft: () => pan(-(to - from) / 8), ArrowRight: () => pan((to - from) / 8), j: () => pick(picked + 1), k: () => pick(picked - 1) }[e.key];
  if (act && !e.ctrlKey && !e.metaKey) act();
});
unpack().then(begin).catch((e) => { $("wrong").hidden = false; $("wrong").textContent = "This page cannot be read here: " + e; throw e; });
