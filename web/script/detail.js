// One frame: what is known of it, the frames of its exchange, and its payload.

const payloads = new Map(); // those that were asked for, the newest last

// show shows a frame, beside its exchange if only that is known of it; a call with its answer.
function show(seq, mark, call) {
  const f = frameOf(seq);
  ui.detail = { seq, mark: f && f.of || mark || 0, call, last: 0 };
  if (ui.view === "frames") ui.at.frames = seq;
  if (ui.view === "ids" && ui.detail.mark) ui.at.ids = ui.detail.mark;
  history.replaceState(null, "", "#" + (call ? "call-" : "") + seq);
  showDetail();
  draw();
}

// showHead shows a turn or an agent, and how far its cancel went.
function showHead(h) {
  ui.at.ids = h.mark;
  ui.detail = { seq: 0, mark: 0, head: h.key, list: [] };
  const top = part("", "top", "div"), bar = part("", "bar"), stops = Object.assign(part("", "", "div"), { id: "stops" });
  bar.append(button("×", "close (esc)", hide));
  top.append(bar, Object.assign(part("", "", "div"), { id: "what" }), Object.assign(part("", "", "div"), { id: "facts" }));
  $("detail").replaceChildren(top, stops);
  openDetail();
  paint();
}

// paintHead draws the calls of a turn or an agent over its time: of a cancelled turn those that its
// cancel met, from shortly before it.
function paintHead() {
  const h = session.heads.get(ui.detail.head);
  if (!h) return hide();
  const cancelled = Boolean(h.stops?.length), waited = (h.waits || []).reduce((sum, [from, to]) => sum + to - from, 0);
  const stops = cancelled ? h.stops : [...session.exchanges.values()].filter((x) => x.turn === h.key || x.head === h.key).slice(0, 200).map((x) => ({ mark: x.mark, name: x.name || x.kind, wire: x.wire, opened: x.opened, ended: x.open ? 0 : x.end, text: x.outcome + " · " + span(tookOf(x)) }));
  put($("what"), h.name);
  put($("facts"), [h.outcome, span(tookOf(h)), waited ? "no call at work for " + span(waited) : "", cancelled ? "cancelled at " + span(stops[0].at) : ""].filter(Boolean).join(" · "));
  const box = $("stops"), width = box.clientWidth - 28, last = Math.max(h.opened + 1, ...stops.map((s) => Math.max(s.at || 0, s.ended || now())));
  const from = cancelled ? stops[0].at - Math.max((last - stops[0].at) / 6, 1) : h.opened, at = (t) => Math.max(0, (t - from) / (last - from) * (width - 24)) + 1;
  while (box.children.length > stops.length) box.lastChild.remove();
  stops.forEach((s, i) => {
    if (!box.children[i]) {
      const line = part("", "", "div");
      line.append(part("", "name"), part("", "dim"), part(""), document.createElement("canvas"));
      line.onclick = () => { const x = session.exchanges.get(line.mark); if (x) show(x.first, x.mark, true); };
      box.append(line);
    }
    box.children[i].mark = s.mark;
    const [name, wire, text, canvas] = box.children[i].children, c = fitted(canvas, width, 16), end = at(s.ended || now()), cut = cancelled ? at(s.at || stops[0].at) : end;
    put(name, s.name, "name");
    put(wire, s.wire ? " " + s.wire : "", "dim");
    put(text, "  " + s.text);
    c.fillStyle = colors[roleColors[session.exchanges.get(s.mark)?.role]] || colors.wait;
    c.fillRect(at(s.opened), 4, Math.max(2, Math.min(cut, end) - at(s.opened)), 8);
    c.fillStyle = colors.after;
    if (end > cut) c.fillRect(cut, 6, end - cut, 4);
    if (s.at) sign(c, "asked", Math.max(cut, 5), 8);
    if (end > cut + 4) sign(c, s.ended ? "other" : "in-flight", end, 8);
  });
}

function hide() {
  ui.detail = null;
  $("detail").hidden = true;
  history.replaceState(null, "", location.pathname + location.search);
  draw();
}

function showDetail() {
  const d = ui.detail, f = frameOf(d.seq), box = $("detail");
  const named = (name, tag = "div") => Object.assign(part("", "", tag), { id: name });
  const bar = part("", "bar"), top = part("", "top", "div"), what = named("what"), about = named("found"), acts = part("", "acts", "div");
  bar.append(...isLive ? [button("jq", "show what a jq filter makes of the payload (|)", askFilter)] : [], button("copy", "copy the payload", () => copy($("payload"))),
    ...d.mark ? [button("as command", "copy the call as a command: wirectl send or curl (y)", () => copyCommand(session.exchanges.get(d.mark)))] : [], button("link", "copy a link to this (Y)", copyLink), button("×", "close (esc)", hide));
  what.append(part("#" + number(d.seq) + " "), ...f ? [part(arrows[f.dir] + " ", side(f.dir)), part(f.kind + " "), part(bare(f.id), "id")] : [part("is not here any more", "dim")]);
  about.append(...session.findings.filter((w) => w.frames.includes(d.seq)).map((w) => part(w.finding + ": " + w.message + "\n" + w.rule + ". " + w.do, w.severity, "div")));
  top.append(bar, what, named("facts"), about, acts);
  if (ui.jq) {
    const line = part("jq ", "jq", "div");
    line.append(part(ui.jq, "k"), button("everything", "show the whole payload", () => setFilter("")));
    top.append(line);
  }
  const ledger = named("ledger"), payload = named("payload", "pre");
  payload.tabIndex = 0;
  ledger.append(part("", "", "i"), part("", "", "section"));
  ledger.onscroll = draw;
  pressable(ledger, () => d.list, (f) => show(f.seq, d.mark));
  const both = named("both"), reply = named("reply", "pre");
  reply.tabIndex = 0;
  const title = part("", "of", "h3");
  title.append(part(""), button("copy", "copy the answer", () => copy(reply)));
  both.append(payload, title, reply);
  box.replaceChildren(top, ledger, both);
  openDetail();
  Object.assign(d, { frame: f, acts, seen: 0, allowed: "", last: 0 });
  paintDetail();
  ledger.scrollTop = (d.list.findIndex((f) => f.seq === d.seq) + 0.5) * LINE - ledger.clientHeight / 2;
  showPayload(f, payload);
}

// paintDetail shows what has changed since the last paint, and those frames of the exchange
// that are in sight.
function paintDetail() {
  if (ui.detail.head) return paintHead();
  const d = ui.detail, f = d.frame, x = session.exchanges.get(d.mark), ledger = $("ledger"), [space, pool] = ledger.children;
  if (!f && frameOf(d.seq)) return showDetail(); // it has come
  if (!d.seen || d.seen !== session.changes && !ui.frozen) {
    d.seen = session.changes;
    d.list = x ? ledgerOf(x) : [];
    put($("facts"), [...f ? [number(f.size) + " bytes", "connection " + f.conn, session.about.timed ? (f.time / 1e6).toFixed(6) + " s" : ""] : [], ...x ? factsOf(x) : []].filter(Boolean).join(" · "));
    offer(d, x);
    showAnswer(d, x);
    ledger.hidden = !d.list.length;
    space.style.height = d.list.length * LINE + "px";
  }
  const [first, last] = inSight(ledger, LINE, d.list.length);
  paintRows(pool, first, last, LINE, 5, (i, put) => {
    const f = d.list[i];
    put(0, session.about.timed ? "+" + span(f.time - x.opened) : "", "r dim");
    put(1, "#" + number(f.seq), "r dim");
    put(2, arrows[f.dir], side(f.dir));
    put(3, f.kind, "name");
    put(4, f.says);
    return (f.seq === d.seq ? "picked" : "") + (isLate(f, x) ? " late" : "");
  });
}

// offer has the buttons that an exchange allows.
function offer(d, x) {
  const allowed = !x ? "" : !session.about.commands ? session.about.repeats ? "repeat" : "" : x.open && !x.refusal ? "cancel" : "send";
  if (allowed === d.allowed) return;
  d.allowed = allowed;
  d.acts.replaceChildren(...allowed === "cancel" ? [button("cancel", "send the cancel of the protocol (X)", () => cancel(x))] : [],
    ...allowed === "repeat" ? [button("send to a server", "send the request to a server (R)", () => resend(x))] : allowed ? [button("send again", "send the request again (R)", () => resend(x))] : []);
}

function ledgerOf(x) {
  if (!x.below.length) return x.frames;
  return [x, ...x.below.map((mark) => session.exchanges.get(mark)).filter(Boolean)].flatMap((e) => e.frames).sort((a, b) => a.seq - b.seq);
}

// along goes to the frame of the exchange that is so many further on.
function along(by) {
  const x = session.exchanges.get(ui.detail.mark), list = x ? ledgerOf(x) : [], next = list[list.findIndex((f) => f.seq === ui.detail.seq) + by];
  if (next) show(next.seq, x.mark);
}

// showAnswer shows the answer to a call that is over below its request, or beside it: that of a model
// joined from its events, any other as its last frame with a payload.
async function showAnswer(d, x) {
  const last = d.call && x && !x.open ? d.list.findLast((f) => f.of === x.mark) : undefined, [, title, box] = $("both").children;
  title.hidden = box.hidden = !last || last.seq === d.seq;
  if (title.hidden || d.last === last.seq) return;
  d.last = last.seq;
  let a = x.events ? { payload: x.answer, joined: x.events, missing: x.missing } : isLive ? null : frameOf(x.answered) || last;
  if (!a) {
    a = await payloadOf(last.seq, true);
    if (ui.detail !== d || d.last !== last.seq) return;
  }
  const cut = a.part ?? x.part, what = !cut ? "answer" : a.joined ? "answer without its end" : "not answered to the end · last frame";
  put(title.firstChild, a.joined ? what + " · joined from " + number(a.joined) + " events" + (a.missing ? "; others are no longer kept" : "") : what + (a.seq ? (cut ? " #" : " · #") + number(a.seq) + " " + a.kind + " · " + number(a.size) + " bytes" : ""));
  colored(a.payload, box);
}

// askFilter asks for a jq filter, which wirectl runs.
function askFilter() {
  if (!ui.detail?.seq) return say("open a frame or a call first (enter): jq is for its payload", "bad");
  question("jq on the payload; nothing shows everything", ui.jq, setFilter, "show");
}

function setFilter(text) {
  ui.jq = text.trim();
  if (ui.detail?.seq) showDetail();
}

async function copyText(text, done) {
  try {
    await navigator.clipboard.writeText(text);
    say(done, "good");
  } catch {
    question("copy this:", text, null);
  }
}

// copyCommand copies a call as a command that sends it.
async function copyCommand(x) {
  if (!x?.first) return say(selectFirst);
  try {
    const { command } = isLive ? await ask("command", { seq: x.first }) : x;
    if (command) await copyText(command, "copied " + command);
    else say(isLive ? "no command sends this call: open it and copy its payload" : "the report has no command for this call: none sends it, or it is too large", "bad");
  } catch (e) {
    say(e.message, "bad");
  }
}

// copyLink copies the address of what is selected.
function copyLink() {
  const x = selected();
  if (!ui.detail && x?.first) history.replaceState(null, "", "#call-" + x.first);
  copyText(location.href, "the link is copied");
}

async function showPayload(f, box) {
  if (f) colored(f.payload ?? (await payloadOf(f.seq, false)).payload, box);
}

// payloadOf asks for a payload, or for the answer that a frame ends, or for what jq makes of either.
async function payloadOf(seq, answer) {
  const key = [seq, answer, ui.jq].join(), about = { seq, ...answer ? { answer: 1 } : {}, ...ui.jq ? { jq: ui.jq } : {} };
  if (!payloads.has(key)) {
    const got = await ask("frame", about).catch((e) => ({ payload: "(" + e.message + ")" }));
    if (ui.jq && got.payload === "") got.payload = "(no result)";
    payloads.set(key, got);
    if (payloads.size > 32) payloads.delete(payloads.keys().next().value);
  }
  return payloads.get(key);
}

// factsOf says what became of an exchange, and what of it has no column.
function factsOf(x) {
  const list = [(x.name ? x.name + " " : "") + x.kind + " " + bare(x.id) + ": " + x.outcome];
  if (x.inferred) list.push("inferred from the reason of its cancel");
  if (x.why) list.push((x.why === x.reason ? "reason: " : "error: ") + x.why);
  if (x.args) list.push("arguments: " + (x.args.length > 80 ? x.args.slice(0, 80) + "…" : x.args));
  if (x.version) list.push("version " + x.version);
  if (x.parts) list.push(number(x.parts) + (x.parts === 1 ? " part" : " parts") + (x.after ? ", " + number(x.after) + " after its cancel" : ""));
  if (x.usage && tokens(x.usage)) list.push("tokens: " + tokens(x.usage));
  if (x.usage && x.usage[3]) list.push("cost: " + dollars(x.usage[3]));
  if (x.model) list.push(...modelFacts(x.model));
  if (x.below.length) list.push(x.below.length + (x.below.length === 1 ? " exchange belongs" : " exchanges belong") + " to it");
  const op = operationOf(x);
  if (op !== x) list.push("belongs to " + (op.name || op.kind) + " " + bare(op.id) + (x.guessed ? ", a guess: another is like it" : ""));
  return list;
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

const tokens = (usage) => ["input", "cached", "output"].map((what, i) => usage[4 + i] ? number(usage[i]) + " to " + number(usage[i] + usage[4 + i]) + " " + what : usage[i] ? number(usage[i]) + " " + what : "").filter(Boolean).join(", ");
const dollars = (micros) => "$" + (micros / 1e6).toFixed(micros < 100 ? 6 : 4);

// maxColored is how long a payload may be to be shown in colours, which take an element each.
const maxColored = 64 << 10;

// colored shows a payload, that of JSON indented and in colours.
function colored(raw, box) {
  const text = pretty(raw);
  if (!/^\s*[[{]/.test(text) || text.length > maxColored) {
    box.textContent = plain(text);
    return;
  }
  box.replaceChildren();
  const open = [];
  let into = box, plainText = "";
  const flush = () => {
    if (plainText) into.append(part(plainText, "p"));
    plainText = "";
  };
  for (const m of text.matchAll(/("(?:[^"\\]|\\.)*"?)(?=(\s*:)?)|(-?\d[\d.eE+-]*|true|false|null)|([^"\d-]+|.)/gsu)) {
    if (!m[4]) {
      flush();
      into.append(m[1] && !m[2] && m[1].includes("\\n") ? lines(m[1]) : part(m[0], m[1] ? m[2] ? "k" : "s" : "n"));
      continue;
    }
    for (const ch of m[4]) {
      if ((ch === "}" || ch === "]") && open.length) {
        flush();
        into = open.pop();
      }
      if (ch === "," && !plainText && into.lastChild.classList.contains("lines")) { // after its last line
        into.lastChild.append(part(ch, "p"));
        continue;
      }
      plainText += ch;
      if (ch !== "{" && ch !== "[") continue;
      flush();
      into.lastChild.classList.add("opens");
      const body = part("", "body");
      into.append(body);
      open.push(into);
      into = body;
    }
  }
  flush();
}

// lines is a string with its lines below each other, and its escapes as they are.
function lines(text) {
  const e = part("", "s lines");
  for (const line of text.match(/(?:[^\\]|\\[^n])*(?:\\n|$)/g)) if (line) e.append(part(line), document.createElement("br"));
  e.lastChild.remove();
  return e;
}

// pretty indents JSON without reading it as values: numbers and repeated keys stay as
// they were written.
function pretty(text) {
  if (text.startsWith("hex:")) return text.slice(4).replace(/(.{2})/g, "$1 ").replace(/(.{48})/g, "$1\n");
  if (!/^\s*[[{]/.test(text)) return text;
  let out = "", depth = 0, quoted = false, empty = false;
  for (let i = 0; i < text.length; i++) {
    const ch = text[i];
    if (quoted) {
      out += ch;
      if (ch === "\\") out += text[++i] || "";
      else if (ch === '"') quoted = false;
      continue;
    }
    if (/\s/.test(ch)) {
      if (ch === "\n" && !depth && out) out += ch; // another value follows
      continue;
    }
    const closes = ch === "}" || ch === "]";
    if (closes && depth > 0) depth--;
    if (closes && !empty) out += "\n" + "  ".repeat(depth);
    else if (!closes && empty) out += "\n" + "  ".repeat(depth);
    empty = ch === "{" || ch === "[";
    if (empty) depth++;
    quoted = ch === '"';
    out += ch === "," ? ",\n" + "  ".repeat(depth) : ch === ":" ? ": " : ch;
  }
  return out;
}

function copy(box) {
  const text = box?.textContent;
  if (text) copyText(text, "the payload is copied");
}
