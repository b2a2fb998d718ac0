"""Runs a tool for wirectl: entry(payload, emit, ctrl) of DIR/protocol/handler.py.

The payload comes as a line of JSON on standard input, controls on the lines
behind it; what the tool emits, and its answer, leave as lines of JSON. Nothing
beyond the standard library is needed.
"""

import base64
import binascii
import importlib.util
import json
import os
import sys
import threading
import traceback

# What the tool prints must not stand among the messages.
_wire = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
os.dup2(2, 1)
sys.stdout = sys.stderr
_writing = threading.Lock()


def _bytes(value):
    """The form of bytes in JSON: base64 in an object."""
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError("%s has no form in JSON" % type(value).__name__)
    return {"$bytes": base64.b64encode(bytes(value)).decode()}


def _input(value):
    """The value of an input, which is bytes if it stands in JSON as such."""
    if isinstance(value, dict) and list(value) == ["$bytes"]:
        try:
            return base64.b64decode(value["$bytes"], validate=True)
        except (TypeError, ValueError, binascii.Error):
            pass
    return value


def _send(message):
    line = json.dumps(message, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_bytes)
    with _writing:
        _wire.write(line + "\n")
        _wire.flush()


class Preempted(Exception):
    """Raised by Control.check when the run is to end."""


class Control(threading.Event):
    """What the controllers of a run want of it: it is set when the run is to end."""

    def __init__(self, run_id, mode):
        super().__init__()
        self.run_id = run_id
        self.mode = mode
        self.budgets = {}
        self._going = threading.Event()
        self._going.set()

    @property
    def preempted(self):
        return self.is_set()

    @property
    def paused(self):
        return not self._going.is_set()

    def check(self):
        """Waits while the run is paused; raises Preempted when it is to end."""
        self._going.wait()
        if self.is_set():
            raise Preempted()

    def take(self, message):
        op = message.get("op")
        if op == "cancel":
            self.set()
            self._going.set()
        elif op == "pause":
            self._going.clear()
        elif op == "resume":
            self._going.set()
        elif op == "set_budget":
            self.budgets.update((k, message[k]) for k in ("tokens", "time_s") if k in message)


def _listen(control):
    for line in sys.stdin:
        try:
            control.take(json.loads(line))
        except ValueError:
            pass
    control.take({"op": "cancel"})  # nobody is left to answer


def _emit(kind, data=None):
    """One whole message, with kind and data (or content); or emit("token", {"text": …}),
    emit("log", {"msg": …}), emit("event", {"phase": …})."""
    if isinstance(kind, dict):
        kind, data = kind.get("kind"), kind.get("data", kind.get("content"))
    name = str(kind).capitalize()
    if name not in ("Event", "Log", "Token"):
        raise ValueError("a tool emits events, logs and tokens, and not %r" % (kind,))
    if not isinstance(data, dict):
        data = {{"Event": "phase", "Log": "msg", "Token": "text"}[name]: data}
    _send({"kind": name, "data": data})


def _fail(code, message):
    _send({"kind": "Response", "status": "error", "error": {"code": code, "message": message}})


def _load(folder):
    path = os.path.join(folder, "protocol", "handler.py")
    sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location("protocol.handler", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.entry


def _answer(result):
    if result is None:
        result = {}
    if not isinstance(result, dict):
        return _fail("ERR_HANDLER", "the tool returned a %s, and not a dict of outputs" % type(result).__name__)
    if result.get("kind") == "Response":
        return _send(result)
    if result.get("status") in ("success", "error") and ("outputs" in result or "error" in result):
        return _send({"kind": "Response", **result})
    _send({"kind": "Response", "status": "success", "outputs": result})


def main():
    request = json.loads(sys.stdin.readline())
    head = request["control"]
    payload = {
        "run_id": head["run_id"],
        "mode": head["mode"],
        "inputs": {name: _input(value) for name, value in request["inputs"].items()},
        "outputs": request["outputs"],
    }
    control = Control(payload["run_id"], payload["mode"])
    threading.Thread(target=_listen, args=(control,), daemon=True).start()
    try:
        entry = _load(sys.argv[1])
    except Exception as e:
        traceback.print_exc()
        return _fail("ERR_RUNTIME", "the tool cannot be loaded: %s" % type(e).__name__)
    try:
        _answer(entry(payload, emit=_emit, ctrl=control))
    except Preempted:
        _fail("ERR_PREEMPTED", "the run was preempted")
    except Exception as e:
        traceback.print_exc()
        code = getattr(e, "code", None)
        known = isinstance(code, str) and code.startswith("ERR_")
        _fail(code if known else "ERR_HANDLER", str(e) if known else "the tool failed: %s" % type(e).__name__)


main()
_wire.flush()
os._exit(0)  # threads that the tool has left behind end with it
