// Client and server of version 2 of the MCP TypeScript SDK, which speak 2026-07-28 over
// stdio or HTTP. The server has a tool that asks for input, one whose argument is to be
// repeated in a header, one that waits for its cancel, and one that makes the list of tools
// change. The client writes what it got as one line
// of JSON.
import http from "node:http";
import { createRequire } from "node:module";
import { Readable } from "node:stream";
import { pathToFileURL } from "node:url";

const [modules, role, ...args] = process.argv.slice(2);
const resolve = createRequire(modules + "/").resolve;
const load = (name) => import(pathToFileURL(resolve(name)));

const tools = {
  async server() {
    const { McpServer, inputRequired, acceptedContent, fromJsonSchema } = await load("@modelcontextprotocol/server");
    let changed = () => {};
    const say = (text) => ({ content: [{ type: "text", text }] });
    const schema = (properties) => fromJsonSchema({ type: "object", properties });
    const make = () => {
      const server = new McpServer({ name: "interop", version: "1" }, { capabilities: { tools: { listChanged: true } } });
      server.registerTool("book", { inputSchema: schema({ ship: { type: "string" } }) }, async ({ ship }, ctx) => {
        const answer = acceptedContent(ctx.mcpReq.inputResponses, "confirm");
        if (answer?.yes) return say("booked " + ship);
        const elicit = inputRequired.elicit({ message: ship + "?", requestedSchema: { type: "object", properties: { yes: { type: "boolean" } } } });
        return inputRequired({ inputRequests: { confirm: elicit }, requestState: "asked" });
      });
      server.registerTool("reach", { inputSchema: schema({ region: { type: "string", "x-mcp-header": "Region" } }) }, async ({ region }) => say("in " + region));
      server.registerTool("wait", { inputSchema: schema({}) }, async (_, ctx) => {
        await ctx.mcpReq.notify({ method: "notifications/progress", params: { progressToken: ctx.mcpReq._meta.progressToken, progress: 1 } });
        await new Promise((done) => ctx.mcpReq.signal.addEventListener("abort", done));
        return say("late");
      });
      server.registerTool("change", { inputSchema: schema({}) }, async () => {
        changed(server);
        return say("changed");
      });
      return server;
    };
    return { make, onChange: (f) => (changed = f) };
  },
};

async function serveStdio() {
  const { serveStdio } = await load("@modelcontextprotocol/server/stdio");
  const { make, onChange } = await tools.server();
  onChange((server) => server.sendToolListChanged());
  serveStdio(make);
}

async function serveHTTP() {
  const { createMcpHandler } = await load("@modelcontextprotocol/server");
  const { make, onChange } = await tools.server();
  const handler = createMcpHandler(make);
  onChange(() => handler.notify.toolsChanged());
  const server = http.createServer(async (req, res) => {
    const left = new AbortController();
    res.on("close", () => left.abort());
    const body = ["GET", "HEAD", "DELETE"].includes(req.method) ? undefined : Readable.toWeb(req);
    const answer = await handler.fetch(new Request("http://" + req.headers.host + req.url, { method: req.method, headers: req.headers, body, duplex: "half", signal: left.signal }));
    res.writeHead(answer.status, Object.fromEntries(answer.headers));
    res.flushHeaders();
    if (!answer.body) return res.end();
    Readable.fromWeb(answer.body).on("error", () => res.destroy()).pipe(res);
  });
  server.listen(0, "127.0.0.1", () => console.log("on port " + server.address().port));
}

async function client(kind, address, ...command) {
  const { Client, StreamableHTTPClientTransport } = await load("@modelcontextprotocol/client");
  const { StdioClientTransport } = await load("@modelcontextprotocol/client/stdio");
  const client = new Client(
    { name: "interop", version: "1" },
    { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode: { pin: "2026-07-28" } } },
  );
  client.setRequestHandler("elicitation/create", async () => ({ action: "accept", content: { yes: true } }));
  let told;
  const change = new Promise((done) => (told = done));
  client.setNotificationHandler("notifications/tools/list_changed", () => told(true));
  await client.connect(kind === "http" ? new StreamableHTTPClientTransport(new URL(address)) : new StdioClientTransport({ command: address, args: command }));

  const reached = await client.callTool({ name: "reach", arguments: { region: "eu" } }); // the header is known when the tools are
  const listed = (await client.listTools()).tools.map((tool) => tool.name).sort();
  const booked = await client.callTool({ name: "book", arguments: { ship: "Ariel" } });
  const subscription = await client.listen({ toolsListChanged: true });
  await client.callTool({ name: "change", arguments: {} });
  const changed = await change;
  const abort = new AbortController();
  const cancelled = await client
    .callTool({ name: "wait", arguments: {} }, { signal: abort.signal, onprogress: () => abort.abort() })
    .then(() => false, () => true);
  await client.callTool({ name: "change", arguments: {} }); // after it the cancel has arrived
  await subscription.close();
  await client.close();
  console.log(JSON.stringify({ reached: reached.content[0].text, tools: listed.join(), booked: booked.content[0].text, changed, cancelled, ended: await subscription.closed }));
}

await { "serve-stdio": serveStdio, "serve-http": serveHTTP, client }[role](...args);
