// Runs as trees: of agents, with turns, models, tools and what these start; and of wirectl rlm, with
// turns, cells, calls and child runs. What stands below what is known from the server.

// groupRuns lists the exchanges of runs as trees, or does so no longer.
function groupRuns() {
  ui.byRun = !ui.byRun;
  ui.grouped = ui.stale = true;
  legend();
  paint(true);
}

// listRuns lists what is to be seen, each turn or run after its heading. What is listed is so with
// all that it stands below.
function listRuns() {
  const kept = new Set(), keep = (x) => (!ui.openOnly || x.open) && exchangeMatches(ui.filter, x);
  const open = new Set(), ends = new Map();
  for (let x of session.exchanges.values()) {
    const run = runOf(x);
    if (x.open) open.add(run);
    ends.set(run, Math.max(ends.get(run) ?? 0, endOf(x)));
    if (keep(x)) for (; x && !kept.has(x); x = aboveOf(x)) kept.add(x);
  }
  const runs = new Map(), below = new Map();
  const place = (x) => {
    const above = aboveOf(x), list = above ? below : runs, key = above || runOf(x);
    if (!list.has(key)) list.set(key, []);
    list.get(key).push(x);
  };
  const agents = new Set();
  for (const x of session.exchanges.values()) {
    if (!kept.has(x)) continue;
    if (x.head && !agents.has(x.head)) {
      agents.add(x.head);
      const agent = session.heads.get(x.head);
      if (agent) place(headingOf(agent));
    }
    place(x);
  }
  const shown = [];
  ui.deepest = 2;
  const add = (x, level) => {
    x.level = level;
    ui.deepest = Math.max(ui.deepest, level);
    x.parent = below.has(x);
    shown.push(x);
    if (x.parent && !ui.cut.has(x.mark)) for (const y of below.get(x)) add(y, level + 1);
  };
  for (const [run, list] of [...runs].sort((a, b) => (a[0] === "") - (b[0] === "") || (session.about.joins ? a[0] - b[0] : 0))) {
    if (isAlone(list[0])) {
      add(list[0], 0);
      continue;
    }
    const turn = session.heads.get(run), head = turn ? headingOf(turn) : runHeading(run, list, open.has(run), ends.get(run));
    head.level = 0;
    head.parent = true;
    shown.push(head);
    if (!ui.cut.has(head.mark)) for (const x of list) add(x, 1);
  }
  return shown;
}

const aboveOf = (x) => x.head && session.heads.has(x.head) ? headingOf(session.heads.get(x.head)) : session.exchanges.get(x.turn || x.run || x.role ? x.under || x.of : x.of);

// isAlone tells a turn of one call, which has no heading.
const isAlone = (x) => session.about.joins && x.role === "model" && !x.own && !x.turn;

// runOf returns what an exchange is listed below: the key of its turn, the id of its run, or itself if it is a turn.
const runOf = (x) => session.heads.has(x.turn) ? x.turn : isAlone(x) ? x.mark : x.run || "";

// headingOf returns the row of a turn or an agent.
function headingOf(h) {
  return h.row ||= Object.assign(h, {
    mark: "head " + h.key, isHead: true, role: "agent", id: "", kind: "", first: 0, frames: [], below: [], dir: 0, took: h.end - h.opened, bytes: 0, conn: 0, parts: 0,
  });
}

// runHeading makes the row of a run of rlm, or of what is in none, whose lane is that of all its exchanges.
function runHeading(run, list, open, end) {
  const opened = Math.min(...list.slice(0, 1000).map((x) => x.opened)), last = list[list.length - 1];
  return {
    mark: "run " + run, run, place: "", id: run.slice(0, 8), name: run ? "run" : session.about.joins ? session.heads.size ? "other calls" : "calls" : "no run", kind: "", first: list[0].first || 0, frames: [], below: [],
    dir: 0, opened, end, took: end - opened, open, outcome: open ? "in flight" : last.outcome, state: open ? "in-flight" : last.state, bytes: 0, conn: 0, parts: 0,
  };
}

// fillPlace says where in its run an exchange is: the deeper the further to the right.
function fillPlace(x, put) {
  const tree = "  ".repeat(x.level) + (x.parent ? (ui.cut.has(x.mark) ? "▸ " : "▾ ") : "  ");
  const letter = session.about.joins && (x.level || isAlone(x)) && letters[x.role];
  put(1, letter || (x.level ? arrows[x.dir] : "") || "", letter ? "role r-" + x.role : side(x.dir));
  put(2, "");
  put(3, tree + (x.edge && x.edge !== "exact" ? "? " : "") + [x.place ? x.place.split("/").pop() : x.role && !x.isHead ? "" : bare(x.id), x.name || x.kind].filter(Boolean).join(" "), "name tree" + (x.parent ? " fold" : ""));
  put(4, x.wire || "", "dim");
  put(5, x.isHead ? x.reason || "" : x.own ? "for itself: " + x.own : x.asks || (x.state === "failed" && x.why) || x.args || (x.name ? x.kind : ""), "dim");
}

// onPath is how much of the critical path an exchange is.
const onPath = (x) => (x.path || []).reduce((sum, [from, to]) => sum + (to < 0 ? now() : to) - from, 0);

// lightPath lights the critical path of a run, or does so no longer.
function lightPath() {
  if (!session.about?.joins) return say("only a run, or several sessions, have a critical path");
  ui.lit = !ui.lit;
  $("path").setAttribute("aria-pressed", ui.lit);
  if (!ui.byRun) return groupRuns();
  draw();
}

// treeWidth is how wide the names are with their places in the tree.
function treeWidth(width) {
  const most = ui.shown.reduce((n, x) => Math.max(n, 2 * (x.level || 0) + 3 + (x.name || x.kind || "").length + (x.place || "").length), 16);
  return Math.round(Math.min(most * 8 + 8, Math.max(width / 3.5, 190)));
}

// cutTree folds what stands below an exchange, or else that which it stands below.
function cutTree(x) {
  const at = x.parent ? x : aboveOf(x);
  if (!at) return;
  if (!ui.cut.delete(at.mark)) ui.cut.add(at.mark);
  ui.at.ids = at.mark;
  ui.stale = true;
  paint(true);
}

function cutAll() {
  const all = ui.shown.filter((x) => x.level && x.parent);
  if (ui.cut.size) ui.cut.clear(); else for (const x of all) ui.cut.add(x.mark);
  ui.stale = true;
  paint(true);
}

// interrupt ends a run, a cell or a call.
function interrupt(x) {
  const path = x.run + (x.place ? "/" + x.place : "");
  command("interrupt " + (x.place || "run " + x.id), null, () => ({ do: "cancel", id: JSON.stringify(path) }), "");
}
