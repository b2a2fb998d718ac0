// A client that starts the server "files" of a configuration, as Claude Code does, calls its
// tools and cancels one call. If it gets a file, it leaves when the file names the cancel.
const fs = require("node:fs");
const [modules, config, watched] = process.argv.slice(2);
const load = require("node:module").createRequire(modules + "/");
const { Client } = load("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = load("@modelcontextprotocol/sdk/client/stdio.js");

async function main() {
  const { command, args } = JSON.parse(fs.readFileSync(config, "utf8")).mcpServers.files;
  const client = new Client({ name: "newcomer", version: "1" });
  await client.connect(new StdioClientTransport({ command, args, env: process.env }));
  await client.listTools();
  await client.callTool({ name: "echo", arguments: { message: "hello" } });
  await client.callTool({ name: "get-sum", arguments: { a: 40, b: "two" } }).catch(() => {});
  const esc = new AbortController();
  const slow = { name: "trigger-long-running-operation", arguments: { duration: 2, steps: 20 } };
  await client.callTool(slow, undefined, { signal: esc.signal, onprogress: () => esc.abort("user pressed Esc") }).catch(() => {});
  while (watched && !fs.readFileSync(watched, "utf8").includes("user pressed Esc")) await new Promise((done) => setTimeout(done, 20));
  await client.close();
}

main();
