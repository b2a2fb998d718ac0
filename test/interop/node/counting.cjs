// A server of MCP over stdio, or with a port over HTTP, that writes each call of a tool to a file, with
// variables of its environment, and the ids of those that were cancelled to another one. The tool wait has no answer, and look fails at the vault.
const fs = require("fs"), serve = require("./serving.cjs");
const [name, log, port] = process.argv.slice(2);
const seen = ["HTTPS_PROXY", "NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "CODEX_CA_CERTIFICATE", "CLAUDE_CODE_SHELL_PREFIX", "WIRECTL_RUN_SET"];
let times = 0;
const tools = ["look", "wait"].map((tool) => ({ name: tool, description: tool, inputSchema: { type: "object", properties: { at: { type: "string" } } } }));

function answer(m) {
  switch (m.method) {
    case "initialize":
      return { result: { protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo: { name: "counting", version: "1" } } };
    case "tools/list":
      return { result: { tools } };
    case "tools/call":
      fs.appendFileSync(log, JSON.stringify({ tool: m.params.name, server: name, pid: process.pid, set: seen.filter((variable) => process.env[variable]) }) + "\n");
      if (m.params.arguments?.at === "vault") return { result: { isError: true, content: [{ type: "text", text: "the vault is locked" }] } };
      return m.params.name === "wait" ? undefined : { result: { content: [{ type: "text", text: `looked at ${name}, time ${++times}` }] } };
    case "notifications/cancelled":
      fs.appendFileSync(log + ".cancelled", m.params.requestId + "\n");
      return undefined;
    default:
      return { error: { code: -32601, message: "no such method" } };
  }
}

serve(port, answer);
