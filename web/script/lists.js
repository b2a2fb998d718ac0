// Lists: what of the session is listed in which order, and the rows that are in sight.

const ROW = 22, HEAD = 25, LINE = 20;
const arrows = ["·", "→", "←"], side = (dir) => dir === 2 ? "u2c" : "c2u";
const ui = {
  view: "ids", at: {}, sort: 0, openOnly: false, unfolded: new Set(), allUnfolded: false, byRun: false, grouped: false, cut: new Set(), deepest: 2, lit: false, filter: null, follow: false, frozen: false, jq: "",
  column: {}, matching: 0, shown: [], stale: true, made: 0, took: 0, sessions: [], top: {},
};

// A view is a list: its rows, the key of each, its height, its cells and what a row says.
const views = {
  ids: { list: listExchanges, key: (x) => x.mark, height: ROW, cells: 10, fill: fillExchange, columns: exchangeColumns,
    heads: ["", "", "", "id", "name", "", "time", "", "outcome", "took"], right: [9], nothing: () => ui.filter ? "no call matches" : ui.openOnly ? "nothing is in flight (c shows what is over, too)" : waiting("no call yet") },
  frames: { list: () => ui.filter ? session.frames.filter((f) => frameMatches(ui.filter, f)) : session.frames, key: (f) => f.seq, height: ROW, cells: 8, fill: fillFrame,
    columns: (w) => w < 900 ? [62, 92, 18, 0, 136, 76, 88, null] : [76, 100, 18, connWidth(), 190, 124, 96, null],
    heads: ["frame", "time", "", "conn", "kind", "id", "bytes", "says"], right: [0, 1, 6], nothing: () => ui.filter ? "no frame matches" : waiting("no frame yet") },
  findings: { list: listFindings, key: (f) => f, height: 3 * ROW, cells: 5, fill: fillFinding,
    columns: (w) => w < 900 ? [22, 150, 110, null] : [22, 190, 190, null], heads: ["", "finding", "frames", "what"], right: [], nothing: () => ui.filter ? "no finding matches" : "no rule was broken" },
  peers: { list: listPeers, key: (p) => p.key, height: ROW, cells: 5, fill: fillPeer,
    columns: (w) => w < 900 ? [62, null, 120, 120, 120] : [76, null, 170, 170, 240], heads: ["conn", "name, and what was said", "→ frames", "← frames", "state"], right: [0], nothing: () => ui.filter ? "nothing matches" : waiting("no connection yet") },
  sessions: { list: () => ui.sessions, key: (s) => s.id, height: ROW, cells: 7, fill: fillSession,
    columns: sessionColumns, heads: ["", "name", "host", "kind", "begun", "frames", "about"], right: [5], nothing: () => "no session is here yet" },
};
// What columns are sorted by when their heading is clicked. A run stays in the order of time.
const states = (x) => x.state + " " + x.outcome;
views.ids.by = { 3: (x) => bare(x.id), 4: (x) => x.name || x.kind, 5: (x) => saysOf(x), 6: (x) => x.opened, 8: states, 9: tookOf };
views.frames.by = { 0: (f) => f.seq, 1: (f) => f.time, 3: (f) => f.conn, 4: (f) => f.kind, 5: (f) => bare(f.id), 6: (f) => f.size };
views.findings.by = { 1: (f) => f.finding, 2: (f) => f.frames[0] || 0 };
views.sessions.by = { 1: (s) => s.name || s.id, 4: (s) => s.started || "", 5: (s) => s.frames || 0 };
const inOrder = new Intl.Collator("en", { numeric: true }).compare;
const compare = (a, b) => typeof a === "number" ? a - b : inOrder(a, b);

// arranged sorts a list by the chosen column, if any.
function arranged(list) {
  const chosen = ui.column[ui.view], key = chosen && views[ui.view].by?.[chosen.at];
  if (!key) return list;
  const keyed = list.map((row) => [key(row), row]).sort((a, b) => (chosen.down ? -1 : 1) * compare(a[0], b[0]));
  return keyed.map(([, row]) => row);
}

// sortBy sorts by a column: up, down, and then as before.
function sortBy(at) {
  if (!views[ui.view]?.by?.[at]) return;
  if (ui.view === "ids" && ui.byRun) return say("by run, the oldest stay first (b changes the grouping)");
  const chosen = ui.column[ui.view];
  ui.column[ui.view] = chosen?.at !== at ? { at, down: at === 9 || ui.view === "frames" && at === 6 } : chosen.turned ? undefined : { at, down: !chosen.down, turned: true };
  ui.stale = true;
  ui.follow = false;
  $("head").said = null;
  $("rows").scrollTop = 0;
  paint(true);
}

const waiting = (text) => session.about?.waiting || session.about?.error || (session.about?.live ? text : text.replace(" yet", ""));
const connWidth = () => session.frames.some((f) => f.conn > 1) ? 42 : 0;

function listExchanges() {
  if (ui.byRun) return listRuns();
  const keep = (x) => (!ui.openOnly || x.open) && exchangeMatches(ui.filter, x);
  const below = (x) => x.below.map((mark) => session.exchanges.get(mark)).filter(Boolean);
  const list = [];
  for (const x of session.exchanges.values()) {
    if (operationOf(x) !== x) continue;
    if (keep(x) || below(x).some(keep)) list.push(x);
  }
  const sorted = ui.column.ids ? arranged(list) : list.sort(sorts[ui.sort][1]);
  if (!session.joined) return sorted;
  return sorted.flatMap((x) => isUnfolded(x) ? [x, ...below(x).filter(keep)] : [x]);
}

const isUnfolded = (x) => ui.allUnfolded !== ui.unfolded.has(x.mark);

function listFindings() {
  if (!ui.filter) return session.findings;
  return session.findings.filter((f) => ui.filter.terms.every((t) => (t.text !== undefined ? JSON.stringify(f).toLowerCase().includes(t.text.toLowerCase()) :
    f.frames.some((seq) => { const frame = frameOf(seq); return frame && t.frame(frame, exchangeOf(frame)); }))));
}

// refresh makes the list anew with the next paint; draw only paints it.
function refresh() { ui.stale = true; draw(); }

let queued = false;
function draw() {
  if (queued) return;
  queued = true;
  requestAnimationFrame(() => { queued = false; paint(); });
}

// settle makes the list anew. One that takes long is not made so often while frames come.
function settle(hurry) {
  if (!ui.stale || ui.frozen && !hurry) return;
  const begin = performance.now(), view = views[ui.view];
  if (!hurry && begin - ui.made < 10 * ui.took) {
    setTimeout(draw, 10 * ui.took);
    return;
  }
  const before = indexOf(), rows = $("rows"), bottom = rows.scrollTop + rows.clientHeight >= ui.shown.length * (view?.height || 1) - 2;
  ui.shown = view ? ui.view === "ids" ? view.list() : arranged(view.list()) : [];
  ui.matching = ui.filter && ui.view === "ids" ? [...session.exchanges.values()].reduce((n, x) => n + exchangeMatches(ui.filter, x), 0) : 0;
  ui.stale = false;
  ui.made = performance.now();
  ui.took = ui.made - begin;
  if (!view) return;
  $("space").style.height = ui.shown.length * view.height + "px";
  if (ui.view === "frames" && ui.follow) rows.scrollTop = ui.shown.length * view.height;
  else if (before >= 0 && !hurry && ui.view === "ids" && rows.scrollTop > 0) rows.scrollTop += (indexOf() - before) * view.height; // what is selected stays where it is
  if (bottom && ui.view === "frames" && session.about?.live) ui.follow = true;
}

// indexOf returns where the selected row is; -1 if there is none.
function indexOf() {
  const key = ui.at[ui.view], view = views[ui.view];
  return key === undefined || !view ? -1 : ui.shown.findIndex((row) => view.key(row) === key);
}

// paint makes the rows that are in sight, and no others.
function paint(hurry) {
  settle(hurry);
  showStatus();
  if (ui.detail) paintDetail();
  const view = views[ui.view], canvas = $("canvas");
  $("stats").hidden = ui.view !== "stats" && ui.view !== "context";
  $("pool").hidden = !view;
  canvas.hidden = ui.view !== "ids";
  if (!view) {
    $("head").replaceChildren();
    $("space").style.height = "0";
    return ui.view === "context" ? paintContexts() : paintStats();
  }
  const rows = $("rows"), width = rows.clientWidth, height = rows.clientHeight, columns = fill(view.columns(width), width);
  heading(view, columns);
  const [first, last] = inSight(rows, view.height, ui.shown.length), pool = $("pool");
  pool.style.setProperty("--columns", columns.map((n) => n + "px").join(" "));
  paintRows(pool, first, last, view.height, view.cells, (i, put) => {
    const more = view.fill(ui.shown[i], put) || "";
    return "row" + (view.height > ROW ? " tall" : "") + (view.key(ui.shown[i]) === ui.at[ui.view] ? " picked" : "") + more;
  });
  if (!ui.shown.length) pool.replaceChildren(part(view.nothing(), "nothing", "div"));
  if (ui.view === "ids") paintLanes(canvas, width, height, first, last);
}

// inSight returns which rows of a list of n are in sight, from the first to before the last.
function inSight(box, height, n) {
  const first = Math.min(Math.floor(box.scrollTop / height), n);
  return [first, Math.min(n, first + Math.ceil(box.clientHeight / height) + 1)];
}

// paintRows shows the rows from first to before last. It uses the elements of the pool again,
// so that what is pointed at stays while the list changes. fill returns the class of a row.
function paintRows(pool, first, last, height, cells, fill) {
  while (pool.children.length > last - first) pool.lastChild.remove();
  while (pool.children.length < last - first) pool.append(part("", "", "div"));
  for (let i = first; i < last; i++) {
    const e = pool.children[i - first];
    if (e.children.length !== cells) e.replaceChildren(...Array.from({ length: cells }, () => part("")));
    if (e.index !== i || e.height !== height) e.style.transform = "translateY(" + i * height + "px)";
    e.index = i;
    e.height = height;
    const kind = fill(i, (n, text, kind) => put(e.children[n], text, kind));
    if (e.className !== kind) e.className = kind;
  }
}

// pressable calls act with the row of a list that is clicked: the one that was there when the
// button went down, since the list may change before it goes up.
function pressable(box, list, act) {
  let pressed;
  const under = (e) => {
    const row = e.target.closest("div");
    return row?.index === undefined ? undefined : list()[row.index];
  };
  box.addEventListener("pointerdown", (e) => { pressed = under(e); });
  box.addEventListener("click", (e) => {
    const row = pressed ?? under(e);
    pressed = undefined;
    if (row !== undefined && under(e) !== undefined && (!String(getSelection()) || e.detail < 2)) act(row, e);
  });
}

// put changes a cell, if it says something else.
function put(cell, text, kind = "") {
  text = plain(text);
  if (cell.text !== text) cell.textContent = cell.text = text;
  if (cell.className !== kind) cell.className = kind;
}

// fill gives the column without a width what is left.
function fill(columns, width) {
  const rest = width - columns.reduce((sum, n) => sum + (n || 0), 0);
  return columns.map((n) => n === null ? Math.max(rest, 40) : n);
}

function heading(view, columns) {
  const head = $("head");
  if (head.view !== view) {
    head.view = view;
    head.replaceChildren(...view.heads.map((text, i) => {
      const e = part(text, view.right.includes(i) ? "r" : "");
      e.onclick = () => sortBy(i);
      return e;
    }));
    head.said = "";
  } else if (!head.children.length) {
    head.view = null;
    return heading(view, columns);
  }
  if (view === views.ids && head.said !== (head.said = [ui.byRun, ui.lit].join())) {
    const names = ui.byRun ? ["name", session.about?.joins ? "wire" : "", ""] : ["id", "name", session.told ? "arguments, error" : ""];
    [...names, "", "", "outcome", ui.lit ? "path" : "took"].forEach((text, i) => put(head.children[i + 3], text, i === 6 ? "r" : ""));
  }
  const chosen = ui.byRun && ui.view === "ids" ? undefined : ui.column[ui.view];
  [...head.children].forEach((e, i) => {
    e.toggleAttribute("data-sortable", Boolean(view.by?.[i]) && !(ui.byRun && ui.view === "ids"));
    e.style.visibility = columns[i] ? "" : "hidden";
    e.dataset.sorted = chosen?.at === i ? (chosen.down ? "down" : "up") : "";
  });
  head.style.gridTemplateColumns = columns.map((n) => n + "px").join(" ");
}

// The columns of exchanges: mark, arrow, fold, id, name, kind, lane, sign, outcome, took.
function exchangeColumns(width) {
  if (ui.byRun) return runColumns(width);
  const narrow = width < 900, most = narrow ? Math.max(150, Math.min(220, Math.round(width * 0.28))) : width < 1200 ? 190 : 260;
  const name = Math.max(110, Math.min(session.longest * 8 + 14, most)), kind = narrow || !session.told && !session.about?.failed ? 0 : width > 1100 ? 220 : 116;
  ui.noKind = !kind;
  const columns = fill([20, 18, session.joined ? 26 : 0, narrow ? 62 : 92, name, kind, null, 24, narrow ? 116 : 132, 74], width);
  return withLanes(columns);
}

// runColumns are those of the tree of a run: mark, role, none, name, wire, kind, and the same from there.
function runColumns(width) {
  const narrow = width < 900;
  return withLanes(fill([20, 18, 0, treeWidth(width), session.about?.joins && width > 640 ? Math.round(Math.max(60, Math.min(session.wire * 8 + 10, width / 8))) : 0, narrow ? 0 : Math.round(width / 9), null, 24, narrow ? 100 : 132, 66], width));
}

// withLanes says where between columns the lanes are.
function withLanes(columns) {
  const before = columns.slice(0, 6).reduce((sum, n) => sum + n, 0);
  scale.left = before + 10;
  scale.right = before + columns[6] - 12;
  ui.signAt = before + columns[6] + 10;
  return columns;
}

// saysOf is what tells a call from others of its name: why it failed, its arguments, or its kind.
const saysOf = (x) => x.asks || (x.state === "failed" && x.why) || x.args || (x.name ? x.kind : "");

function fillExchange(x, put) {
  const below = operationOf(x) !== x;
  const kept = session.bookmarks.size && x.frames.some((f) => session.bookmarks.has(f.seq));
  put(0, kept ? " ◆" : x.findings ? " !" : "", kept ? "warning" : "error");
  if (ui.byRun) fillPlace(x, put);
  else {
    put(1, arrows[x.dir] || "", side(x.dir));
    put(2, below ? (x.guessed ? "└?" : "└") : x.below.length ? (isUnfolded(x) ? "▾" : "▸") : "", below ? "dim" : "fold");
    put(3, bare(x.id) || "·", "id");
    put(4, x.name || x.kind, "name");
    put(5, saysOf(x), "dim");
  }
  put(8, x.outcome + (x.after ? " +" + number(x.after) : ""), classOf(x.state));
  const took = ui.lit && !x.onPath ? onPath(x) : tookOf(x);
  put(9, ui.lit && !x.onPath && !x.path ? "" : session.about.timed && (took > 0 || x.open) ? span(took) : "", "r dim");
  return ui.lit && !x.path && !x.onPath ? " unlit" : "";
}

function paintLanes(canvas, width, height, first, last) {
  const c = fitted(canvas, width, height + HEAD), top = $("rows").scrollTop;
  if (!session.about) return;
  if (scale.auto && !ui.frozen) fit(!ui.shown.length ? [...session.exchanges.values()] : scale.sight ? ui.shown.slice(first, last) : ui.shown);
  if (!session.exchanges.size) return;
  if (scale.right - scale.left < 30) return;
  axis(c, height, HEAD);
  for (let i = first; i < last; i++) {
    const x = ui.shown[i], y = HEAD + i * ROW - top + ROW / 2;
    c.save();
    c.beginPath();
    c.rect(scale.left - 8, HEAD, scale.right - scale.left + 16, height);
    c.clip();
    lane(c, x, y);
    if (ui.noKind && x.state === "failed" && x.why) whyOn(c, x, y);
    c.restore();
    if (y > HEAD + 6) sign(c, x.state, ui.signAt, y);
  }
}

function fillFrame(f, put) {
  const x = exchangeOf(f), picked = ui.detail && frameOf(ui.detail.seq);
  put(0, (session.bookmarks.has(f.seq) ? "◆ " : "") + number(f.seq), session.bookmarks.has(f.seq) ? "r warning" : "r dim");
  put(1, session.about.timed ? (f.time / 1e6).toFixed(6) : "", "r dim");
  put(2, arrows[f.dir], side(f.dir) + " arrow");
  put(3, String(f.conn), "dim");
  put(4, f.kind, "name");
  put(5, bare(f.id), "id");
  put(6, number(f.size), "r dim");
  put(7, f.says);
  return (isLate(f, x) ? " late" : "") + (picked && f.of && f.of === picked.of ? " same" : "");
}

function fillFinding(f, put) {
  put(0, { error: " !", warning: " ▲" }[f.severity] || " i", f.severity);
  put(1, f.finding, "name " + f.severity);
  put(2, f.frames.map((n) => "#" + n).join(" "), "id");
  put(3, f.message);
  put(4, f.rule + ". " + f.do, "rule");
}

// listPeers lists the connections, and then what was said beside the frames.
function listPeers() {
  const { peers = [], lines = [], total = 0 } = session.peers || {};
  const all = [...peers.map((p) => ({ ...p, key: "peer " + p.conn })), ...lines.map((l, i) => ({ ...l, key: total - lines.length + i }))];
  return all.filter((p) => searched((p.name || "") + " " + (p.text || "") + " " + (p.state || "")));
}

function fillPeer(p, put) {
  const said = p.text !== undefined;
  put(0, number(p.conn), "r dim");
  put(1, said ? (p.time ? (p.time / 1e6).toFixed(6) + "  " : "") + p.text : p.name, said ? (p.kind === "stderr" ? "" : "dim") : "name");
  put(2, said ? "" : number(p.up) + "  " + bytes(p.upSize), "dim");
  put(3, said ? "" : number(p.down) + "  " + bytes(p.size), "dim");
  put(4, said ? p.kind : [p.state, p.stall ? "waited " + span(p.stall) : "", p.note].filter(Boolean).join(" · "), p.bad ? "warning" : p.state === "open" ? "live" : "dim");
}

function fillSession(s, put) {
  put(0, s.state ? "  " + s.state : "", s.state === "live" ? "live" : "dim");
  put(1, s.name || s.id, "name");
  put(2, s.host || "", "id");
  put(3, s.kind || "", "dim");
  put(4, s.started ? s.started.slice(0, 19).replace("T", " ") : "", "dim");
  put(5, s.frames ? number(s.frames) : "", "r dim");
  put(6, (s.about || "") + (s.lost ? "  " + number(s.lost) + " lost" : ""), "dim");
}

// sessionColumns are as wide as what some session has.
function sessionColumns(width) {
  const has = (field) => ui.sessions.some((s) => s[field]), narrow = width < 900, name = Math.max(...ui.sessions.map((s) => (s.name || s.id).length), 12) * 8 + 30;
  return [has("state") ? 70 : 14, Math.min(name, width / (narrow ? 2 : 3)), has("host") ? narrow ? 100 : 140 : 0, has("kind") && !narrow ? 80 : 0, has("started") ? narrow ? 160 : 180 : 0, has("frames") ? narrow ? 80 : 90 : 0, null];
}

// move selects the row that is so many further on.
function move(by) {
  if (!views[ui.view] || !ui.shown.length) return;
  const i = indexOf();
  select(i < 0 ? (by > 0 ? Math.min(by - 1, ui.shown.length - 1) : 0) : Math.max(0, Math.min(i + by, ui.shown.length - 1)));
}

// select selects a row and has it in sight.
function select(i) {
  ui.at[ui.view] = views[ui.view].key(ui.shown[i]);
  if (i < ui.shown.length - 1) ui.follow = false;
  reveal(i);
  if (ui.detail) openSelected();
  draw();
}

// reveal has a row in sight.
function reveal(i) {
  const height = views[ui.view]?.height, rows = $("rows"), y = i * height;
  if (!height || i < 0) return;
  if (y < rows.scrollTop) rows.scrollTop = y;
  else if (y + height > rows.scrollTop + rows.clientHeight) rows.scrollTop = y + height - rows.clientHeight;
}

// openDetail has room for the detail, beside or below the list, whose selected row stays in sight.
function openDetail() {
  const opens = $("detail").hidden;
  $("detail").hidden = false;
  if (opens) reveal(indexOf());
}

// open shows what is selected.
function openSelected() {
  const row = ui.shown[indexOf()];
  if (!row) return;
  switch (ui.view) {
    case "ids": return row.isHead ? showHead(row) : row.first ? show(row.first, row.mark, true) : fold(row);
    case "frames": return show(row.seq, row.of);
    case "findings": return show(row.frames[row.frames.length - 1]);
    case "peers":
      filterBy("conn==" + row.conn);
      return turn("ids");
    case "sessions": location.assign("/session/" + encodeURIComponent(row.id));
  }
}

// turn goes to another view, unless the page has no session.
function turn(to) {
  if (isLive && !id && to !== "sessions") return;
  ui.top[ui.view] = $("rows").scrollTop;
  ui.view = to;
  for (const b of document.querySelectorAll("#tabs [data-view]")) b.setAttribute("aria-selected", b.dataset.view === to);
  $("chips").style.visibility = ["ids", "frames", "findings"].includes(to) ? "visible" : "hidden";
  $("zoom").style.visibility = $("legend").style.visibility = to === "ids" ? "visible" : "hidden";
  ui.stale = true;
  ui.shown = [];
  paint(true);
  $("rows").scrollTop = ui.top[to] || 0;
  if (to === "frames" && session.about?.live && ui.top.frames === undefined) toBottom();
  if (to === "stats") askStats();
  if (to === "peers") askPeers();
  if (to === "context") askContexts();
  draw();
}

function toBottom() {
  ui.follow = true;
  $("rows").scrollTop = $("rows").scrollHeight;
}

function fold(x) {
  if (!x) return;
  if (ui.byRun) return cutTree(x);
  const op = operationOf(x);
  if (ui.unfolded.has(op.mark)) ui.unfolded.delete(op.mark); else ui.unfolded.add(op.mark);
  if (op !== x) ui.at.ids = op.mark;
  ui.stale = true;
  paint(true);
}
