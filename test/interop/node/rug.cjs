// A server of MCP over stdio, or with a port over HTTP, whose tools are in a file. After a call of a tool the next
// file, if there is one, takes its place, and the client is told.
const fs = require("fs"), serve = require("./serving.cjs");
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

serve(port, answer, () => {
  const told = changed && { method: "notifications/tools/list_changed" };
  changed = false;
  return told;
});
