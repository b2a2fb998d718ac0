"use strict";
// What is known of a session, and what of it is searched for. All that came from the
// wire is shown by textContent or drawn on a canvas, and so can never be markup.

const maxFrames = 32768, maxExchanges = 16384, maxFindings = 20000; // as many as the server keeps
const spare = 2048; // so many are dropped at once
const session = {};

function forget() {
  Object.assign(session, {
    about: null, secret: "", stats: null, frames: [], exchanges: new Map(), heads: new Map(), findings: [], left: { frames: 0, exchanges: 0 }, peers: null, contexts: null, bookmarks: new Set(),
    skipped: 0, missed: 0, joined: 0, longest: 0, wire: 0, told: false, received: 0, changes: 0,
  });
}
forget();

// learn takes in a delta.
function learn(d) {
  if (d.reset) {
    forget();
    session.secret = d.secret || "";
  }
  session.about = d.about;
  session.received = performance.now();
  session.skipped += d.skipped || 0;
  session.missed += d.missed || 0;
  if (d.stats) session.stats = d.stats;
  if (d.peers) session.peers = d.peers;
  if (d.contexts) session.contexts = d.contexts;
  if (!session.changes++) readBookmarks();
  for (const x of d.exchanges || []) learnExchange(x);
  for (const h of d.heads || []) session.heads.set(h.key, h);
  if (d.frames) learnFrames(d.frames);
  for (const [seq, mark] of Object.entries(d.marks || {})) {
    const f = frameOf(Number(seq));
    if (f) belong(f, mark);
  }
  session.findings.push(...d.findings || []);
  if (session.findings.length > maxFindings) session.findings.splice(0, session.findings.length - maxFindings);
  drop();
}

// Bookmarks are the browser's, which keeps them for a session.
const bookmarksKey = () => "bookmarks " + location.pathname + " " + (session.about.begun || "");

function readBookmarks() {
  let here = null;
  try { here = JSON.parse(localStorage.getItem(bookmarksKey())); } catch { /* the browser keeps nothing for this page */ }
  session.bookmarks = new Set(Array.isArray(here) ? here : []);
}

const selectFirst = "select a call or a frame first";

function bookmark(seq) {
  if (!seq) return say(selectFirst);
  if (!session.bookmarks.delete(seq)) session.bookmarks.add(seq);
  try { localStorage.setItem(bookmarksKey(), JSON.stringify([...session.bookmarks])); } catch { /* nor this */ }
  refresh();
}

// marked is the frame that a bookmark is for.
const marked = () => ui.detail ? ui.detail.seq : ui.view === "frames" ? ui.shown[indexOf()]?.seq : ui.view === "ids" ? ui.shown[indexOf()]?.first : 0;

function learnExchange(x) {
  const known = session.exchanges.get(x.mark);
  x.frames = known ? known.frames : [];
  x.below = known ? known.below : [];
  session.exchanges.set(x.mark, x);
  session.wire = Math.max(session.wire, (x.wire || "").length);
  session.told ||= Boolean(x.name || x.args || x.asks);
  session.longest = Math.max(session.longest, (x.name || x.kind).length);
  if (x.of && !(known && known.of)) {
    const op = session.exchanges.get(x.of);
    if (op) op.below.push(x.mark);
    session.joined++;
  }
}

function learnFrames(f) {
  for (let i = 0; i < f.seq.length; i++) {
    const frame = {
      seq: f.seq[i], time: f.time[i], dir: f.dir[i], conn: f.conn[i], kind: f.kind[i], id: f.id[i], size: f.size[i], of: 0, says: f.says[i],
      payload: f.payload && f.payload[i],
    };
    session.frames.push(frame);
    belong(frame, f.of[i]);
  }
}

function belong(frame, mark) {
  const x = session.exchanges.get(mark);
  if (!x || frame.of) return;
  frame.of = mark;
  const last = x.frames[x.frames.length - 1];
  x.frames.push(frame);
  if (last && last.seq > frame.seq) x.frames.sort((a, b) => a.seq - b.seq);
}

// drop forgets the oldest of what is too much.
function drop() {
  if (session.frames.length > maxFrames + spare) {
    const old = session.frames.splice(0, session.frames.length - maxFrames), first = session.frames[0].seq;
    session.left.frames += old.length;
    for (const mark of new Set(old.map((f) => f.of))) {
      const x = session.exchanges.get(mark);
      if (x) x.frames = x.frames.filter((f) => f.seq >= first);
    }
  }
  if (session.exchanges.size > maxExchanges + spare) {
    for (const mark of session.exchanges.keys()) {
      if (session.exchanges.size <= maxExchanges) break;
      session.exchanges.delete(mark);
      session.left.exchanges++;
    }
    const used = new Set([...session.exchanges.values()].flatMap((x) => [x.turn, x.head]));
    for (const key of session.heads.keys()) if (!used.has(key)) session.heads.delete(key);
  }
}

// frameOf returns the frame of that number, if it is here.
function frameOf(seq) {
  const list = session.frames;
  let low = 0, high = list.length;
  while (low < high) {
    const mid = (low + high) >> 1;
    if (list[mid].seq < seq) low = mid + 1; else high = mid;
  }
  return low < list.length && list[low].seq === seq ? list[low] : undefined;
}

const exchangeOf = (frame) => session.exchanges.get(frame.of);
const operationOf = (x) => session.exchanges.get(x.of) || x;

// now is the present, in the time of the session.
function now() {
  const a = session.about;
  if (!a) return 0;
  return a.now ? Math.max(a.last, a.now + (performance.now() - session.received) * 1e3) : a.last;
}

const endOf = (x) => x.open ? Math.max(now(), x.opened) : x.end;
const tookOf = (x) => x.open ? Math.max(now() - x.opened, 0) : x.took || 0;
const isLate = (frame, x) => Boolean(x && x.cancel && frame.time > x.asked);
const isFailed = (x) => x.state === "failed";

// words are what a filter may say of an exchange, as in the terminal.
const words = {
  findings: (x) => x.findings > 0,
  bookmarks: (x) => x.frames.some((f) => session.bookmarks.has(f.seq)),
  late: (x) => x.cancel && x.after > 0,
  cancelled: (x) => x.cancel || x.state === "cancelled",
  failed: isFailed,
  slow: (x) => session.about.timed && !["user", "agent"].includes(x.role) && tookOf(x) > (x.role === "model" ? 1e7 : 1e6),
  model: (x) => x.role === "model",
  tool: (x) => x.role === "tool" && Boolean(x.name),
  open: (x) => x.open,
  crossed: (x) => x.outcome === "crossed",
  ignored: (x) => x.outcome === "ignored",
  silent: (x) => x.outcome === "silent",
};

// fields are what a condition may compare, of a frame and its exchange.
const fields = {
  kind: (f, x) => f ? f.kind : x.kind,
  id: (f, x) => bare(f ? f.id : x.id),
  name: (f, x) => x ? x.name || "" : "",
  outcome: (f, x) => x ? x.outcome : "",
  conn: (f, x) => f ? f.conn : x.conn,
  dir: (f, x) => (f ? f.dir : x.dir) === 2 ? "u2c" : "c2u",
  seq: (f) => f ? f.seq : NaN,
  size: (f, x) => f ? f.size : x.bytes,
};

const bare = (id) => id.length > 1 && id[0] === '"' && id.endsWith('"') ? id.slice(1, -1) : id;

// chips are the words with a key and a button of their own.
const chips = { failed: "E", slow: "S", cancelled: "C", model: "L", tool: "t" };
const hasWord = (text, word) => !text.trim().startsWith("~") && text.trim().split(/\s+and\s+/).includes(word);

// turnWord adds a word to a filter, or removes it. A call is of a model or of a tool, not of both.
function turnWord(text, word) {
  const has = hasWord(text, word), other = { model: "tool", tool: "model" }[word];
  const terms = text.trim().startsWith("~") ? [] : text.trim().split(/\s+and\s+/).filter((t) => t && t !== word && t !== other);
  return (has ? terms : [...terms, word]).join(" and ");
}

// completionsOf returns what the last term of a filter may become.
function completionsOf(text) {
  const at = text.lastIndexOf(" and ") + 1 && text.lastIndexOf(" and ") + 5, last = text.slice(at), [field] = last.split("==");
  const quote = (v) => /^[^\s"\\]+$/.test(v) ? v : JSON.stringify(v);
  let list = [...Object.keys(words), ...Object.keys(fields).map((f) => f + "==")];
  if (last.includes("==") && ["kind", "name", "outcome"].includes(field)) {
    list = [...new Set([...session.exchanges.values()].map((x) => fields[field](null, x)).filter(Boolean))].map((v) => field + "==" + quote(v));
  }
  return list.filter((w) => w.startsWith(last) && w !== last).slice(0, 40).map((w) => text.slice(0, at) + w);
}

// parseFilter reads a filter: words and conditions, joined by "and", or any text.
function parseFilter(text) {
  text = text.trim();
  if (!text) return null;
  const terms = text.startsWith("~") ? [text.slice(1).trim()] : text.split(/\s+and\s+/);
  return { text, terms: text.startsWith("~") ? [textTerm(terms[0])] : terms.map(parseTerm) };
}

function parseTerm(term) {
  if (Object.hasOwn(words, term)) {
    const is = words[term];
    if (term === "late") return { frame: isLate, exchange: is };
    if (term === "bookmarks") return { frame: (f) => session.bookmarks.has(f.seq), exchange: is };
    if (term === "findings") return { frame: (f) => found().has(f.seq), exchange: is };
    return { frame: (f, x) => Boolean(x) && is(x), exchange: is };
  }
  const m = /^(\w+)\s*(==|!=|<=|>=|<|>|~)\s*(.*)$/.exec(term);
  if (!m || !Object.hasOwn(fields, m[1])) return textTerm(term);
  const get = fields[m[1]], want = m[3].replace(/^"(.*)"$/, "$1"), compare = {
    "==": (v) => String(v) === want, "!=": (v) => String(v) !== want, "~": (v) => String(v).includes(want),
    "<": (v) => v < Number(want), ">": (v) => v > Number(want), "<=": (v) => v <= Number(want), ">=": (v) => v >= Number(want),
  }[m[2]];
  return { frame: (f, x) => compare(get(f, x)), exchange: (x) => compare(get(null, x)) };
}

// textTerm finds a text in what is here. The payloads of a live session are at the
// server, which is asked for the frames that have it.
function textTerm(text) {
  const re = new RegExp(text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "i"), has = (s) => s !== undefined && re.test(s);
  const term = { text, elsewhere: new Set(), next: 0 };
  term.frame = (f) => has(f.kind) || has(f.id) || has(f.says) || has(f.payload) || term.elsewhere.has(f.seq);
  term.exchange = (x) => has(x.id) || has(x.kind + " " + (x.name || "")) || has(x.outcome + " " + x.state);
  return term;
}

// found has the numbers of the frames that findings are about.
function found() {
  if (session.found?.changes !== session.changes) {
    session.found = { changes: session.changes, seqs: new Set(session.findings.flatMap((f) => f.frames)) };
  }
  return session.found.seqs;
}

const frameMatches = (filter, f) => !filter || filter.terms.every((t) => t.frame(f, exchangeOf(f)));
const exchangeMatches = (filter, x) => !filter || filter.terms.every((t) => t.exchange(x) ) || x.frames.some((f) => filter.terms.every((t) => t.frame(f, x)));

// The order of exchanges that the user has chosen for this session; undefined for none.
const sortKey = () => "sort " + bookmarksKey();
function keptSort() {
  try {
    const i = sorts.findIndex((s) => s[0] === localStorage.getItem(sortKey()));
    return i < 0 ? undefined : i;
  } catch { /* the browser keeps nothing for this page */ }
}

function keepSort() {
  try { localStorage.setItem(sortKey(), sorts[ui.sort][0]); } catch { /* the browser keeps nothing for this page */ }
}

// sorts are orders of exchanges, the first that of a live session, the last that of an ended one.
const sorts = [
  ["in flight", (a, b) => (b.open ? 1 : 0) - (a.open ? 1 : 0) || b.mark - a.mark],
  ["slowest", (a, b) => tookOf(b) - tookOf(a) || b.mark - a.mark],
  ["bytes", (a, b) => b.bytes - a.bytes || b.mark - a.mark],
  ["parts", (a, b) => (b.parts || 0) - (a.parts || 0) || b.mark - a.mark],
  ["trouble", (a, b) => trouble(b) - trouble(a) || b.mark - a.mark],
  ["oldest", (a, b) => a.mark - b.mark],
];
const trouble = (x) => (x.findings || 0) * 8 + (x.cancel ? 4 : isFailed(x) || x.state === "abandoned" ? 2 : 0);
