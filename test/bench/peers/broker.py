"""A broker of rlm as Python's standard library makes it: a thread a connection, a
request a connection, and an answer that echoes. Its backlog is raised, since with
the usual 5 it drops clients. Prints its address."""

import json
import socketserver
import struct


def read(stream, n):
    data = b""
    while len(data) < n:
        piece = stream.recv(n - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data


class Handler(socketserver.BaseRequestHandler):
    def handle(self):
        try:
            (length,) = struct.unpack(">I", read(self.request, 4))
            request = json.loads(read(self.request, length))
        except EOFError:
            return
        prompt = request["prompt"]
        response = "Echo: " + prompt
        usage = {"total_calls": 1, "total_input_tokens": len(prompt) // 4, "total_output_tokens": len(response) // 4}
        completion = {
            "root_model": "mock",
            "prompt": prompt,
            "response": response,
            "usage_summary": {"model_usage_summaries": {"mock": usage}},
            "prompt_tokens": usage["total_input_tokens"],
            "completion_tokens": usage["total_output_tokens"],
            "execution_time": 0.0,
            "finish_reason": "stop",
        }
        answer = {"correlation_id": request["correlation_id"], "error": None, "results": [{"error": None, "chat_completion": completion}]}
        payload = json.dumps(answer).encode()
        self.request.sendall(struct.pack(">I", len(payload)) + payload)


class Server(socketserver.ThreadingTCPServer):
    request_queue_size = 1024
    allow_reuse_address = True
    daemon_threads = True


with Server(("127.0.0.1", 0), Handler) as server:
    print("%s:%d" % server.server_address, flush=True)
    server.serve_forever()
