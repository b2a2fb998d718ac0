// A server of the MCP TypeScript SDK whose tools fail in the ways that servers do. With
// "strict" as its second argument, one tool requires one more argument.
const [modules, strict] = process.argv.slice(2);
const load = require("node:module").createRequire(modules + "/");
const { McpServer } = load("@modelcontextprotocol/sdk/server/mcp.js");
const { StdioServerTransport } = load("@modelcontextprotocol/sdk/server/stdio.js");
const { z } = load("zod");

const server = new McpServer({ name: "faulty", version: "1" });
const text = (words) => ({ content: [{ type: "text", text: words }] });

const limit = z.number();
const inputSchema = { query: z.string(), limit: strict ? limit : limit.optional() };
server.registerTool("search", { description: "Finds.", inputSchema }, ({ query }) => text("found " + query));
server.registerTool("hang", { description: "Never answers." }, () => new Promise(() => {}));
server.registerTool("fail", { description: "Throws." }, () => {
  throw new Error("no such table");
});
server.registerTool("print", { description: "Prints to standard output." }, () => {
  console.log("debug: here");
  return text("printed");
});
server.registerTool("crash", { description: "Ends the process." }, () => {
  process.stderr.write("Traceback:\n  no more memory\n", () => process.exit(7));
  return new Promise(() => {});
});

server.connect(new StdioServerTransport());
