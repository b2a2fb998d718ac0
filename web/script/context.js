// What models were given: a bar for each call, by kind of what fills it, and what the cache served.

const kinds = ["tool", "system", "user", "assistant", "thought", "call", "result", "attachment", "other", "history"];
const kindNames = { tool: "tools", system: "system prompt", user: "user", assistant: "answers", thought: "thoughts", call: "calls", result: "results", attachment: "attachments", other: "other", history: "not here" };
const chartHeight = 230, overBars = 38, underBars = 20, leftOfBars = 58;

async function askContexts() {
  if (!isLive || ui.view !== "context") return;
  if (askContexts.seen !== session.changes) {
    askContexts.seen = session.changes;
    session.contexts = await ask("context").catch(() => session.contexts);
    draw();
  }
  clearTimeout(askContexts.timer);
  askContexts.timer = setTimeout(askContexts, 1000);
}

function paintContexts() {
  const box = $("stats"), all = session.contexts;
  if (!all) return box.replaceChildren(part("counting…", "dim"));
  const calls = (all.calls || []).filter((c) => searched([c.model, c.agent_type, c.own, ...c.items.map((i) => (i.name || "") + " " + (i.path || ""))].join(" ")));
  if (!calls.length) return box.replaceChildren(part(all.calls?.length ? "no call of a model matches" : "no call of a model was seen", "nothing", "div"));
  const parts = [kindLegend(calls)];
  if (all.left_out) parts.push(part(number(all.left_out) + " earlier calls are left out", "dim", "p"));
  for (const list of Map.groupBy(calls, (c) => c.conversation).values()) parts.push(conversation(list));
  const top = box.scrollTop;
  box.replaceChildren(...parts);
  box.scrollTop = top;
  for (const chart of box.querySelectorAll("canvas.context")) drawContexts(chart);
}

function kindLegend(calls) {
  const line = part("", "kinds", "div");
  for (const k of kinds) {
    if (!calls.some((c) => c.parts[k])) continue;
    const swatch = part("", "swatch", "i");
    swatch.style.background = "var(--k-" + k + ")";
    const e = part("");
    e.append(swatch, kindNames[k]);
    line.append(e);
  }
  line.append(part("▬ served by the cache", "cached"), part("▼ served less than before", "error"), part("shares of tokens are estimates", "dim"));
  return line;
}

// conversation makes the chart of a conversation, with a line about the call that is pointed at.
function conversation(calls) {
  const e = part("", "conversation", "section"), c = calls.at(-1), chart = document.createElement("canvas"), said = part("", "call", "div");
  const title = ["conversation " + c.conversation, c.model, number(calls.length) + (calls.length === 1 ? " call" : " calls"), c.own ? "the agent's own: " + c.own : c.agent_type ? "sub-agent " + c.agent_type : "",
    calls[0].branch ? "branches off after call " + calls[0].previous : "", c.transcript ? "a transcript, without system prompt and tools" : ""].filter(Boolean).join(" · ");
  chart.className = "context";
  chart.calls = calls;
  chart.said = said;
  chart.tabIndex = 0;
  chart.onpointermove = (ev) => point(chart, callAt(chart, ev.offsetX));
  chart.onpointerdown = (ev) => point(chart, callAt(chart, ev.offsetX), true);
  chart.onkeydown = (ev) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[ev.key];
    if (!by) return;
    ev.stopPropagation();
    point(chart, calls[Math.max(0, Math.min(calls.length - 1, calls.findIndex((c) => c.call === ui.call) + by))], true);
  };
  e.append(part(title, "", "h3"), chart, said);
  describe(said, calls.find((c) => c.call === ui.call) || calls.findLast((c) => c.verdict) || c);
  return e;
}

// scaleOf returns how many tokens stand for a byte in a chart; 0 if bytes are drawn, because tokens are not told or too few.
function scaleOf(calls) {
  const told = calls.filter((c) => c.input_tokens > 0), sum = (get) => told.reduce((n, c) => n + get(c), 0);
  return told.some((c) => c.input_tokens >= 1000 || c.parts.history) ? sum((c) => c.input_tokens) / Math.max(1, sum((c) => c.bytes)) : 0;
}

// sharesOf returns how much of a call is of each kind: tokens, which are estimated if the provider has not told them, or bytes.
function sharesOf(c, scale) {
  return kinds.map((k) => !c.parts[k] ? 0 : scale && c.input_tokens ? c.parts[k].tokens_estimate || 0 : c.parts[k].bytes * (scale || 1));
}
const sizeOf = (c, scale) => scale && c.input_tokens || c.bytes * (scale || 1);

// barsOf returns the calls that are drawn: of too many, those that have something to say.
function barsOf(chart) {
  const calls = chart.calls, most = Math.max(1, Math.floor((chart.clientWidth - leftOfBars) / 3));
  if (calls.length <= most) return calls;
  return Array.from({ length: most }, (_, i) => {
    const some = calls.slice(Math.floor(i * calls.length / most), Math.floor((i + 1) * calls.length / most));
    return some.find((c) => c.verdict || c.compacted) || some.reduce((a, b) => b.bytes > a.bytes ? b : a);
  });
}

const barWidth = (chart, n) => Math.min(64, (chart.clientWidth - leftOfBars) / n);

function callAt(chart, x) {
  const bars = barsOf(chart);
  return bars[Math.max(0, Math.min(bars.length - 1, Math.floor((x - leftOfBars) / barWidth(chart, bars.length))))];
}

function point(chart, c, chosen) {
  if (chosen) ui.call = c.call;
  if (!chosen && chart.pointed === c.call) return;
  chart.pointed = c.call;
  describe(chart.said, c);
  drawContexts(chart);
}

const short = (n) => n < 1e4 ? number(Math.round(n)) : n < 1e6 ? (n / 1e3).toPrecision(3) + "k" : (n / 1e6).toPrecision(3) + "M";

// grower is the largest new item of a call, if it is a good part of it.
function grower(c) {
  const largest = c.previous ? c.items.reduce((a, b) => !a || b.bytes > a.bytes ? b : a, null) : null;
  return largest && largest.bytes > Math.max(c.bytes / 8, 512) ? largest : null;
}
const titleOf = (i) => [i.name, i.path].filter(Boolean).join(" ") || (i.text ? "“" + i.text + "”" : i.kind);

function drawContexts(chart) {
  const w = chart.clientWidth, bars = barsOf(chart), scale = scaleOf(chart.calls), size = (b) => sizeOf(b, scale), wide = barWidth(chart, bars.length), c = fitted(chart, w, chartHeight), high = chartHeight - overBars - underBars;
  const most = Math.max(...bars.map(size), 1), y = (n) => overBars + high - n / most * high;
  c.textBaseline = "middle";
  c.textAlign = "right";
  const step = niceStep(most / 3);
  for (let n = 0; n <= most; n += step) {
    c.fillStyle = colors.line;
    c.fillRect(leftOfBars, Math.round(y(n)), w - leftOfBars, 1);
    c.fillStyle = colors.dim;
    c.fillText(short(n), leftOfBars - 6, y(n));
  }
  c.textAlign = "left";
  c.fillText(scale ? "tokens in" : "bytes", 0, 9);
  // label writes a text about a bar unless another one is there, and returns where the next one may begin.
  const label = (text, color, at, free, middle) => {
    const some = text.length > 22 ? text.slice(0, 21) + "…" : text, long = c.measureText(some).width, left = Math.min(Math.max(leftOfBars, middle - long / 2), w - long);
    if (left < free) return free;
    c.fillStyle = color;
    c.fillText(some, left, at);
    return left + long + 8;
  };
  const free = { cause: leftOfBars, grown: leftOfBars };
  bars.forEach((b, i) => {
    const x = leftOfBars + i * wide, width = Math.max(1, wide - (wide > 5 ? 2 : wide > 2.5 ? 1 : 0)), shares = sharesOf(b, scale), unit = size(b) / Math.max(1, shares.reduce((a, n) => a + n, 0));
    let sum = 0;
    c.globalAlpha = scale && !b.input_tokens ? 0.45 : 1; // an estimate
    shares.forEach((n, k) => {
      if (!n) return;
      const from = y(sum), to = y(sum += n * unit);
      c.fillStyle = colors["k-" + kinds[k]];
      c.fillRect(x, to, width, Math.max(from - to, 0.5));
    });
    c.globalAlpha = 1;
    if (b.cached_tokens && scale) {
      c.fillStyle = colors.fg;
      c.fillRect(x, y(b.cached_tokens) - 1, width, 2);
    }
    if (b.call === ui.call || b.call === chart.pointed) {
      c.strokeStyle = colors.fg;
      c.strokeRect(x - 0.5, y(sum) - 0.5, width + 1, chartHeight - underBars - y(sum) + 1);
    }
    const cause = b.verdict?.cause || (b.compacted ? "compacted" : ""), grown = grower(b);
    if (b.verdict) {
      c.fillStyle = colors.failed;
      c.beginPath();
      c.moveTo(x + width / 2 - 5, overBars - 20);
      c.lineTo(x + width / 2 + 5, overBars - 20);
      c.lineTo(x + width / 2, overBars - 13);
      c.fill();
    }
    if (cause) free.cause = label(b.compacted ? "compacted" : cause, b.verdict ? colors.failed : colors.after, 9, free.cause, x + width / 2);
    else if (grown) free.grown = label(titleOf(grown), colors.dim, Math.max(27, y(size(b)) - 9), free.grown, x + width / 2);
  });
  c.textAlign = "center";
  c.fillStyle = colors.dim;
  const every = Math.max(1, Math.ceil(34 / wide));
  bars.forEach((b, i) => { if (i % every === 0) c.fillText(b.call, leftOfBars + i * wide + wide / 2 - 1, chartHeight - underBars / 2); });
}

function niceStep(n) {
  const ten = 10 ** Math.floor(Math.log10(Math.max(n, 1)));
  return [1, 2, 5, 10].map((f) => f * ten).find((f) => f >= n) || 10 * ten;
}

// describe says what a call was given, and what has changed.
function describe(box, c) {
  const shares = sharesOf(c, c.input_tokens >= 1000 || c.parts.history ? 1 : 0), sum = Math.max(1, shares.reduce((a, n) => a + n, 0)), lines = [];
  const about = ["call " + c.call, bytes(c.bytes), c.input_tokens ? number(c.input_tokens) + " tokens in" : "", c.cached_tokens !== undefined ? number(c.cached_tokens) + " cached" : "", c.output_tokens ? number(c.output_tokens) + " out" : "", c.idle_ms !== undefined ? "after a pause of " + span(c.idle_ms * 1e3) : ""];
  const head = part(about.filter(Boolean).join(" · ") + " ", "name", "div");
  if (frameOf(c.frame)) head.append(button("#" + number(c.frame), "show the request", () => show(c.frame)));
  lines.push(head);
  lines.push(part(kinds.map((k, i) => shares[i] ? kindNames[k] + " " + Math.round(shares[i] / sum * 100) + " %" : "").filter(Boolean).join(" · "), "dim", "div"));
  if (c.verdict) lines.push(part("cache: " + number(c.verdict.lost_tokens) + " tokens less: " + c.verdict.text, "error", "div"));
  if (c.compacted && !c.verdict?.text.includes("compacted")) lines.push(part("compacted: " + (c.transcript ? c.compacted : number(c.dropped.count) + " items gone, " + bytes(c.dropped.bytes)), "warning", "div"));
  else if (c.dropped?.count && !c.compacted) lines.push(part(number(c.dropped.count) + (c.dropped.count === 1 ? " item gone, " : " items gone, ") + bytes(c.dropped.bytes), "warning", "div"));
  for (const ch of c.changes || []) lines.push(part("differs: " + ch.kind + " " + (ch.name || ch.place || "") + ": " + ch.how, "warning", "div"));
  if (c.previous) {
    const list = [...c.items].sort((a, b) => b.bytes - a.bytes);
    for (const i of list.slice(0, 6)) lines.push(part("+ " + i.kind + " " + titleOf(i) + ", " + bytes(i.bytes) + (i.tokens_estimate ? ", ~" + number(i.tokens_estimate) + " tokens" : ""), "", "div"));
    if (list.length > 6) lines.push(part("+ " + number(list.length - 6) + " smaller items", "dim", "div"));
  }
  box.replaceChildren(...lines);
}
