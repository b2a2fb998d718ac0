// Both ends of what wirectl speaks over WebSocket, by the package ws: "run ADDRESS"
// runs a tool of theory.run.v1, "runtime" is a runtime that writes its port, "prompt
// ADDRESS" asks a unit of Latis, and "unit" is one that writes its port.
const [modules, role, address] = process.argv.slice(2);
const load = require("node:module").createRequire(modules + "/");
const WebSocket = load("ws");

function run() {
  const socket = new WebSocket(address, "theory.run.v1");
  const kinds = [];
  socket.on("open", () =>
    socket.send(JSON.stringify({ kind: "Request", control: { run_id: "node", mode: "real" }, inputs: { text: "grüße" }, outputs: {} })));
  socket.on("message", (data, binary) => {
    const message = JSON.parse(data);
    kinds.push(message.kind);
    if (message.kind !== "Response") return;
    console.log(JSON.stringify({ kinds, binary, outputs: message.outputs, status: message.control.status }));
    socket.close(1000);
  });
}

function listening(server) {
  server.on("listening", () => console.log(server.address().port));
  return server;
}

function runtime() {
  const server = listening(new WebSocket.Server({ host: "127.0.0.1", port: 0, handleProtocols: () => "theory.run.v1" }));
  server.on("connection", (socket) =>
    socket.on("message", (data) => {
      const { control, inputs } = JSON.parse(data);
      const { run_id } = control;
      const send = (message) => socket.send(JSON.stringify(message));
      send({ kind: "Ack", control: { run_id } });
      send({ kind: "Token", content: { text: "to" } }); // as older runtimes write it
      send({ kind: "Token", control: { run_id }, data: { text: "ken" } });
      send({ kind: "Response", control: { run_id, status: "success", cost_micro: 0, final: true }, outputs: inputs });
    }));
}

const frame = (hex) => Buffer.concat([Buffer.from([0, 0, 0, hex.length / 2]), Buffer.from(hex, "hex")]);

function prompt() {
  const socket = new WebSocket(address);
  const got = [];
  socket.on("open", () => socket.send(frame("0a01315204" + "0a026869"))); // "hi" as "1"
  socket.on("message", (data) => {
    got.push(data.toString("hex"));
    if (got.length === 2) socket.close();
  });
  socket.on("close", () => console.log(JSON.stringify({ got })));
}

// A unit that answers every prompt by two frames in one message.
function unit() {
  const server = listening(new WebSocket.Server({ host: "127.0.0.1", port: 0 }));
  server.on("connection", (socket) =>
    socket.on("message", () =>
      socket.send(Buffer.concat([frame("0a0131a20107" + "0a0131" + "12026f6b"), frame("0a0131aa0103" + "0a0131")]))));
}

({ run, runtime, prompt, unit })[role]();
