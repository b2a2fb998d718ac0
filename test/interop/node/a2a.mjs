// Client and agent of the A2A SDK, of version 0.3 or 1.0, in one of its bindings. The agent
// answers "count" with a task that sends three pieces, "wait" with one that waits for its
// cancel, "hold" with one that waits for "release", which names it, and "ask" with one that
// needs another message. Over HTTP it serves its card, which names the URL that was last posted
// to /public. The client writes what it got as one line of JSON.
import http from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { randomUUID } from "node:crypto";

const [modules, role, version, binding, address] = process.argv.slice(2);
const resolve = createRequire(modules + "/").resolve;
const load = (name) => import(pathToFileURL(resolve(name)));
const sdk = (part = "") => load("a2a-" + version + part);
const isNewer = version === "1.0";

// What both versions say, in the words of each.
const { TaskState, Role } = await sdk();
const state = (word) => (isNewer ? TaskState["TASK_STATE_" + word.toUpperCase().replace("-", "_")] : word);
const texts = (text) => [isNewer ? { content: { $case: "text", value: text }, mediaType: "text/plain", filename: "" } : { kind: "text", text }];
const message = (role, text, more) => ({
  ...(isNewer ? { role: Role["ROLE_" + role.toUpperCase()], extensions: [], referenceTaskIds: [], contextId: "", taskId: "" } : { kind: "message", role }),
  messageId: randomUUID(), parts: texts(text), ...more,
});
const request = (text, more) => ({ ...(isNewer && { tenant: "" }), message: message("user", text, more) });
const about = (id) => ({ ...(isNewer && { tenant: "" }), id });
const card = (url) => ({
  name: "interop", description: "", version: "1", skills: [], capabilities: { streaming: true, extensions: [] }, defaultInputModes: ["text"], defaultOutputModes: ["text"],
  ...(isNewer
    ? { supportedInterfaces: [{ url, protocolBinding: binding, protocolVersion: "1.0", tenant: "" }], securitySchemes: {}, securityRequirements: [], signatures: [] }
    : { url, preferredTransport: binding, protocolVersion: "0.3.0" }),
});

// An agent that knows how its tasks go on.
async function agent() {
  const { AgentEvent, DefaultRequestHandler, InMemoryTaskStore } = await sdk("/server");
  const waiting = new Map(); // what lets a task go on
  const tell = (bus, of) => {
    const event = (form, kind, data) => bus.publish(isNewer ? AgentEvent[form](data) : { kind, ...data });
    const ids = { taskId: of.taskId, contextId: of.contextId };
    return {
      task: () => event("task", "task", { id: ids.taskId, contextId: ids.contextId, status: { state: state("working") }, artifacts: [], history: [] }),
      status: (word) => event("statusUpdate", "status-update", { ...ids, status: { state: state(word) }, final: true }),
      piece: (text, append, lastChunk) =>
        event("artifactUpdate", "artifact-update", { ...ids, append, lastChunk, artifact: { artifactId: "a", name: "", description: "", parts: texts(text), extensions: [] } }),
      message: (text) => event("message", "message", message("agent", text, { contextId: ids.contextId })),
    };
  };
  const executor = {
    async execute(context, bus) {
      const say = tell(bus, context);
      const part = context.userMessage.parts[0];
      const word = isNewer ? part.content.value : part.text;
      if (word === "release") {
        waiting.get(context.userMessage.metadata.taskId)("completed");
        say.message("released");
        return bus.finished();
      }
      say.task();
      if (word === "ask" || context.task) {
        say.status(context.task ? "completed" : "input-required");
        return bus.finished();
      }
      say.piece("1", false, false);
      let end = "completed";
      if (word !== "count") end = await new Promise((go) => waiting.set(context.taskId, go));
      if (end === "completed") {
        say.piece("2", true, false);
        say.piece("3", true, true);
      }
      say.status(end);
      bus.finished();
    },
    async cancelTask(id) {
      waiting.get(id)("canceled");
    },
  };
  return new DefaultRequestHandler(card(""), new InMemoryTaskStore(), executor);
}

async function serve() {
  const requestHandler = await agent();
  if (binding === "GRPC") {
    const { Server, ServerCredentials } = await load("@grpc/grpc-js");
    const { A2AService, grpcService, UserBuilder } = await sdk("/server/grpc");
    const server = new Server();
    server.addService(A2AService, grpcService({ requestHandler, userBuilder: UserBuilder.noAuthentication }));
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (err, port) => console.log(err ?? "on port " + port));
    return;
  }
  const { agentCardHandler, jsonRpcHandler, restHandler, UserBuilder } = await sdk("/server/express");
  const handler = binding === "JSONRPC" ? jsonRpcHandler : restHandler;
  const app = (await load("express")).default();
  let url;
  app.post("/public", (asked, answer) => answer.json((url = asked.query.url)));
  app.use("/.well-known/agent-card.json", agentCardHandler({ agentCardProvider: async () => card(url + "/agent") }));
  app.use("/agent", handler({ requestHandler, userBuilder: UserBuilder.noAuthentication }));
  const server = http.createServer(app).listen(0, "127.0.0.1", () => console.log("on port " + server.address().port));
}

async function client() {
  const { ClientFactory, JsonRpcTransportFactory, RestTransportFactory } = await sdk("/client");
  const { GrpcTransportFactory } = await sdk("/client/grpc");
  const factory = new ClientFactory({ transports: [new JsonRpcTransportFactory(), new RestTransportFactory(), new GrpcTransportFactory()] });
  const client = await (binding === "GRPC" ? factory.createFromAgentCard(card(address)) : factory.createFromUrl(address));
  const got = {};
  // follow reads a stream and notes what it says, until it ends or seen says to leave it.
  const follow = async (name, stream, seen = () => false) => {
    const said = (got[name] = []);
    for await (const event of stream) {
      const of = isNewer ? event.payload.value : event;
      const form = isNewer ? event.payload.$case : event.kind;
      const task = of.taskId ?? of.id;
      const word = of.status && (isNewer ? TaskState[of.status.state].slice(11).toLowerCase().replace("_", "-") : of.status.state);
      const piece = of.artifact && (isNewer ? of.artifact.parts[0].content.value : of.artifact.parts[0].text);
      said.push(word ?? piece ?? form);
      if (await seen(said.length, task)) break;
    }
    got[name] = said.join(" ");
  };
  await follow("count", client.sendMessageStream(request("count")));
  await follow("wait", client.sendMessageStream(request("wait")), async (n, task) => {
    if (n === 2) await client.cancelTask(about(task));
  });
  let asking;
  await follow("ask", client.sendMessageStream(request("ask")), (n, task) => void (asking = task));
  await follow("more", client.sendMessageStream(request("more", { taskId: asking })));
  let held;
  const leave = new AbortController();
  const hold = request("hold");
  await follow("hold", client.sendMessageStream(hold, { signal: leave.signal }), (n, task) => {
    held = task;
    return n === 2;
  });
  leave.abort();
  await follow("resubscribe", client.resubscribeTask(about(held)), async (n) => {
    if (n === 1) await client.sendMessage(request("release", { metadata: { taskId: held } }));
  });
  const task = await client.getTask({ ...about(held), historyLength: 10 });
  got.task = task.id === held && task.history?.[0].messageId === hold.message.messageId ? task.artifacts[0].parts.length + " parts" : task;
  const refused = (asked) => asked.then(() => "no error", (err) => err.message.match(/not \w+/)[0]);
  got.unknown = await refused(client.getTask(about("none")));
  got.late = await refused(client.cancelTask(about(held)));
  console.log(JSON.stringify(got));
}

await { serve, client }[role]();
