// Serves MCP over stdio or, with a port, over HTTP. answer gives the result or the error of a request, and sees notifications; notice, if
// there is one, returns the notification to send before the answer over stdio.
const http = require("http"), readline = require("readline");

module.exports = (port, answer, notice = () => undefined) => {
  const message = (body) => body && JSON.stringify({ jsonrpc: "2.0", ...body });
  const reply = (m) => {
    const body = m.method && answer(m);
    return m.id === undefined || !body ? undefined : message({ id: m.id, ...body });
  };
  if (port === undefined) {
    readline.createInterface({ input: process.stdin }).on("line", (line) => {
      const last = reply(JSON.parse(line));
      for (const text of [message(notice()), last]) if (text) process.stdout.write(text + "\n");
    });
    return;
  }
  const server = http.createServer((q, r) => {
    let text = "";
    q.on("data", (data) => (text += data));
    q.on("end", () => {
      const body = q.method === "POST" && reply(JSON.parse(text));
      r.writeHead(q.method === "POST" ? (body ? 200 : 202) : 405, { "content-type": "application/json" });
      r.end(body || undefined);
    });
  });
  server.listen(Number(port), "127.0.0.1", () => console.error(`listening on http://127.0.0.1:${server.address().port}/mcp`));
};
