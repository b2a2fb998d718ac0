// The client of AG-UI and a small agent with its encoder: node agui.mjs MODULES serve prints
// an address; node agui.mjs MODULES ask URL runs the agent, resumes an interrupt, leaves in
// the middle of a run, and prints what it saw as a line of JSON.
import { createServer } from "node:http";
import { createRequire } from "node:module";

const [modules, role, url] = process.argv.slice(2);
const load = createRequire(modules + "/");

function serve() {
  const { EventEncoder } = load("@ag-ui/encoder");
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const piece of request) body += piece;
    const { threadId, runId, messages, resume } = JSON.parse(body);
    const encoder = new EventEncoder({ accept: request.headers.accept });
    response.writeHead(200, { "Content-Type": encoder.getContentType() });
    const say = (type, event) => response.write(encoder.encodeSSE({ type, ...event }));
    const finish = (outcome) => { say("RUN_FINISHED", { threadId, runId, outcome }); response.end(); };
    say("RUN_STARTED", { threadId, runId });
    const text = messages.at(-1)?.content;
    if (resume) {
      say("TOOL_CALL_RESULT", { messageId: "m2", toolCallId: "c", content: "paid", role: "tool" });
      return finish({ type: "success" });
    }
    if (text === "pay") {
      say("TOOL_CALL_START", { toolCallId: "c", toolCallName: "pay" });
      say("TOOL_CALL_ARGS", { toolCallId: "c", delta: "{}" });
      say("TOOL_CALL_END", { toolCallId: "c" });
      say("STATE_SNAPSHOT", { snapshot: {} });
      return finish({ type: "interrupt", interrupts: [{ id: "i", reason: "tool_call", toolCallId: "c" }] });
    }
    say("TEXT_MESSAGE_START", { messageId: "m", role: "assistant" });
    say("TEXT_MESSAGE_CONTENT", { messageId: "m", delta: "word " });
    if (text === "stop") {
      say("TEXT_MESSAGE_END", { messageId: "m" });
      return finish({ type: "cancelled" });
    }
    const ticks = setInterval(() => say("TEXT_MESSAGE_CONTENT", { messageId: "m", delta: "word " }), 50);
    response.on("close", () => clearInterval(ticks));
  });
  server.listen(0, "127.0.0.1", () => console.log(`listening on http://127.0.0.1:${server.address().port}/agent`));
}

async function ask() {
  const { HttpAgent } = load("@ag-ui/client");
  const saw = {};
  const agentOf = (threadId, content) => new HttpAgent({ url, threadId, initialMessages: [{ id: "u", role: "user", content }] });
  const outcomeOf = async (agent, input, subscriber) => {
    let outcome = "none";
    await agent.runAgent(input, { onRunFinishedEvent: ({ event }) => { outcome = event.outcome?.type; }, ...subscriber }).catch(() => {});
    return outcome;
  };
  const paying = agentOf("t1", "pay");
  saw.pay = await outcomeOf(paying, {});
  saw.resume = await outcomeOf(paying, { resume: [{ interruptId: "i", status: "resolved", payload: {} }] });
  saw.stop = await outcomeOf(agentOf("t2", "stop"), {});
  const long = agentOf("t3", "long");
  saw.long = await outcomeOf(long, {}, { onTextMessageContentEvent: () => long.abortRun() });
  console.log(JSON.stringify(saw));
  process.exit();
}

await (role === "serve" ? serve() : ask());
