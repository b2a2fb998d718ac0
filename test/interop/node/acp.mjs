// A client of the ACP SDK: it starts the agent that a command line names, asks it
// twice, cancels the second turn at its first update, and writes what it got as one
// line of JSON.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [modules, command, ...args] = process.argv.slice(2);
const acp = await import(pathToFileURL(`${modules}/@agentclientprotocol/sdk/dist/acp.js`));

const agent = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
const exited = new Promise((resolve) => agent.on("exit", resolve));
const got = { updates: 0, permissions: 0 };
let updated = () => {};

class Client {
  async sessionUpdate() {
    got.updates++;
    updated();
  }
  async requestPermission({ options }) {
    got.permissions++;
    return { outcome: { outcome: "selected", optionId: options[0].optionId } };
  }
}

const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
const connection = new acp.ClientSideConnection(() => new Client(), stream);
await connection.initialize({ protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {} });
const { sessionId } = await connection.newSession({ cwd: process.cwd(), mcpServers: [] });
const ask = (text) => connection.prompt({ sessionId, prompt: [{ type: "text", text }] });
got.first = (await ask("hello")).stopReason;

const update = new Promise((resolve) => (updated = resolve));
const turn = ask("hello again");
await update;
await connection.cancel({ sessionId });
got.second = (await turn).stopReason;
agent.stdin.end();
got.exit = await exited;
console.log(JSON.stringify(got));
