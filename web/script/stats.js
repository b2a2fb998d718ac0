// Statistics: totals, the traffic over time, and tables by name and by kind.

function paintStats() {
  const box = $("stats"), st = session.stats, a = session.about;
  if (!st || !a) return box.replaceChildren(part("counting…", "dim"));
  const cards = part("", "cards", "div"), chart = document.createElement("canvas");
  const card = (v, what, kind) => {
    const e = part("", kind || "", "div");
    e.append(part(v, "", "b"), part(what, "dim"));
    cards.append(e);
  };
  chart.id = "traffic";
  card(number(a.frames), "frames");
  card(bytes(a.bytes), "on the wire");
  if (a.timed) card(span(a.last), "from first to last");
  card(number(a.exchanges), "exchanges");
  for (const o of st.outcomes) card(number(o.count), o.name, o.failed ? "error" : "");
  for (const o of st.cancels) card(number(o.count), "cancels " + o.name, "warning");
  const [m, ...others] = st.models || [], isAll = m && !others.length && st.usage && tokens([m.tokens.input, m.tokens.cached, m.tokens.output]) === tokens(st.usage);
  if (st.usage && tokens(st.usage) && !isAll) card(tokens(st.usage), "tokens");
  if (st.usage && st.usage[3] && !isAll) card(dollars(st.usage[3]), "cost");
  for (const m of st.models || []) card(tokens([m.tokens.input, m.tokens.cached, m.tokens.output]) || number(m.calls) + " calls", m.name + (m.tokens_per_second ? " · " + m.tokens_per_second + " tokens/s" : "") + (m.cost_usd ? " · " + dollars(m.cost_usd * 1e6) : ""));
  if (a.findings) card(number(a.findings), a.findings === 1 ? "finding" : "findings", "warning");
  box.replaceChildren(cards, chart, ...namesTable(st), kindsTable(st));
  traffic(chart, st);
}

const searched = (text) => !ui.filter || ui.filter.terms.every((t) => t.text === undefined || text.toLowerCase().includes(t.text.toLowerCase()));
const took = (latency, q) => latency ? span(latency[q] * 1e3) : "";

function table(heads, lines) {
  const t = document.createElement("table"), top = t.insertRow();
  for (const h of heads) top.append(part(h, "", "th"));
  for (const [cells, where] of lines) {
    const tr = t.insertRow();
    for (const v of cells) tr.insertCell().textContent = plain(v);
    tr.className = "go";
    tr.title = "filter by it";
    tr.onclick = () => { filterBy(where); turn("ids"); };
  }
  return t;
}

function namesTable(st) {
  const list = st.names.filter((x) => searched(x.kind + " " + x.name));
  if (!list.length) return [];
  const t = table(["name", "calls", "errors", "p50", "p99", "bytes", "~tokens", "defined", "kind"], list.map((x) => [[
    x.name, number(x.calls), x.errors ? number(x.errors) : "", took(x.latency_ms, "p50"), took(x.latency_ms, "p99"), x.calls ? number(x.result_bytes) : "", x.calls ? "~" + number(x.result_tokens_estimate) : "", x.definition_bytes ? number(x.definition_bytes) : "", x.kind],
  "name==" + x.name]));
  for (const tr of [...t.rows].slice(1)) {
    tr.cells[2].className = "error";
    tr.cells[8].className = "dim";
  }
  t.id = "names";
  const sum = t.createCaption(), tools = st.tools;
  sum.textContent = (tools ? "sent with every conversation: " + number(tools.count) + (tools.count === 1 ? " tool, " : " tools, ") + number(tools.definition_bytes) + " bytes, ~" + number(tools.definition_tokens_estimate) + " tokens · " : "") + "~ is an estimate: bytes/4";
  return [t];
}

function kindsTable(st) {
  const list = st.kinds.filter((k) => searched(k.kind));
  const t = table(["kind", "frames", "bytes", "answers", "p50", "p90", "p99", "max"], list.map((k) => [[
    k.kind, number(k.frames), number(k.bytes), k.latency_ms ? number(k.latency_ms.count) : "", ...["p50", "p90", "p99", "max"].map((q) => took(k.latency_ms, q))], "kind==" + k.kind]));
  t.id = "kinds";
  return t;
}

// traffic draws the frames over time: those of the controller above the line, those of
// the unit below, and how many exchanges were in flight behind them.
function traffic(chart, st) {
  const w = chart.clientWidth, h = chart.clientHeight, c = fitted(chart, w, h), { up, down, open } = st.traffic;
  if (!up) return;
  const bins = Math.max(1, Math.min(Math.floor(w / 4), up.length)), sum = (list, i) => list.slice(Math.floor(i * up.length / bins), Math.floor((i + 1) * up.length / bins)).reduce((a, b) => a + b, 0);
  const high = Array.from({ length: bins }, (_, i) => sum(up, i)), low = Array.from({ length: bins }, (_, i) => sum(down, i));
  const flight = Array.from({ length: bins }, (_, i) => Math.max(0, ...open.slice(Math.floor(i * up.length / bins), Math.floor((i + 1) * up.length / bins))));
  const most = Math.max(...high, ...low, 1), mid = h / 2, unit = (mid - 18) / most, wide = w / bins, top = Math.max(...flight, 1);
  c.fillStyle = colors.grid;
  for (let i = 0; i < bins; i++) c.fillRect(i * wide, h - 16 - flight[i] / top * (h - 32), wide, flight[i] / top * (h - 32));
  for (let i = 0; i < bins; i++) {
    c.fillStyle = colors.c2u;
    c.fillRect(i * wide, mid - 1 - high[i] * unit, Math.max(wide - 1, 1), high[i] * unit);
    c.fillStyle = colors.u2c;
    c.fillRect(i * wide, mid + 1, Math.max(wide - 1, 1), low[i] * unit);
  }
  c.fillStyle = colors.line;
  c.fillRect(0, mid - 0.5, w, 1);
  c.fillStyle = colors.c2u;
  c.fillText("→ frames of the controller, at most " + number(most) + " a bar", 0, 8);
  c.fillStyle = colors.u2c;
  c.fillText("← frames of the unit", 0, h - 6);
  c.textAlign = "right";
  c.fillStyle = colors.dim;
  c.fillText("behind: in flight, at most " + number(top), w, 8);
}
