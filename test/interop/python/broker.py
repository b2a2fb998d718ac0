"""A broker of rlm with nothing but the standard library: it writes its port and
answers one request on each connection with the prompt, in upper case."""

import json
import socketserver
import struct

from rlm import completion


class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        (size,) = struct.unpack(">I", self.rfile.read(4))
        request = json.loads(self.rfile.read(size))
        prompts = request.get("prompts") or [request["prompt"]]
        results = [{"error": None, "chat_completion": completion(p, p.upper())} for p in prompts]
        payload = json.dumps({"correlation_id": request["correlation_id"], "error": None, "results": results}).encode()
        self.wfile.write(struct.pack(">I", len(payload)) + payload)


with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
    print(server.server_address[1], flush=True)
    server.serve_forever()
