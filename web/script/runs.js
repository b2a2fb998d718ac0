// Runs as trees: of agents, with turns, models, tools and what these start; and of wirectl rlm, with
// turns, cells, calls and child runs. What stands below what is known from the server.

// groupRuns lists the exchanges of runs as trees, or does so no longer.
function groupRuns() {
  ui.byRun = !ui.byRun;
  ui.grouped = ui.stale = true;
  paint(true);
}

// listRuns lists what is to be seen, each run after its heading. What is listed is so with
// all that it stands below.
function listRuns() {
  const kept = new Set(), keep = (x) => (!ui.openOnly || x.open) && exchangeMatches(ui.filter, x);
  const open = new Set(), ends = new Map();
  for (let x of session.exchanges.values()) {
    if (x.open) open.add(x.run || "");
    ends.set(x.run || "", Math.max(ends.get(x.run || "") ?? 0, endOf(x)));
    if (keep(x)) for (; x && !kept.has(x.mark); x = aboveOf(x)) kept.add(x.mark);
  }
  const runs = new Map(), below = new Map();
  for (const x of session.exchanges.values()) {
    if (!kept.has(x.mark)) continue;
    const above = aboveOf(x), list = above ? below : runs, key = above ? above.mark : x.run || "";
    if (!list.has(key)) list.set(key, []);
    list.get(key).push(x);
  }
  const shown = [], turns = [...runs.keys()].some(isTurn);
  ui.deepest = 2;
  const add = (x, level) => {
    x.level = level;
    ui.deepest = Math.max(ui.deepest, level);
    x.parent = below.has(x.mark);
    shown.push(x);
    if (x.parent && !ui.cut.has(x.mark)) for (const y of below.get(x.mark)) add(y, level + 1);
  };
  for (const [run, list] of [...runs].sort((a, b) => (a[0] === "") - (b[0] === ""))) {
    const head = headingOf(run, list, open.has(run), ends.get(run), turns);
    shown.push(head);
    if (!ui.cut.has(head.mark)) for (const x of list) add(x, 1);
  }
  return shown;
}

// isTurn tells a turn in the run of an agent from the id of a question of wirectl rlm.
const isTurn = (run) => run.startsWith("turn ");

const aboveOf = (x) => session.exchanges.get(x.run ? x.under : x.of);

// headingOf makes the row of a run, whose lane is that of all its exchanges.
function headingOf(run, list, open, end, turns) {
  const stopped = isTurn(run) && run.includes(": "), opened = list[0].opened; // the name says how it was cancelled
  const last = stopped ? { outcome: "cancelled", state: "cancelled" } : list[list.length - 1];
  return {
    mark: "run " + run, run, place: "", id: isTurn(run) ? "" : run.slice(0, 8), name: isTurn(run) ? run : run ? "run" : turns ? "outside of turns" : "no run", kind: "", first: list[0].first, frames: [], below: [], level: 0, parent: true,
    dir: 0, opened, end, took: end - opened, open, outcome: open ? "in flight" : last.outcome, state: open ? "in-flight" : last.state, bytes: 0, conn: 0, parts: 0,
  };
}

// fillPlace says where in its run an exchange is: the deeper the further to the right.
function fillPlace(x, put) {
  put(2, "");
  put(3, "  ".repeat(x.level) + (x.parent ? (ui.cut.has(x.mark) ? "▸ " : "▾ ") : "  ") + (x.place ? x.place.split("/").pop() : x.run && x.level ? "" : bare(x.id)), x.parent ? "id tree fold" : "id tree");
  put(4, (x.edge && x.edge !== "exact" ? "? " : "") + (x.name || x.kind), "name");
  put(5, x.asks || (x.name ? x.kind : ""), "dim");
}

const treeWidth = () => 44 + 16 * Math.min(ui.deepest, 12);

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
