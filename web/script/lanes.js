// Lanes: the life of each exchange over time, and the marks on them.

const font = '13px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace';
let colors = {};

// readColors takes the colours of the theme, for canvases.
function readColors() {
  const probe = document.createElement("i");
  document.body.append(probe);
  colors = {};
  for (const name of ["bg", "fg", "dim", "line", "grid", "c2u", "u2c", "id", "part", "tool", "process", "agent", "done", "failed", "cancel", "after", "silent", "wait", ...kinds.map((k) => "k-" + k)]) {
    probe.style.color = "var(--" + name + ")";
    colors[name] = getComputedStyle(probe).color;
  }
  probe.remove();
}

// Roles are what works in a row, with the letters that stand for them also where colours cannot be told apart.
const letters = { model: "M", tool: "T", process: "P", agent: "A", user: "U" }, roleColors = { model: "part", tool: "tool", process: "process", agent: "agent", user: "wait" };

const stateColors = { done: "done", failed: "failed", cancelled: "cancel", asked: "cancel", cancelling: "cancel", silent: "silent", abandoned: "silent", "in-flight": "c2u" };
const colorOf = (state) => colors[stateColors[state] || "after"];
const classOf = (state) => "s-" + (stateColors[state] ? state : "other");

// fitted sizes a canvas to the pixels of the screen and returns its context.
function fitted(canvas, width, height) {
  const ratio = devicePixelRatio || 1, w = Math.round(width * ratio), h = Math.round(height * ratio);
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
    canvas.style.width = width + "px";
    canvas.style.height = height + "px";
  }
  const c = canvas.getContext("2d");
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  c.clearRect(0, 0, width, height);
  c.font = font;
  c.textBaseline = "middle";
  return c;
}

// sign draws what became of an exchange; states differ in shape, too.
function sign(c, state, x, y) {
  const cross = (r) => {
    c.beginPath();
    c.moveTo(x - r, y - r); c.lineTo(x + r, y + r);
    c.moveTo(x + r, y - r); c.lineTo(x - r, y + r);
    c.stroke();
  };
  const circle = (r) => {
    c.beginPath();
    c.arc(x, y, r, 0, 7);
  };
  c.lineWidth = 2;
  c.lineCap = "round";
  c.strokeStyle = c.fillStyle = colorOf(state);
  switch (state) {
    case "done": circle(4); c.fill(); break;
    case "failed": circle(5); c.fill(); c.strokeStyle = colors.bg; c.lineWidth = 1.5; cross(2); break;
    case "cancelled": circle(4); c.stroke(); c.beginPath(); c.moveTo(x - 2.8, y + 2.8); c.lineTo(x + 2.8, y - 2.8); c.stroke(); break;
    case "in-flight": c.beginPath(); c.moveTo(x - 3, y - 4.5); c.lineTo(x + 4.5, y); c.lineTo(x - 3, y + 4.5); c.fill(); break;
    case "abandoned": case "silent": c.lineWidth = 1.5; circle(4); c.setLineDash([2, 2.2]); c.stroke(); c.setLineDash([]); break;
    case "asked": case "cancelling": cross(3.5); break;
    default: c.beginPath(); c.moveTo(x, y - 5); c.lineTo(x + 5, y); c.lineTo(x, y + 5); c.lineTo(x - 5, y); c.fill(); // it ended in spite of a cancel
  }
}

// legend says what the marks of lanes mean, drawn as the lanes draw them.
const marks = [["part", "part"], ["done", "done"], ["failed", "failed"], ["asked", "cancel asked"], ["after", "came after it"], ["cancelled", "cancelled"], ["silent", "no answer"], ["in-flight", "in flight"]];
function legend() {
  const roles = ui.byRun && session.about?.joins ? [...Object.keys(letters).slice(0, 4), "waiting"] : [];
  $("legend").replaceChildren(...roles.map((role) => [role, [letters[role], role].filter(Boolean).join(" ")]).concat(roles.length ? marks.slice(1) : marks).map(([state, text]) => {
    const e = part(""), mark = document.createElement("canvas"), c = fitted(mark, 14, 14);
    if (roles.includes(state)) {
      c.fillStyle = colors[roleColors[state] || "wait"];
      c.fillRect(1, state === "waiting" ? 6 : 3, 12, state === "waiting" ? 2 : 8);
    } else if (state === "part" || state === "after") {
      c.fillStyle = colors[state];
      c.fillRect(6, 2, 3, 10);
    } else sign(c, state, 7, 7);
    e.append(mark, " " + text);
    return e;
  }));
}

// A scale maps times to the pixels of the lanes.
const scale = { from: 0, to: 1, left: 0, right: 1, auto: true, sight: false };
const xOf = (t) => scale.left + (t - scale.from) / (scale.to - scale.from) * (scale.right - scale.left);
const timeOf = (x) => scale.from + (x - scale.left) / (scale.right - scale.left) * (scale.to - scale.from);

// fit shows all the time of some exchanges.
function fit(list) {
  let from = Infinity, to = -Infinity;
  for (const x of list) {
    from = Math.min(from, x.opened);
    to = Math.max(to, endOf(x));
  }
  if (!(to > from)) {
    from = from === Infinity ? 0 : from;
    to = from + 1;
  }
  const room = (to - from) * 0.01;
  scale.from = from - room;
  scale.to = to + room;
}

function zoom(by, x) {
  scale.auto = false;
  const at = x === undefined ? (scale.from + scale.to) / 2 : timeOf(x), least = session.about?.timed ? 1 : 2;
  const width = Math.max((scale.to - scale.from) / by, least), share = (at - scale.from) / (scale.to - scale.from);
  scale.from = at - width * share;
  scale.to = scale.from + width;
  draw();
}

function pan(share) {
  scale.auto = false;
  const by = (scale.to - scale.from) * share;
  scale.from += by;
  scale.to += by;
  draw();
}

// lane draws the life of an exchange, or of a turn, in the row whose middle is y: wide where its role was at
// work, and a line where it waited.
function lane(c, x, y) {
  const end = endOf(x), stopped = x.stops?.length ? x.stops[0].at : x.cancel ? x.asked : Infinity;
  const a = xOf(x.opened), b = Math.max(xOf(end), a + 1), cut = xOf(stopped), until = Math.min(b, cut), role = roleColors[x.role];
  const lit = !ui.lit || x.onPath || x.path ? 1 : 0.25;
  c.globalAlpha = 0.16 * lit;
  c.fillStyle = role ? colors[role] : colorOf(x.cancel ? "cancelled" : x.state);
  c.fillRect(a, y - 6, until - a, 12);
  c.fillStyle = colors.after;
  if (cut < b) c.fillRect(cut, y - 6, b - cut, 12);
  c.globalAlpha = lit;
  c.fillStyle = colors.wait;
  c.fillRect(a, y - 1, until - a, 2);
  c.fillStyle = role ? colors[role] : colors.wait;
  c.fillRect(a - 1, y - 6, 2, 12);
  if (x.parts) c.globalAlpha = 0.5 * lit; // so that they show
  if (role) for (const [from, to] of workOf(x, Math.min(end, stopped))) c.fillRect(xOf(from), y - 4, Math.max(xOf(to) - xOf(from), 1), 8);
  c.globalAlpha = lit;
  if (cut < b) {
    c.fillStyle = colors.after;
    for (let at = cut; at < b; at += 6) c.fillRect(at, y - 1, Math.min(3.5, b - at), 2);
  }
  parts(c, x, y, cut, b);
  c.globalAlpha = 1;
  for (const s of x.stops || []) if (s.at) sign(c, "asked", xOf(s.at), y);
  if (x.cancel) sign(c, "asked", cut, y);
  if (cut === Infinity || b - cut > 6) sign(c, x.state, b, y);
  c.fillStyle = colors.fg;
  if (ui.lit) for (const [from, to] of x.path || []) c.fillRect(xOf(from) - 1, y + 7, Math.max(xOf(to < 0 ? now() : to) - xOf(from), 1) + 2, 3);
}

// whyOn writes why a call failed where its lane leaves more room.
function whyOn(c, x, y) {
  const inside = (at) => Math.max(scale.left, Math.min(scale.right, at)), before = inside(xOf(x.opened) - 8), after = inside(xOf(endOf(x)) + 10), left = before - scale.left > scale.right - after;
  const room = left ? before - scale.left : scale.right - after, wide = c.measureText("0").width, fits = Math.floor(room / wide);
  if (fits < 8) return;
  c.fillStyle = colors.failed;
  c.textAlign = "left";
  c.fillText(plain(x.why.length > fits ? x.why.slice(0, fits - 1) + "…" : x.why), left ? scale.left : after, y);
}

// workOf returns the times of a row at which it did not wait, up to an end.
function workOf(x, end) {
  let from = x.opened;
  const list = [];
  for (const [begin, to] of x.waits || []) {
    if (begin > from) list.push([from, Math.min(begin, end)]);
    from = to < 0 ? end : to;
  }
  if (from < end) list.push([from, end]);
  return list.filter(([from, to]) => from <= to);
}

// parts draws those that are in sight. Frames that are not here any more were between the
// first part and the last.
function parts(c, x, y, cut, end) {
  const list = x.frames;
  if (x.parts > list.length && x.to > x.from) {
    const from = xOf(x.from), to = xOf(x.to);
    c.globalAlpha = 0.55;
    c.fillStyle = colors.part;
    c.fillRect(from, y - 4, Math.max(Math.min(to, cut) - from, 1), 8);
    c.fillStyle = colors.after;
    if (to > cut) c.fillRect(Math.max(cut, from), y - 4, to - Math.max(cut, from), 8);
    c.globalAlpha = 1;
  }
  let low = 0, high = list.length, before = -9;
  while (low < high) {
    const mid = (low + high) >> 1;
    if (list[mid].time < scale.from) low = mid + 1; else high = mid;
  }
  for (; low < list.length && list[low].time <= scale.to; low++) {
    const at = xOf(list[low].time);
    if (at - before < 1 || list[low].dir === x.dir || at > end - 3 && !x.open) continue;
    before = at;
    c.fillStyle = at > cut ? colors.after : colors[roleColors[x.role]] || colors.part;
    c.fillRect(at - 1, y - 5, 2.5, 10);
  }
}

// axis draws the scale of the lanes, and its lines behind them.
function axis(c, height, head) {
  const raw = (scale.to - scale.from) / Math.max(2, (scale.right - scale.left) / 130), unit = 10 ** Math.floor(Math.log10(raw));
  const timed = session.about.timed, round = [1, 2, 5, 10].find((m) => m * unit >= raw) * unit, step = timed ? round : Math.max(1, Math.round(round));
  c.textAlign = "left";
  for (let t = Math.ceil(scale.from / step) * step; t < scale.to; t += step) {
    const x = xOf(t), label = timed ? (Math.abs(t) < step / 2 ? "0" : tick(t, step)) : "#" + number(Math.round(t) || 0);
    c.fillStyle = colors.line;
    c.fillRect(x, 7, 1, head - 7);
    c.fillStyle = colors.grid;
    c.fillRect(x, head, 1, height);
    if (x + 4 + c.measureText(label).width < scale.right) {
      c.fillStyle = colors.dim;
      c.fillText(label, x + 5, head / 2);
    }
  }
  const width = (scale.to - scale.from) / 1.02;
  $("range").textContent = timed ? span(width) : number(Math.round(width)) + " frames";
}

function span(us) {
  if (us < 0) return "-" + span(-us);
  if (us < 1e3) return us.toFixed(0) + "µs";
  if (us < 1e6) return (us / 1e3).toPrecision(3) + "ms";
  if (us < 6e7) return (us / 1e6).toPrecision(3) + "s";
  if (us < 3.6e9) return Math.floor(us / 6e7) + "m" + Math.floor(us / 1e6) % 60 + "s";
  return us < 3.6e11 ? Math.floor(us / 3.6e9) + "h" + Math.floor(us / 6e7) % 60 + "m" : number(Math.floor(us / 8.64e10)) + "d";
}

// tick is span with as many digits as steps of the axis take.
function tick(us, step) {
  const size = Math.abs(us), unit = size < 1e3 ? 1 : size < 1e6 ? 1e3 : 1e6;
  const digits = Math.max(0, Math.ceil(-Math.log10(step / unit) - 1e-9)), sign = us < 0 ? "-" : "";
  if (size < 6e7) return sign + (size / unit).toFixed(digits) + (unit === 1 ? "µs" : unit === 1e3 ? "ms" : "s");
  if (step >= 8.64e10) return sign + number(Math.round(size / 8.64e10)) + "d";
  if (step >= 6e7 && size >= 3.6e9) return sign + span(size);
  const seconds = Math.round(size / 1e6 * 10 ** digits) / 10 ** digits;
  return sign + Math.floor(seconds / 60) + "m" + (seconds % 60).toFixed(digits) + "s";
}
