// A client of the MCP TypeScript SDK: it talks to the server at an address, over
// streamable HTTP, SSE or a WebSocket, or to the one that a command line starts, over stdio,
// and writes what it got as one line of JSON.
const [modules, kind, address, ...args] = process.argv.slice(2);
const load = require("node:module").createRequire(modules + "/");
const { Client } = load("@modelcontextprotocol/sdk/client/index.js");
const { SSEClientTransport } = load("@modelcontextprotocol/sdk/client/sse.js");
const { StdioClientTransport } = load("@modelcontextprotocol/sdk/client/stdio.js");
const { StreamableHTTPClientTransport } = load("@modelcontextprotocol/sdk/client/streamableHttp.js");
const { WebSocketClientTransport } = load("@modelcontextprotocol/sdk/client/websocket.js");
globalThis.WebSocket ??= load("ws");

const long = "trigger-long-running-operation";

async function main() {
  const client = new Client({ name: "interop", version: "1" });
  const transport = {
    sse: () => new SSEClientTransport(new URL(address)),
    streamableHttp: () => new StreamableHTTPClientTransport(new URL(address)),
    ws: () => new WebSocketClientTransport(new URL(address)),
    stdio: () => new StdioClientTransport({ command: address, args }),
  }[kind]();
  // The SDK handles an answer ahead of the progress before it where it reads both at
  // once, and then complains of the progress.
  let progress = 0;
  client.onerror = () => progress++;
  await client.connect(transport);

  const tools = (await client.listTools()).tools.map((tool) => tool.name);
  const [echo, sum, slow] = await Promise.all([
    client.callTool({ name: "echo", arguments: { message: "hello" } }),
    client.callTool({ name: "get-sum", arguments: { a: 2, b: 3 } }),
    client.callTool({ name: long, arguments: { duration: 1, steps: 4 } }, undefined, { onprogress: () => progress++ }),
  ]);

  await new Promise(setImmediate);
  const before = progress;

  // The cancel is sent behind the client's back, so wait for an answer to what
  // comes after it.
  const abort = new AbortController();
  const cancelled = await client
    .callTool({ name: long, arguments: { duration: 2, steps: 20 } }, undefined, { signal: abort.signal, onprogress: () => abort.abort() })
    .then(() => false, () => true);
  await client.ping();
  if (kind === "streamableHttp") await transport.terminateSession();
  await client.close();
  const text = (result) => result.content[0].text;
  console.log(JSON.stringify({ tools: tools.includes("echo"), echo: text(echo), sum: text(sum), slow: text(slow), cancelled, progress: before }));
}

main();
