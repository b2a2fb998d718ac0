// A client of the MCP TypeScript SDK: it lists the tools of the server that a command line
// starts, calls some of them in turn, and writes what came of each, and what was on standard
// error, as one line of JSON. A step is { name, arguments, timeout } or { method }.
const [modules, steps, command, ...args] = process.argv.slice(2);
const load = require("node:module").createRequire(modules + "/");
const { Client } = load("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = load("@modelcontextprotocol/sdk/client/stdio.js");
const { ResultSchema } = load("@modelcontextprotocol/sdk/types.js");

async function main() {
  const client = new Client({ name: "interop", version: "1" });
  client.onerror = () => {}; // such as of output that is no message
  const transport = new StdioClientTransport({ command, args, stderr: "pipe" });
  let stderr = "";
  transport.stderr.on("data", (data) => (stderr += data));
  const ended = new Promise((resolve) => transport.stderr.on("end", resolve));
  await client.connect(transport);
  await client.listTools();
  const results = [];
  for (const { name, arguments: given, method, timeout } of JSON.parse(steps)) {
    const asked = method
      ? client.request({ method }, ResultSchema)
      : client.callTool({ name, arguments: given }, undefined, { timeout });
    results.push(await asked.then(
      (result) => (result.isError ? "tool error: " : "") + result.content?.[0].text,
      (error) => "error: " + error.message,
    ));
  }
  await client.close();
  await ended;
  console.log(JSON.stringify({ results, stderr }));
}

main();
