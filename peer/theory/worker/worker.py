"""Runs a tool for wirectl: entry(payload, emit, ctrl) of DIR/protocol/handler.py.

The payload comes as a line of JSON on standard input, controls on the lines
behind it; what the tool emits, and its answer, leave as lines of JSON. Nothing
beyond the standard library is needed.
"""

import base64
import binascii
import importlib
import importlib.util
import json
import os
import sys
import threading
import traceback
import types

# What the tool prints must not stand among the messages.
_wire = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="backslashreplace", buffering=1)
os.dup2(2, 1)
sys.stdout = sys.stderr
_writing = threading.Lock()


def _bytes(value):
    """The form of bytes in JSON: base64 in an object."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"$bytes": base64.b64encode(bytes(value)).decode()}
    if callable(getattr(value, "item", None)):
        return value.item()  # a number of an array library
    raise TypeError("%s has no form in JSON" % type(value).__name__)


def _input(value):
    """The value of an input, which is bytes if it stands in JSON as such."""
    if isinstance(value, dict) and list(value) == ["$bytes"]:
        try:
            return base64.b64decode(value["$bytes"], validate=True)
        except (TypeError, ValueError, binascii.Error):
            pass
    return value


def _json(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_bytes)


def _send(message):
    line = _json(message)
    with _writing:
        _wire.write(line + "\n")
        _wire.flush()


def _respond(message):
    """Sends the Response without the values that have no form in JSON. A lost output is an error."""

    def keep(members, lost):
        kept = {}
        for name, value in members.items():
            try:
                _json({name: value})
                kept[name] = value
            except (TypeError, ValueError) as e:
                lost.append("%s: %s" % (name, e))
        return kept

    outputs, others = [], []
    parts = {"outputs": outputs, "control": others}
    message = {k: keep(v, parts[k]) if k in parts and isinstance(v, dict) else v for k, v in message.items()}
    message = keep(message, others)
    if others:
        print("the Response has no form in JSON for " + "; ".join(others))
    if outputs:
        message["control"] = {**message.get("control", {}), "status": "error"}
        message["error"] = {"code": "ERR_HANDLER", "message": "outputs without a form in JSON: " + "; ".join(outputs)}
    _send(message)


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
    emit("log", {"msg": …}), emit("event", {"phase": …}), or any other kind."""
    if isinstance(kind, dict):
        rest = {k: v for k, v in kind.items() if k not in ("kind", "control")}
        kind, data = kind.get("kind"), kind.get("data", kind.get("content", rest))
    name = str(kind)
    if name.capitalize() in ("Event", "Log", "Token"):
        name = name.capitalize()
        if not isinstance(data, dict):
            data = {{"Event": "phase", "Log": "msg", "Token": "text"}[name]: data}
    _send({"kind": name, "data": data})


def _describe(e):
    """The type and the text of an exception."""
    return "%s: %s" % (type(e).__name__, e) if str(e) else type(e).__name__


def _fail(code, message):
    _send({"kind": "Response", "status": "error", "error": {"code": code, "message": message}})


_written = {}  # what the tool has given to write_outputs


def hydrate_inputs(inputs):
    """Inputs arrive with their values, so there is nothing to fetch."""
    return dict(inputs or {})


def write_outputs(places, results):
    """Leaves outputs to the runtime, which stores them at their places in the Request."""
    _written.update((name, results[name]) for name in places or {} if name in results)


def _provide():
    """Makes libs.runtime_common.hydration importable, unless the tool brings its own."""
    name = "libs.runtime_common.hydration"
    try:
        if importlib.util.find_spec(name):
            return
    except ImportError:
        pass
    child = types.ModuleType(name)
    child.hydrate_inputs, child.write_outputs = hydrate_inputs, write_outputs
    sys.modules[name] = child
    while "." in name:
        name, _, last = name.rpartition(".")
        try:
            parent = importlib.import_module(name)
        except ImportError:
            parent = sys.modules[name] = types.ModuleType(name)
            parent.__path__ = []
        setattr(parent, last, child)
        child = parent


def _load(folder):
    path = os.path.join(folder, "protocol", "handler.py")
    sys.path.insert(0, folder)
    _provide()
    spec = importlib.util.spec_from_file_location("protocol.handler", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.entry


def _answer(result):
    if result is None:
        result = {}
    if not isinstance(result, dict):
        return _fail("ERR_HANDLER", "the tool returned a %s, and not a dict of outputs" % type(result).__name__)
    if result.get("kind") != "Response":
        if result.get("status") not in ("success", "error") or not ("outputs" in result or "error" in result):
            result = {"status": "success", "outputs": result}
        result = {"kind": "Response", **result}
    outputs = result.get("outputs")
    if _written and (outputs is None or isinstance(outputs, dict)):
        result = {**result, "outputs": {**(outputs or {}), **_written}}
    _respond(result)


def main():
    request = json.loads(sys.stdin.readline())
    head = request["control"]
    payload = {
        **{name: value for name, value in request.items() if name not in ("kind", "control")},
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
        return _fail("ERR_HANDLER", "the tool cannot be loaded: %s" % _describe(e))
    try:
        _answer(entry(payload, emit=_emit, ctrl=control))
    except Preempted:
        _fail("ERR_PREEMPTED", "the run was preempted")
    except Exception as e:
        traceback.print_exc()
        code = getattr(e, "code", None)
        known = isinstance(code, str) and code.startswith("ERR_")
        _fail(code if known else "ERR_HANDLER", str(e) if known else _describe(e))


main()
_wire.flush()
os._exit(0)  # threads that the tool has left behind end with it
