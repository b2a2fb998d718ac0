// A WebSocket server that sends back what it gets, and a client: "serve" writes
// its port, "talk ADDRESS" sends texts in every way, "latis ADDRESS" frames of Latis,
// and both write whether that is what came back.
const [modules, role, address] = process.argv.slice(2);
const load = require("node:module").createRequire(modules + "/");
const WebSocket = load("ws");

const deflate = { threshold: 0 }; // every message is compressed

function serve() {
  const server = new WebSocket.Server({ host: "127.0.0.1", port: 0, perMessageDeflate: deflate });
  server.on("listening", () => console.log(server.address().port));
  server.on("connection", (socket) => socket.on("message", (data, binary) => socket.send(data, { binary })));
}

function talk() {
  const socket = new WebSocket(address, { perMessageDeflate: deflate });
  const text = JSON.stringify({ text: "grüße ".repeat(1000) });
  const got = [];
  socket.on("open", () => {
    socket.send(text);
    socket.send(text); // again, which the window makes short
    socket.ping("are you there?");
    socket.send(text.slice(0, 10), { fin: false });
    socket.send(text.slice(10), { fin: true });
  });
  socket.on("message", (data) => {
    got.push(data);
    if (got.length === 3) socket.close(1000, "done");
  });
  socket.on("close", () => console.log(JSON.stringify({ same: got.every((data) => data.toString() === text) })));
}

// Two frames of Latis in one binary message, which is not compressed.
function latis() {
  const socket = new WebSocket(address, { perMessageDeflate: false });
  const frames = Buffer.from("000000050a01326200000000050a01336200", "hex");
  socket.on("open", () => socket.send(frames));
  socket.on("message", (data) => socket.close() || console.log(JSON.stringify({ same: data.equals(frames) })));
}

({ serve, talk, latis })[role]();
