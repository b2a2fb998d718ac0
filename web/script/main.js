// The page: keys, the stream of a live session, and commands.

const $ = (id) => document.getElementById(id);
const number = (n) => n.toLocaleString("en");
const bytes = (n) => n < 1e4 ? number(n) + " B" : n < 1e6 ? (n / 1e3).toPrecision(3) + " kB" : n < 1e9 ? (n / 1e6).toPrecision(3) + " MB" : (n / 1e9).toPrecision(3) + " GB";

// plain makes characters visible that would change how a line reads.
const plain = (text) => String(text).replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "�");

// part makes an element with a text.
function part(text, name, tag = "span") {
  const e = document.createElement(tag);
  e.textContent = plain(text);
  if (name) e.className = name;
  return e;
}

function button(text, title, act) {
  const e = part(text, "", "button");
  e.title = title;
  e.onclick = act;
  return e;
}

const isLive = $("data").textContent.trim() === "";
const id = location.pathname.startsWith("/session/") && isLive ? decodeURIComponent(location.pathname.slice(9)) : "";

// ask asks the server about the session.
async function ask(what, about) {
  const answer = await fetch("/api/" + what + "?" + new URLSearchParams({ session: id, ...about })).catch(() => { throw new Error("wirectl does not answer: it may have ended"); });
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer.json();
}

function say(text, kind = "") {
  $("said").textContent = $("said").title = plain(text);
  $("said").className = kind;
}

// status says how the session is.
function showStatus() {
  const a = session.about;
  $("list").dataset.count = ui.shown.length;
  if (ui.view === "sessions") $("count").textContent = number(ui.shown.length) + (ui.shown.length === 1 ? " session" : " sessions");
  if (!a) return;
  const n = (v, w) => number(v) + " " + w + (v === 1 ? "" : "s");
  $("title").textContent = plain(a.title);
  document.title = plain(a.title) + " · wirectl";
  $("about").textContent = plain([a.begun ? new Date(a.begun).toISOString().replace("T", " ").slice(0, 19) + " UTC" : "", (a.protocols || []).join(", ")].filter(Boolean).join(" · "));
  const state = ui.frozen ? "frozen" : !isLive ? "" : broken ? "away" : a.live ? "live" : "ended";
  $("state").textContent = state;
  $("state").className = state;
  const early = session.frames.length ? session.frames[0].seq - 1 : 0, before = (session.exchanges.keys().next().value || 1) - 1;
  const part_ = ui.filter && ui.view === "ids" ? number(ui.matching) + " of " + n(a.exchanges, "call") : ui.filter && ui.view === "frames" ? number(ui.shown.length) + " of " + n(a.frames, "frame") : "";
  for (const b of $("chips").children) b.setAttribute("aria-pressed", hasWord($("search").value, b.dataset.word));
  $("count").textContent = [...part_ ? [part_] : [n(a.frames, "frame"), n(a.exchanges, "call")], a.open ? number(a.open) + " in flight" : "", a.failed ? number(a.failed) + " failed" : "", n(a.findings, "finding"), a.altered ? "≠ altered" : "",
    before ? n(before, "earlier call") + " left out" : "", early ? n(early, "earlier frame") + " left out" : "",
    a.untold ? n(a.untold, "payload") + " left out" : "", a.lost ? n(a.lost, "frame") + " lost by the source" : "", session.skipped ? "this page was too slow for " + n(session.skipped, "frame") : ""].filter(Boolean).join(" · ");
  $("order").textContent = ui.view === "ids" ? (ui.byRun ? ui.lit ? "by run, with the critical path" : "by run" : ui.column.ids ? "by " + (views.ids.heads[ui.column.ids.at] || "arguments") : sorts[ui.sort][0] + " first") + (ui.openOnly ? ", in flight only" : "") : ui.view === "frames" && ui.follow ? "follows the newest" : "";
  const tab = document.querySelector("[data-view=findings]");
  if (tab.count !== a.findings) {
    tab.count = a.findings;
    tab.replaceChildren("Findings", ...a.findings ? [part(number(a.findings), "badge")] : []);
  }
  if (a.error && !$("said").textContent) say(a.error, "bad");
  showHeld(a);
}

// filterBy makes a text the filter of every view.
function filterBy(text) {
  if ($("search").value !== text) $("search").value = text;
  if (ui.view === "sessions") return listSessions();
  ui.filter = parseFilter(text);
  search();
  ui.stale = true;
  $("rows").scrollTop = 0;
  paint(true);
}

// search asks the server which frames have the texts of the filter in their payloads, once
// nothing has been typed for a while.
function search() {
  clearTimeout(search.timer);
  search.timer = isLive && ui.filter ? setTimeout(searchFor, 150, ui.filter) : 0;
}

async function searchFor(filter) {
  search.timer = 0;
  for (const term of filter.terms.filter((t) => t.text && !t.asking)) {
    term.asking = true;
    try {
      for (let more = true; more && ui.filter === filter;) {
        const { found, next } = await ask("find", { text: term.text, from: term.next });
        for (const seq of found || []) term.elsewhere.add(seq);
        more = next > term.next && next <= session.frames.at(-1)?.seq;
        term.next = next;
        if (found) refresh();
      }
    } catch (e) {
      say(e.message, "bad");
    }
    term.asking = false;
  }
}

async function askStats() {
  if (!isLive || ui.view !== "stats") return;
  if (askStats.seen !== session.changes) {
    askStats.seen = session.changes;
    session.stats = await ask("stats").catch(() => session.stats);
    draw();
  }
  clearTimeout(askStats.timer);
  askStats.timer = setTimeout(askStats, 1000);
}

async function askPeers() {
  if (!isLive || ui.view !== "peers") return;
  if (askPeers.seen !== session.changes) {
    askPeers.seen = session.changes;
    session.peers = await ask("peers").catch(() => session.peers);
    refresh();
  }
  clearTimeout(askPeers.timer);
  askPeers.timer = setTimeout(askPeers, 1000);
}

// opensAlone reports whether nothing is left to choose: there is no session but the one to wait
// for, or the first one has started since the page waited.
const opensAlone = ([first, second], waited) => first === "live" && !second || waited && first?.startsWith("tap:") && !second?.startsWith("tap:");

async function listSessions() {
  try {
    const words = $("search").value, waited = ui.sessions[0]?.id === "live";
    ui.sessions = await ask("sessions", { words });
    if (!words && ui.at.sessions === undefined && opensAlone(ui.sessions.map((s) => s.id), waited)) return location.replace("/session/live");
    ui.stale = true;
    paint(true);
    say("");
  } catch (e) {
    say(e.message, "bad");
  }
}

// question asks in a dialog, for a text if there is one to begin with, and calls yes. Without yes it
// only shows the text.
function question(text, value, yes, does = "do it") {
  const box = $("ask"), answer = $("answer");
  $("question").textContent = plain(text);
  answer.hidden = value === null;
  answer.value = value ?? "";
  const n = answer.value.split("\n").length;
  answer.rows = Math.min(16, n > 1 ? n + 1 : 1);
  answer.readOnly = !yes;
  $("yes").hidden = !yes;
  $("yes").textContent = does;
  $("no").textContent = yes ? "no" : "close";
  box.returnValue = "";
  box.onclose = () => { if (box.returnValue === "yes") yes(answer.value); };
  box.showModal();
  if (yes) answer.select(); else $("no").focus();
  answer.scrollTop = 0;
}
$("answer").addEventListener("keydown", (e) => {
  if (e.key !== "Enter" || e.shiftKey || $("answer").value.includes("\n") || $("yes").hidden) return;
  e.preventDefault();
  $("yes").click();
});

// post has wirectl do something that only a page with its secret may ask for.
const post = (what, body) => fetch("/api/" + what + "?" + new URLSearchParams({ session: id }), { method: "POST", headers: { "Wirectl-Secret": session.secret }, body: JSON.stringify(body) }).catch((e) => ({ ok: false, text: () => e.message }));

// command changes what passes, after a question.
function command(what, value, make, warning = "This changes a live wire: the peers will see it, and the capture will say altered.") {
  if (!session.about?.commands) return say("this session cannot be changed here: that takes a relay with --control (or --hub-control for a hub), and the page with --control", "bad");
  question(what + "? " + warning, value, async (text) => {
    const answer = await post("do", make(text));
    if (answer.ok) say("done: " + what, "good"); else say((await answer.text()).trim(), "bad");
  });
}

// repeat sends a request of a record to a server, and shows its answer.
async function repeat(x) {
  if (!session.about?.repeats) return say("no request is sent from here: wirectl monitor --web --control does it, on its machine, for the protocols of wirectl send", "bad");
  try {
    const r = await ask("command", { seq: x.first });
    if (r.refuses) return say(r.refuses, "bad");
    const recorded = r.server && !r.address ? "; the record names the command " + r.server + ", which a page does not start" : "";
    question("send " + r.method + " to the server at an address (http, ws, tcp, …)" + recorded, repeat.last || r.address, async (text) => {
      repeat.last = text.trim();
      say("waiting for the answer of " + repeat.last);
      const answer = await post("repeat", { seq: x.first, text });
      if (!answer.ok) return say((await answer.text()).trim(), "bad");
      say(r.method + " was answered", "good");
      question(r.method + " answers", pretty((await answer.json()).answer), null);
    }, "send");
  } catch (e) {
    say(e.message, "bad");
  }
}

const cancel = (x) => x.place !== undefined ? interrupt(x) : !x.open ? say("no cancel: it has ended", "bad") : x.refusal ? say("no cancel: " + x.refusal, "bad") : command("cancel " + (x.name || x.kind) + " " + bare(x.id), null, () => ({ do: "cancel", conn: x.conn, id: x.id }));
const resend = (x) => !session.about?.commands ? repeat(x) : command("send " + (x.name || x.kind) + " " + bare(x.id) + " again", null, () => ({ do: "resend", seq: x.first }));
const hold = () => command("hold frames that meet a condition (nothing: let all go)", $("search").value, (where) => ({ do: "hold", where }));
function let_(what, text) {
  const h = session.about?.first;
  if (!h) return say("no frame is held");
  command(what + " held frame " + h.number, text === undefined ? null : text, (text) => ({ do: what, held: h.number, text }));
}

// showHeld shows the first of the frames that wait on the wire.
function showHeld(a) {
  const box = $("held"), h = a.first;
  box.hidden = !h;
  if (!h || box.number === h.number && box.count === a.held) return;
  box.number = h.number;
  box.count = a.held;
  box.replaceChildren(part(number(a.held) + (a.held === 1 ? " frame waits" : " frames wait"), "warning"), part(arrows[h.dir], side(h.dir)), part(h.text, "", "code"),
    ...a.commands ? [button("release", "let it go (u)", () => let_("release")), button("edit", "let another go in its place (e)", () => let_("edit", h.text)), button("drop", "never let it go (D)", () => let_("drop"))] : []);
}

const selected = () => ui.view === "ids" ? ui.shown[indexOf()] : ui.detail ? session.exchanges.get(ui.detail.mark) : exchangeOf(ui.shown[indexOf()] || {});
const page = () => Math.max(1, Math.floor($("rows").clientHeight / (views[ui.view]?.height || ROW)) - 1);
const scrollRows = (by) => views[ui.view] ? move(by) : $("rows").scrollBy(0, by * ROW);

// keys are those of the terminal, where they make sense here; the help is drawn from them.
const keys = [
  ["Views", ["1", "calls", () => turn("ids")], ["2", "frames", () => turn("frames")], ["3", "findings", () => turn("findings")], ["4", "stats", () => turn("stats")], ["5", "peers", () => turn("peers")], ["6", "context", () => turn("context")],
    ["Tab", "next view", () => turnBy(1), "S-Tab"], ["Enter", "open", openSelected], ["Escape", "back", back, "Backspace"]],
  ["Moving", ["k", "up", () => scrollRows(-1), "ArrowUp"], ["j", "down", () => scrollRows(1), "ArrowDown"], ["PageUp", "page up", () => scrollRows(-page()), "C-b", "C-u"], ["PageDown", "page down", () => scrollRows(page()), "C-f", "C-d"],
    ["g", "first", () => scrollRows(-1e9), "Home"], ["G", "last", last, "End"], ["h", "back in time, or in the exchange", () => sideways(-1), "ArrowLeft"], ["l", "on in time, or in the exchange", () => sideways(1), "ArrowRight"],
    ["F", "follow the newest", () => { turn("frames"); if (ui.view === "frames") toBottom(); }], [" ", "freeze", freeze]],
  ["Calls", ["s", "sort", sort], ["c", "in flight only", () => { ui.openOnly = !ui.openOnly; ui.stale = true; paint(true); }], ["b", "group by run", groupRuns], ["p", "light the critical path of a run", lightPath], ["o", "unfold or fold", () => ui.view === "ids" && fold(selected())], ["O", "unfold or fold all", foldAll],
    ["+", "zoom in", () => zoom(2), "="], ["-", "zoom out", () => zoom(0.5)], ["0", "fit to all rows, or to those in sight", fitAgain]],
  ["Finding", ["/", "search or filter", focusSearch, "f", ":"], ["n", "next match", () => move(1)], ["N", "match before", () => move(-1)], ["x", "no filter", () => filterBy("")], ...Object.entries(chips).map(([word, key]) => [key, { slow: "slow (1 s, models 10 s)", model: "models only", tool: "tools only" }[word] || word, () => turnChip(word)]), ["m", "bookmark", () => bookmark(marked())], ...isLive ? [["|", "jq on the payload", askFilter]] : [], ["y", "copy the payload, or a call as command", () => ui.detail && ui.view !== "ids" ? copy($("payload")) : copyCommand(selected())], ["Y", "copy a link", copyLink]],
  ...isLive ? [["The wire", ["X", "inject a cancel", () => { const x = selected(); if (x) cancel(x); else say(selectFirst); }], ["R", "send the request again, or to a server", () => { const x = selected(); if (x?.first) resend(x); else say(selectFirst); }], ["H", "hold frames that match", hold],
    ["u", "release the held frame", () => let_("release")], ["e", "edit the held frame", () => let_("edit", session.about?.first?.text)], ["D", "drop the held frame", () => let_("drop")]]] : [],
  ["wirectl", ["T", "dark or light", () => theme(true)], ["?", "these keys", help]],
];
const acts = new Map(keys.flatMap(([, ...list]) => list.flatMap(([key, , act, ...also]) => [key, ...also].map((k) => [k, act]))));
acts.set("S-Tab", () => turnBy(-1));

function fitAgain() {
  scale.sight = scale.auto && !scale.sight;
  scale.auto = true;
  say(scale.sight ? "fitted to the rows in sight" : "fitted to all rows");
  draw();
}

const turnChip = (word) => filterBy(turnWord($("search").value, word));

function turnBy(by) {
  const list = ["ids", "frames", "findings", "stats", "peers", "context"];
  turn(list[(list.indexOf(ui.view) + by + list.length) % list.length]);
}

function back() {
  if (ui.detail) hide();
  else if ($("search").value) filterBy("");
  else if (id) location.assign("/");
}

function last() {
  scrollRows(1e9);
  if (ui.view === "frames") toBottom();
}

function sideways(by) {
  if (ui.detail) along(by); else if (ui.view === "ids") pan(by / 4);
}

function sort() {
  if (ui.view !== "ids") return;
  if (ui.byRun) return say("by run, the oldest stay first (b changes the grouping)");
  ui.sort = (ui.sort + 1) % sorts.length;
  sort.chosen = true;
  keepSort();
  say("sorted by " + sorts[ui.sort][0]);
  ui.column.ids = undefined;
  ui.stale = true;
  $("rows").scrollTop = 0;
  paint(true);
}

function foldAll() {
  if (ui.byRun) return cutAll();
  ui.allUnfolded = !ui.allUnfolded;
  ui.unfolded.clear();
  ui.stale = true;
  paint(true);
}

function freeze() {
  ui.frozen = !ui.frozen;
  say(ui.frozen ? "frozen: what comes is not listed until space is pressed again" : "");
  refresh();
}

function focusSearch() {
  $("search").focus();
  $("search").select();
}

function help() {
  const box = $("help");
  if (box.open) return box.close();
  box.replaceChildren(...keys.map(([title, ...list]) => {
    const e = part("", "", "section");
    e.append(part(title, "", "h3"), ...list.map(([key, text, , ...also]) => {
      const line = part("", "", "div");
      line.append(part([key, ...also.filter((k) => !k.includes("-") || k === "-").slice(0, 1)].map((k) => named[k] || k).join(" "), "", "kbd"), part(text));
      return line;
    }));
    return e;
  }), filterHelp());
  box.showModal();
}
const named = { " ": "space", Escape: "esc", Enter: "enter", ArrowUp: "↑", ArrowDown: "↓", ArrowLeft: "←", ArrowRight: "→", PageUp: "pgup", PageDown: "pgdn", Backspace: "bksp", Tab: "tab", Home: "home", End: "end" };

function filterHelp() {
  const e = part("", "", "section");
  e.append(part("Filters", "", "h3"), part("any text, or words and conditions joined by and:", "", "p"), part(Object.keys(words).join(" "), "dim", "p"), part(Object.keys(fields).join(" ") + "  with == != ~ < >", "dim", "p"), part('late and kind==tools/call', "id", "p"));
  e.append(part("Rows of a run", "", "h3"), part(Object.entries(letters).map(([role, letter]) => letter + " " + (role === "user" ? "waits for the user" : role)).join("  "), "", "p"));
  return e;
}

// theme takes over the theme that was chosen, or changes it.
function theme(change) {
  let chosen = null;
  try { chosen = localStorage.getItem("theme"); } catch { /* the browser keeps nothing for this page */ }
  if (change) {
    const dark = (chosen || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
    chosen = dark ? "light" : "dark";
    try { localStorage.setItem("theme", chosen); } catch { /* nor this */ }
    theme.here = chosen;
  }
  chosen = theme.here || chosen;
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
  readColors();
  legend();
  draw();
}

addEventListener("keydown", (e) => {
  if (e.altKey || e.metaKey || document.querySelector("dialog[open]") && e.key !== "?") return;
  if (e.target === $("search")) {
    if (e.key === "Escape" || e.key === "Enter") { $("search").blur(); e.preventDefault(); }
    return;
  }
  if (e.target.tagName === "PRE" && /^(Arrow(Up|Down)|Page|Home|End)/.test(e.key)) return; // a payload that was clicked scrolls
  if (e.target.tagName === "BUTTON" && (e.key === "Enter" || e.key === " ")) return;
  const act = acts.get((e.ctrlKey ? "C-" : e.shiftKey && e.key === "Tab" ? "S-" : "") + e.key);
  if (!act) return;
  e.preventDefault();
  act();
});
$("search").addEventListener("input", () => {
  filterBy($("search").value);
  complete();
});
$("search").addEventListener("focus", () => complete());
for (const [word, key] of Object.entries(chips)) {
  const b = button(word, "only " + word + " (" + key + ")", () => turnChip(word));
  b.dataset.word = word;
  $("chips").append(b);
}

function complete() {
  if (!session.about) return;
  $("completions").replaceChildren(...completionsOf($("search").value).map((text) => Object.assign(document.createElement("option"), { value: text })));
}
// A click on the bracket of an object or array folds it.
$("detail").addEventListener("click", (e) => {
  if (e.target.classList.contains("opens") && !String(getSelection())) e.target.classList.toggle("folded");
});
$("theme").onclick = () => theme(true);
$("keys").onclick = help;
$("help").onclick = () => $("help").close();
$("in").onclick = () => zoom(2);
$("out").onclick = () => zoom(0.5);
$("path").onclick = lightPath;
$("fit").onclick = fitAgain;
for (const b of document.querySelectorAll("#tabs [data-view]")) b.onclick = () => turn(b.dataset.view);
$("rows").addEventListener("scroll", () => {
  if (ui.follow && $("rows").scrollTop + $("rows").clientHeight < $("rows").scrollHeight - 2 * ROW) ui.follow = false;
  draw();
});
pressable($("rows"), () => ui.shown, (x, e) => {
  ui.at[ui.view] = views[ui.view].key(x);
  if (e.target.classList.contains("fold")) return fold(x);
  openSelected();
});
$("rows").addEventListener("wheel", (e) => {
  if (ui.view !== "ids" || !(e.ctrlKey || e.shiftKey || e.deltaX)) return;
  e.preventDefault();
  if (e.ctrlKey) zoom(e.deltaY < 0 ? 1.25 : 0.8, e.clientX); else pan((e.deltaX || e.deltaY) / 600);
}, { passive: false });
let drag = null;
$("rows").addEventListener("pointerdown", (e) => { if (ui.view === "ids" && e.clientX > scale.left && e.clientX < scale.right) drag = e.clientX; });
addEventListener("pointermove", (e) => {
  if (drag === null || Math.abs(e.clientX - drag) < 3) return;
  pan(-(e.clientX - drag) / (scale.right - scale.left));
  drag = e.clientX;
});
addEventListener("pointerup", () => { drag = null; });
addEventListener("resize", draw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => theme(false));

// take takes in what is new and shows it.
function take(d) {
  const first = !session.about || d.reset;
  learn(d);
  if (first) take.begun = performance.now();
  const isRead = !d.about.live && performance.now() - take.begun < 2000; // a record, and not one that has ended before our eyes
  if (first || isRead && !sort.chosen) ui.sort = keptSort() ?? (isRead ? sorts.length - 1 : 0);
  if (d.about.run && !ui.grouped) groupRuns();
  $("path").hidden = !d.about.joins;
  if (first && (d.about.view || location.hash === "#context")) turn("context");
  else if (first && location.hash.length > 1) {
    ui.wanted = Number(location.hash.replace(/^#(call-)?/, ""));
    ui.wantsCall = location.hash.startsWith("#call-");
  }
  if (ui.wanted && frameOf(ui.wanted)) {
    show(ui.wanted, 0, ui.wantsCall);
    ui.wanted = 0;
  }
  if (d.frames && ui.filter && !search.timer) search();
  refresh();
}

// Lanes of what is in flight grow while nothing comes.
setInterval(() => {
  if (ui.view === "ids" && !ui.frozen && session.about?.now && session.about.open) draw();
}, 100);

let broken = false;
function stream() {
  const events = new EventSource("/api/events?" + new URLSearchParams({ session: id }));
  events.onmessage = (e) => {
    if (broken) say("");
    broken = false;
    take(JSON.parse(e.data));
  };
  events.onerror = () => {
    broken = true;
    say("the server does not answer: this page tries again", "bad");
    draw();
  };
}

async function unpack() {
  const raw = Uint8Array.from(atob($("data").textContent.trim()), (c) => c.charCodeAt(0));
  const plain = new Blob([raw]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(plain).text());
}

function begin() {
  theme(false);
  $("home").hidden = !id;
  $("home").href = "/";
  $("brand").hidden = Boolean(id);
  if (!isLive) {
    turn("ids");
    return unpack().then(take);
  }
  if (id) {
    turn("ids");
    return stream();
  }
  $("tabs").hidden = true;
  $("title").textContent = "sessions";
  $("search").placeholder = "search  ( / )";
  turn("sessions");
  listSessions();
  setInterval(() => { if (!document.hidden) listSessions(); }, 3000);
}
Promise.resolve().then(begin).catch((e) => {
  $("wrong").hidden = false;
  $("wrong").textContent = "This page cannot be read here: " + e;
  throw e;
});
