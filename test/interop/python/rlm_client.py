"""Talks to a broker of rlm with nothing but the standard library: as clients
should, and as they should not. Writes a line of JSON with what came of it."""

import json
import os
import socket
import struct
import threading

HOST, _, PORT = os.environ["WIRECTL_BROKER"].rpartition(":")


def connect():
    return socket.create_connection((HOST, int(PORT)), 20)


def read(conn):
    data = b""
    while len(data) < 4 or len(data) < 4 + struct.unpack(">I", data[:4])[0]:
        piece = conn.recv(1 << 16)
        if not piece:
            return None if not data else data
        data += piece
    return json.loads(data[4:])


def raw(data, half_close=False):
    with connect() as conn:
        conn.sendall(data)
        if half_close:
            conn.shutdown(socket.SHUT_WR)
        return read(conn)


def ask(message):
    payload = json.dumps(message).encode()
    return raw(struct.pack(">I", len(payload)) + payload)


def framed(text):
    payload = text if isinstance(text, bytes) else text.encode()
    return raw(struct.pack(">I", len(payload)) + payload)


def error(answer):
    return answer["error"]


def friendly():
    one = ask({"correlation_id": "a", "prompt": "hi \u00e9 \U0001f600"})
    completion = one["results"][0]["chat_completion"]
    many = ask({"correlation_id": "b", "prompts": ["x", {"content": "y"}, [{"role": "user", "content": "z"}]]})
    return {
        "keys": [list(one), list(one["results"][0]), list(completion)],
        "response": completion["response"],
        "many": [r["chat_completion"]["response"] for r in many["results"]],
        "seconds": type(completion["execution_time"]).__name__,
    }


def hostile():
    deep = '{"prompt":"a","model":' + "[" * 900 + "]" * 900 + "}"
    got = {
        "nan": error(framed('{"prompt":{"x":NaN}}')),
        "surrogate": error(framed('{"prompt":"\\ud800"}')),
        "duplicate": framed('{"prompt":"a","prompt":"b"}')["results"][0]["chat_completion"]["response"],
        "deep": error(framed(deep)),
        "binary": error(framed(b"\xff\xfe")),
        "empty": error(framed("")),
        "large": error(raw(struct.pack(">I", 10_000_001) + b"x" * 200_000)),
        "cut": error(raw(struct.pack(">I", 10) + b"{", half_close=True)),
        "silent": raw(b"\0\0", half_close=True),
    }
    for _ in range(100):  # they go away without a word
        conn = connect()
        conn.sendall(b"\0\0\0\x20{")
        conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        conn.close()
    return got


def crowd(clients=64, each=20):
    failures = []

    def client():
        for _ in range(each):
            try:
                if error(ask({"prompt": "hi"})) is not None:
                    failures.append("error")
            except Exception as failure:
                failures.append(repr(failure))

    threads = [threading.Thread(target=client) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failures[:3]


print(json.dumps({"friendly": friendly(), "hostile": hostile(), "crowd": crowd(), "after": friendly()["response"]}))
