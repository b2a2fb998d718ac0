// A client of Claude Code's SDK, whose program is the second argument. It asks for the model's
// answer, and writes what it got as one line of JSON.
import { pathToFileURL } from "node:url";

const [modules, program] = process.argv.slice(2);
const { query } = await import(pathToFileURL(modules + "/@anthropic-ai/claude-agent-sdk/sdk.mjs"));
const got = { text: "" };
const session = query({ prompt: "hi", options: { pathToClaudeCodeExecutable: program, includePartialMessages: true, settingSources: [] } });
for await (const message of session) {
  if (message.type === "stream_event" && message.event.delta?.type === "text_delta") got.text += message.event.delta.text;
  if (message.type === "result") Object.assign(got, { ended: message.subtype, result: message.result });
}
console.log(JSON.stringify(got));
