"""Completions from the broker that `wirectl serve -- PROGRAM` runs beside this.

    from wirectl import llm_query, llm_query_batched

    llm_query("What is 6 x 7?")                  # -> str
    llm_query_batched(["a", "b"], model="mock")  # -> [str, str]

A prompt is a string, a dict, or a list of messages. Nothing but the standard
library is needed.
"""

import json
import os
import socket
import struct
import uuid

__all__ = ["BrokerError", "complete", "llm_query", "llm_query_batched"]


class BrokerError(RuntimeError):
    """The broker did not answer a query, and says why."""


def complete(prompts, model=None, timeout=None):
    """Returns a result for each prompt: {"error": ...} or {"chat_completion": ...}."""
    if isinstance(prompts, (str, dict)):  # whose letters or keys would be a prompt each
        raise TypeError("prompts is a list of prompts; llm_query takes one prompt")
    request = {"correlation_id": uuid.uuid4().hex, "model": model, "prompts": list(prompts)}
    response = _ask(request, timeout)
    if response["error"] is not None:
        raise BrokerError(response["error"])
    return response["results"]


def llm_query(prompt, model=None, timeout=None):
    """Returns the response to one prompt."""
    request = {"correlation_id": uuid.uuid4().hex, "model": model, "prompt": prompt}
    response = _ask(request, timeout)
    error = response["error"] or response["results"][0]["error"]
    if error is not None:
        raise BrokerError(error)
    return response["results"][0]["chat_completion"]["response"]


def llm_query_batched(prompts, model=None, timeout=None):
    """Returns the responses in the order of the prompts; one that failed is "Error: ..."."""
    if not isinstance(prompts, (str, dict)):
        prompts = list(prompts)
    if prompts == []:
        return []
    return [
        "Error: " + result["error"] if result["error"] is not None else result["chat_completion"]["response"]
        for result in complete(prompts, model, timeout)
    ]


def _ask(request, timeout):
    payload = json.dumps(request).encode()
    host, _, port = os.environ["WIRECTL_BROKER"].rpartition(":")
    with socket.create_connection((host.strip("[]"), int(port)), timeout) as conn:
        conn.sendall(struct.pack(">I", len(payload)) + payload)
        (length,) = struct.unpack(">I", _read(conn, 4))
        return json.loads(_read(conn, length))


def _read(conn, n):
    data = bytearray()
    while len(data) < n:
        piece = conn.recv(min(n - len(data), 1 << 20))
        if not piece:
            raise BrokerError("the broker closed the connection")
        data += piece
    return bytes(data)
