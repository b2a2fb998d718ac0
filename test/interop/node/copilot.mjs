// A turn of the Copilot SDK with a provider of its own, aborted while the model answers.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
const [modules, runtime, model, home] = process.argv.slice(2);
const sdk = createRequire(modules + "/").resolve("@github/copilot-sdk");
const { CopilotClient, RuntimeConnection } = await import(pathToFileURL(sdk));

const client = new CopilotClient({
  connection: RuntimeConnection.forStdio({ path: runtime }), baseDirectory: home, workingDirectory: home,
  useLoggedInUser: false, logLevel: "error",
});
await client.start();
const session = await client.createSession({
  model: "mock-1", streaming: true, onPermissionRequest: () => ({ kind: "approve-once" }),
  provider: { type: "anthropic", baseUrl: model, apiKey: "none" },
});
const idle = new Promise((done) => session.on("session.idle", done));
const word = new Promise((done) => session.on("assistant.message_delta", done));
await session.send({ prompt: "Tell a long story." });
await word;
await session.abort();
console.log("aborted: " + (await idle).data.aborted);
await session.disconnect();
await client.stop();
