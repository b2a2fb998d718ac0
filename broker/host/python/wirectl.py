"""Completions from the broker that `wirectl serve -- PROGRAM` runs beside this.

    from wirectl import llm_query, llm_query_batched

    llm_query("What is 6 x 7?")                  # -> str
    llm_query_batched(["a", "b"], model="mock")  # -> [str, str]

A prompt is a string, a dict, or a list of messages. A failure is returned as a
string that begins with "Error: ", unless raise_errors is true. Nothing but the
standard library is needed.
"""

import json
import os
import socket
import struct
import uuid

__all__ = ["BrokerError", "complete", "llm_query", "llm_query_batched"]


class BrokerError(RuntimeError):
    """The broker did not answer a query, and says why."""


def complete(prompts, model=None, timeout=None, correlation_id=None):
    """Returns a result for each prompt: {"error": ...} or {"chat_completion": ...}."""
    response = _ask({"correlation_id": correlation_id, "model": model, "prompts": _listed(prompts)}, timeout)
    if response["error"] is not None:
        raise BrokerError(response["error"])
    return response["results"]


def llm_query(prompt, model=None, correlation_id=None, depth=None, *, timeout=None, raise_errors=False):
    """Returns the response to one prompt, or "Error: LM query failed - ..." for one that failed.

    With raise_errors, a failure raises BrokerError. depth is accepted for other
    implementations' sake and ignored.
    """
    try:
        response = _ask({"correlation_id": correlation_id, "model": model, "prompt": prompt}, timeout)
        error = response["error"] or response["results"][0]["error"]
        if error is not None:
            raise BrokerError(error)
    except BrokerError as e:
        if raise_errors:
            raise
        return "Error: LM query failed - %s" % e
    return response["results"][0]["chat_completion"]["response"]


def llm_query_batched(prompts, model=None, correlation_id=None, *, timeout=None, raise_errors=False):
    """Returns the responses in the order of the prompts; one that failed is "Error: ...".

    With raise_errors, the first failure raises BrokerError.
    """
    prompts = _listed(prompts)
    if not prompts:
        return []
    try:
        results = complete(prompts, model, timeout, correlation_id)
    except BrokerError as e:
        if raise_errors:
            raise
        return ["Error: %s" % e] * len(prompts)
    for result in results:
        if raise_errors and result["error"] is not None:
            raise BrokerError(result["error"])
    return [
        "Error: " + result["error"] if result["error"] is not None else result["chat_completion"]["response"]
        for result in results
    ]


def _listed(prompts):
    if isinstance(prompts, (str, dict)):  # whose letters or keys would be a prompt each
        raise TypeError("prompts is a list of prompts; llm_query takes one prompt")
    return list(prompts)


def _ask(request, timeout):
    if request["correlation_id"] is None:
        request["correlation_id"] = uuid.uuid4().hex
    try:
        payload = json.dumps(request, allow_nan=False).encode()
    except ValueError as e:
        if "Circular" in str(e):
            raise BrokerError("the prompt contains itself") from e
        raise BrokerError("NaN and Infinity are not JSON: take them out of the prompt") from e
    except (TypeError, RecursionError) as e:
        raise BrokerError("the request cannot be written as JSON: %s" % e) from e
    if "WIRECTL_BROKER" not in os.environ:
        raise BrokerError("WIRECTL_BROKER is not set: run the program by wirectl serve -- PROGRAM")
    host, _, port = os.environ["WIRECTL_BROKER"].rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout) as conn:
            conn.sendall(struct.pack(">I", len(payload)) + payload)
            (length,) = struct.unpack(">I", _read(conn, 4))
            return json.loads(_read(conn, length))
    except socket.timeout as e:
        raise BrokerError("Request timed out") from e
    except OSError as e:
        raise BrokerError("Connection error") from e


def _read(conn, n):
    data = bytearray()
    while len(data) < n:
        piece = conn.recv(min(n - len(data), 1 << 20))
        if not piece:
            raise BrokerError("the broker closed the connection")
        data += piece
    return bytes(data)
