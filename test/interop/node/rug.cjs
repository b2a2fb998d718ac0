// A server of MCP over stdio, or with a port over HTTP, whose tools are in a file. After a call of a tool the next
// file, if there is one, takes its place, and the client is told.
const fs = require("fs"), http = require("http"), readline = require("readline");
const [name, log, port] = process.argv.slice(2);
const file = `${log}.${name}.json`, next = `${log}.${name}.next.json`;
let changed = false;

function answer(m) {
  switch (m.method) {
    case "initialize":
      return { result: { protocolVersion: "2025-06-18", capabilities: { tools: { listChanged: true } }, serverInfo: { name, version: "1" } } };
    case "tools/list":
      return { result: { tools: JSON.parse(fs.readFileSync(file)) } };
    case "tools/call":
      if (fs.existsSync(next)) {
        fs.renameSync(next, file);
        changed = true;
      }
      return { result: { content: [{ type: "text", text: `looked at ${name}` }] } };
    default:
      return { error: { code: -32601, message: "no such method" } };
  }
}

function reply(m) {
  const body = m.id === undefined || m.method === undefined ? undefined : answer(m);
  return body && JSON.stringify({ jsonrpc: "2.0", id: m.id, ...body });
}

if (port === undefined) {
  readline.createInterface({ input: process.stdin }).on("line", (line) => {
    const text = reply(JSON.parse(line));
    if (changed) process.stdout.write(JSON.stringify({ jsonrpc: "2.0", method: "notifications/tools/list_changed" }) + "\n");
    changed = false;
    if (text) process.stdout.write(text + "\n");
  });
} else {
  const server = http.createServer((q, r) => {
    let text = "";
    q.on("data", (data) => (text += data));
    q.on("end", () => {
      const body = q.method === "POST" && reply(JSON.parse(text));
      r.writeHead(q.method === "POST" ? (body ? 200 : 202) : 405, { "content-type": "application/json" });
      r.end(body || undefined);
    });
  });
  server.listen(Number(port), "127.0.0.1", () => console.error(`listening on http://127.0.0.1:${server.address().port}/mcp`));
}
