"""A worker: runs cells of Python code for the host at the other end of a repl wire.

It needs CPython 3.8 or newer and the standard library alone. The wire is descriptor 3,
or standard input and output. What the cells do is the host's affair: nothing here keeps
them from reaching this code.

The main thread runs the cells, so that a signal can interrupt them. No thread does
nothing but read the wire: whoever waits for a message reads, and passes on the messages
of others. That saves a wake-up per call. While the code does not wait, the watcher looks
for a cancel every 50 ms.
"""
import _signal
import _thread
import builtins
import codecs
import collections
import itertools
import json
import os
import re
import signal
import sys
import threading
import time
import types

__builtins__ = dict(vars(builtins))  # cells may change theirs

LIMIT = 16 << 20  # of a frame, in bytes
OUTPUT = 1 << 20  # of a cell, in bytes
CHUNK = 64 << 10  # of output that is held back, in characters
SHOWN = 2000  # of the representation of a variable, in characters
ALL_SHOWN = 4 << 20  # of all of them
LONGEST = 4 << 20  # answer, in characters
BATCH, BATCH_BYTES = 256, 8 << 20  # prompts in one message
PATIENCE, AT_MOST = 1.0, 10.0  # with representations, in seconds: of work, of time
TICK = 0.05  # of the watcher
REPORT = 0.2  # how much work beside calls the host is told of, in seconds

MAIN = threading.get_ident()
HOME = os.getcwd()
LIBRARY = os.path.dirname(os.__file__)

codecs.register_error("wire", lambda e: ("\ufffd".encode() * (e.end - e.start), e.end))
encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
decoder = json.JSONDecoder().decode


def encode(value):
    return encoder(value).encode("utf-8", "wire")


class State:
    active = None  # id of the request that is being served
    cell = None  # id of the cell that is running
    armed = False  # an interrupt may be raised in the main thread
    interrupted = False  # and is to be
    inside = 0  # how deep the main thread is in code that must not be interrupted
    deadlines = None  # of representations: of work, of time
    room = dropped = 0  # output that is still accepted, and that was not, in bytes
    final = None  # answer of the run
    history = ()


# The wire.


class Slot:
    """What a thread waits for."""

    __slots__ = ("message", "lock")

    def __init__(self):
        self.message = None
        self.lock = _thread.allocate_lock()
        self.lock.acquire()

    def wake(self):
        if self.lock.locked():
            try:
                self.lock.release()
            except RuntimeError:
                pass  # it is awake


class Wire:
    def __init__(self, read, write):
        self.source, self.sink = read, write
        self.buffer = bytearray()
        self.sending, self.flushing = _thread.allocate_lock(), _thread.allocate_lock()
        self.reading = _thread.allocate_lock()
        self.waiting = {}  # slots by id
        self.requests = collections.deque()
        self.idle = Slot()

    def send(self, *frames):
        for f in frames:
            if len(f) > LIMIT:
                raise ValueError("more than %d bytes at once" % LIMIT)
        rest = memoryview(b"".join(b for f in frames for b in (len(f).to_bytes(4, "big"), f)))
        with self.sending:
            try:
                while rest:
                    rest = rest[os.write(self.sink, rest) :]
            except OSError:
                os._exit(1)  # nobody is left to work for

    def whole(self):
        """The length of the first frame in the buffer, or None while it is not all there."""
        if len(self.buffer) >= 4:
            n = 4 + int.from_bytes(self.buffer[:4], "big")
            if len(self.buffer) >= n:
                return n

    def read(self):
        while True:
            n = self.whole()
            if n:
                frame = self.buffer[4:n].decode("utf-8")
                del self.buffer[:n]
                return decoder(frame)
            try:
                piece = os.read(self.source, 1 << 16)
            except OSError:
                piece = b""
            if not piece:
                os._exit(0)
            self.buffer += piece

    def readable(self):
        if self.whole():
            return True
        if os.name == "nt":
            import _winapi
            import msvcrt

            return _winapi.PeekNamedPipe(msvcrt.get_osfhandle(self.source), 0)[0] > 0
        import select

        return bool(select.select([self.source], [], [], 0)[0])

    def dispatch(self, m):
        kind = m["kind"]
        if kind == "cancel":
            if m["target"] == State.active:
                interrupt()
        elif kind == "shutdown":
            os._exit(0)
        elif kind == "set":
            assign(m)
        elif kind.endswith("_result"):
            slot = self.waiting.get(m["id"])
            if slot:
                slot.message = m
                slot.wake()
        else:
            self.requests.append(m)
            self.idle.message = m
            self.idle.wake()

    def wait(self, slot, main):
        """Returns when the slot has its message or, in the main thread, at an interrupt."""
        while slot.message is None and not (main and State.interrupted):
            if self.reading.acquire(False):
                try:
                    while slot.message is None and not (main and State.interrupted):
                        self.dispatch(self.read())
                finally:
                    self.reading.release()
            else:
                slot.lock.acquire()

    def pass_on(self):
        """Has somebody else read who waits. Whoever ends to wait calls it."""
        if not self.reading.locked():
            for slot in list(self.waiting.values())[:1]:
                slot.wake()

    def poll(self):
        """Reads what is there, if nobody else does."""
        if self.reading.acquire(False):
            try:
                while self.readable():
                    self.dispatch(self.read())
            finally:
                self.reading.release()
            self.pass_on()

    def request(self):
        """Returns the next request of the host."""
        while not self.requests:
            self.idle.message = None
            if not self.requests:
                self.waiting[0] = self.idle
                self.wait(self.idle, False)
                del self.waiting[0]
                self.pass_on()
        return self.requests.popleft()

    def ask(self, head, tail):
        """Sends a request and returns its slot."""
        number, slot = next(numbers), Slot()
        self.waiting[number] = slot
        try:
            self.send(b'{"kind":"%s","id":%d,"cell":%d,%s}' % (head, number, State.cell or 0, tail))
        except BaseException:
            del self.waiting[number]
            raise
        return number, slot


numbers = itertools.count(1)


def probe(depth):
    """Fails with a RecursionError here rather than inside of what must be done whole."""
    if depth:
        probe(depth - 1)


class Inside:
    """Code that an interrupt waits for."""

    def __enter__(self):
        self.main = _thread.get_ident() == MAIN
        if self.main:
            State.inside += 1

    def __exit__(self, *_):
        if self.main:
            State.inside -= 1
            if not State.inside and State.interrupted and State.armed:
                State.interrupted = False
                raise KeyboardInterrupt


def interrupt():
    State.interrupted = True
    if State.inside:
        for slot in list(wire.waiting.values()):
            slot.wake()
    elif hasattr(signal, "pthread_kill"):
        signal.pthread_kill(MAIN, signal.SIGINT)
    else:
        _thread.interrupt_main()


def on_interrupt(*_):
    if State.armed and State.interrupted and not State.inside:
        State.interrupted = False
        raise KeyboardInterrupt


def watch():
    used, spent = 0.0, 0.0
    while True:
        busy.wait()
        time.sleep(TICK)
        if State.active is None:
            busy.clear()
            if State.active is not None:  # a request came meanwhile, and busy was still set
                busy.set()
            continue
        wire.poll()
        flush()
        before, used = used, time.process_time()
        limits = State.deadlines
        if limits and (used > limits[0] or time.monotonic() > limits[1]):
            interrupt()
        if wire.waiting:
            spent += used - before
        if spent > REPORT and State.cell is not None:
            wire.send(encode({"kind": "busy", "id": State.cell, "seconds": spent}))
            spent = 0.0


def guarded(function, *args):
    """Calls a function that may be interrupted. Returns its result and what it raised."""
    try:
        try:
            State.armed = True
            return function(*args), None
        finally:
            State.armed = False
    except BaseException as e:
        State.armed = False
        return None, e


# Threads belong to the cell that started them.


def cell_here():
    if _thread.get_ident() == MAIN:
        return State.cell
    return getattr(threading.current_thread(), "_rlm_cell", None)


def current():
    cell = cell_here()
    return cell is not None and cell == State.cell


def start_thread(self, start=threading.Thread.start):
    self._rlm_cell = cell_here()
    start(self)


def thread_failed(args):
    if args.exc_type is not SystemExit:
        name = args.thread.name if args.thread else "a thread"
        sys.stderr.write("%s: %s: %s\n" % (name, args.exc_type.__name__, clean(str(args.exc_value))))


# Output.


class Raw:
    def __init__(self, text):
        self.text = text

    def write(self, data):
        self.text.write(bytes(data).decode("utf-8", "replace"))
        return len(data)

    def flush(self):
        pass


class Output:
    """Standard output or standard error of cells."""

    encoding, errors, newlines, closed, line_buffering = "utf-8", "replace", None, False, False

    def __init__(self, name, kind):
        self.name, self.kind = name, kind
        self.mode = "w"
        self.parts, self.size = [], 0
        self.buffer = Raw(self)

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError("write() argument must be str, not " + type(text).__name__)
        if State.cell is None or _thread.get_ident() != MAIN and not current():
            return len(text)
        size = len(text) if text.isascii() else sum(len(b) for b in pieces(text))
        if size <= State.room:
            State.room -= size
            kept = text
        else:
            kept = text[: State.room].encode("utf-8", "wire")[: State.room].decode("utf-8", "ignore")
            State.dropped += size - len(kept.encode("utf-8"))
            State.room = 0
        if kept:
            self.parts.append(kept)
            self.size += len(kept)
            if self.size > CHUNK:
                probe(40)
                flush()
        return len(text)

    def writelines(self, lines):
        for line in lines:
            self.write(line)

    def take(self):
        n = len(self.parts)
        text = "".join(self.parts[:n])
        del self.parts[:n]
        self.size = 0
        return text

    def frames(self):
        text = self.take()
        if text and State.active is not None:
            yield b'{"kind":"output","id":%d,"stream":"%s","text":%s}' % (State.active, self.kind, encode(text))

    def flush(self):
        pass

    close = flush

    def reconfigure(self, **_):
        pass

    def isatty(self):
        return False

    def readable(self):
        return False

    seekable = readable

    def writable(self):
        return True

    def fileno(self):
        raise OSError("the output of a cell has no descriptor")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def pieces(text):
    for i in range(0, len(text), CHUNK):
        yield text[i : i + CHUNK].encode("utf-8", "surrogatepass")


def flush():
    with Inside(), wire.flushing:
        frames = [f for out in outputs for f in out.frames()]
        if frames:
            wire.send(*frames)


# What code can call.


class ToolError(Exception):
    """What went wrong with a tool."""


class Refused(ToolError):
    pass


def check_call(model):
    if not current():
        raise Refused("the cell that started this thread has ended")
    if not (model is None or isinstance(model, str)):
        raise Refused("model must be a str, not " + type(model).__name__)
    probe(40)


def prompt_bytes(prompt):
    if not isinstance(prompt, (str, dict, list, tuple)):
        raise Refused("a prompt must be a str, a dict or a list of messages, not " + type(prompt).__name__)
    raw = encode(prompt)
    if len(raw) > LIMIT - 4096:
        raise Refused("the prompt has %d bytes, the limit is %d" % (len(raw), LIMIT - 4096))
    return raw


def query(kind, prompt, model):
    try:
        check_call(model)
        tail = b'"model":%s,"prompt":%s' % (b"null" if model is None else encode(model), prompt_bytes(prompt))
        m = exchange(kind, tail)
        if m.get("ok"):
            return m["response"]
        failure = m.get("error")
    except Exception as e:
        failure = e
    return "Error: LM query failed - %s" % (failure,)


def exchange(kind, tail):
    with Inside():
        number, slot = wire.ask(kind, tail)
        collect(number, slot)
    return slot.message or {"error": "interrupted"}


def tool(name, function, names):
    """The function that calls a tool."""

    def call(*args, **kwargs):
        if len(args) > len(names):
            raise TypeError("%s() takes at most %d positional arguments" % (function, len(names)))
        arguments = encode(dict(**dict(zip(names, args)), **kwargs))
        check_call(None)
        m = exchange(b"tool_call", b'"name":%s,"arguments":%s' % (encode(name), arguments))
        if m.get("ok"):
            return m["response"]
        raise ToolError(m.get("error"))

    call.__name__ = call.__qualname__ = function
    return call


def collect(number, slot):
    try:
        wire.wait(slot, _thread.get_ident() == MAIN)
    finally:
        wire.waiting.pop(number, None)
        wire.pass_on()


def batched(kind, prompts, model):
    if isinstance(prompts, (str, bytes, dict)):
        raise TypeError("prompts must be a list, not " + type(prompts).__name__)
    prompts = list(prompts)
    answers = [None] * len(prompts)
    asked = collections.deque()  # of which two are under way, so that none waits for another
    places, raws, size = [], [], 0

    def send():
        tail = b'"model":%s,"prompts":[%s]' % (encode(model), b",".join(raws))
        asked.append((list(places), *wire.ask(kind, tail)))
        del places[:], raws[:]

    def receive():
        where, number, slot = asked[0]
        collect(number, slot)
        if slot.message is None:
            return False  # interrupted
        asked.popleft()
        m = slot.message
        responses = m["responses"] if m.get("ok") else [{"error": m.get("error")}] * len(where)
        for i, r in zip(where, responses):
            answers[i] = r if isinstance(r, str) else "Error: %s" % (r["error"],)
        return True

    check_call(model)
    try:
        with Inside():
            for i, prompt in enumerate(prompts):
                try:
                    raw = prompt_bytes(prompt)
                except Exception as e:
                    answers[i] = "Error: %s" % e
                    continue
                if raws and (len(raws) == BATCH or size + len(raw) > BATCH_BYTES):
                    send()
                    size = 0
                    if len(asked) == 2 and not receive():
                        break
                places.append(i)
                raws.append(raw)
                size += len(raw)
            if raws and not State.interrupted:
                send()
            while asked and receive():
                pass
    finally:
        for _, number, _ in asked:
            wire.waiting.pop(number, None)
    return answers


def llm_query(prompt, model=None, correlation_id=None, depth=None):
    """Asks a sub-model. Returns its answer, or a text that begins with Error."""
    return query(b"llm_query", prompt, model)


def llm_query_batched(prompts, model=None, correlation_id=None):
    """Asks a sub-model many prompts at the same time. Returns as many texts, in order."""
    return batched_or_refused(b"llm_query_batched", prompts, model)


def rlm_query(prompt, model=None):
    """Asks a child run. Returns its answer, or a text that begins with Error."""
    return query(b"rlm_query", prompt, model)


def rlm_query_batched(prompts, model=None):
    """Asks as many child runs at the same time. Returns as many texts, in order."""
    return batched_or_refused(b"rlm_query_batched", prompts, model)


def batched_or_refused(kind, prompts, model):
    try:
        return batched(kind, prompts, model)
    except Refused as e:
        return ["Error: %s" % e for _ in prompts]


def FINAL(value):
    """Gives the answer of the run: the text of a value."""
    text = text_of(meant(value))
    if current():
        State.final = text
    return text


def meant(value):
    """What a value means as an answer: the dict answer is not one."""
    return answer["content"] if value is answer and "content" in answer else value


def text_of(value):
    """The text of a value, as an answer."""
    text = value if type(value) is str else str(value)
    if len(text) > LONGEST:
        raise ValueError("the answer has %d characters, the limit is %d" % (len(text), LONGEST))
    return text


def FINAL_VAR(name):
    """Gives the answer of the run: the text of the variable of that name."""
    known, value = lookup(name)
    if known:
        return FINAL(value)
    text = "Error: Variable '%s' not found" % cut(str(name), 100)
    print(text, file=outputs[1])  # code that expects the run to end prints nothing
    return text


def lookup(name):
    name = name.strip().strip("'\"").strip() if isinstance(name, str) else None
    if name is None or name not in space or name in functions or name == "__builtins__":
        return False, None
    value = meant(space[name])
    return type(value) is not str or value != "" or space[name] is not answer, value


def SHOW_VARS():
    """Returns the names and types of the variables."""
    lines = ["%s: %s" % (name, type(value).__name__) for name, value in variables()]
    return "\n".join(lines) or "no variables yet"


def assign(m):
    """Takes a variable that the host keeps."""
    value = m.get("value")
    if m["name"] == "tools":
        functions.update({t["function"]: tool(t["name"], t["function"], t["arguments"]) for t in value})
        reserved.update(functions, ToolError=ToolError)
        return
    if m["name"] == "history":
        State.history = [*State.history[: m.get("from") or 0], *value]
        value = list(State.history)
    reserved[m["name"]] = value


def restore():
    """Gives the names that belong to us their values, whatever the code has done."""
    found = space.get("answer")
    if isinstance(found, dict):  # it was meant to be the answer
        if found is not answer:
            answer.clear()
            answer.update(found)
    elif found is not None and not callable(found):  # so was this
        answer["content"] = found
    space.update(reserved)
    sys.stdin, sys.stdout, sys.stderr = streams
    sys.setrecursionlimit(recursion)
    if _signal.getsignal(_signal.SIGINT) is not on_interrupt:  # twenty times faster than signal's
        signal.signal(signal.SIGINT, on_interrupt)


# What the host learns of variables and errors.


def cut(text, n):
    return text if len(text) <= n else text[:n]


def variables():
    for name, value in list(space.items()):
        if name not in reserved and isinstance(name, str) and not name.startswith("_"):
            yield name, value


def show(value, room=SHOWN, depth=0):
    """The representation of a value, of which only the beginning has to be right."""
    t = type(value)
    if t in (str, bytes, bytearray):
        return repr(value[:room])
    if t is int and value.bit_length() > 4 * SHOWN:
        return "<int of %d bits>" % value.bit_length()
    if t is types.ModuleType:
        return "<module '%s'>" % value.__name__
    if t in (types.FunctionType, types.BuiltinFunctionType):
        return "<function '%s'>" % value.__name__
    if t in brackets and value:
        return show_items(value, t, room, depth)
    if isinstance(value, containers) and len(value) > 10 * SHOWN:
        return "<%s of %d items>" % (t.__name__, len(value))
    return repr(value)


def show_items(value, t, room, depth):
    left, right = brackets[t]
    if depth > 8:
        return left + "..." + right
    parts, used = [], 0
    for item in value:
        text = show(item, room - used, depth + 1)
        if t is dict:
            text += ": " + show(value[item], room - used, depth + 1)
        parts.append(text)
        used += len(text) + 2
        if used > room:
            break
    if t is tuple and len(value) == 1:
        right = ",)"
    return left + ", ".join(parts) + right


brackets = {list: "[]", tuple: "()", dict: "{}", set: "{}", frozenset: ("frozenset({", "})")}
containers = (list, tuple, dict, set, frozenset, collections.deque)


def shown():
    """The representations of all variables. One that fails or takes too long is its type."""
    found, room, slow = {}, ALL_SHOWN, False
    State.deadlines = time.process_time() + PATIENCE, time.monotonic() + AT_MOST
    for name, value in variables():
        text, failure = (None, True) if slow else guarded(show, value)
        slow = slow or isinstance(failure, KeyboardInterrupt)
        if not isinstance(text, str):
            text = "<%s>" % type(value).__name__
        found[name] = text = cut(text, SHOWN)
        room -= len(name) + len(text)
        if room < 0:
            break
    State.deadlines = None
    State.interrupted = False
    return found


def clean(message):
    """A message without paths of the host."""
    message = re.sub(r" \((?:unknown location|/[^()]*|[A-Za-z]:\\[^()]*)\)$", "", message)
    return cut(message.replace(HOME + os.sep, "").replace(HOME, ".").replace(LIBRARY + os.sep, ""), SHOWN)


def describe(e, name=None):
    message, _ = guarded(str, e)
    if not isinstance(message, str):
        message = ""
    line = 0
    if isinstance(e, SyntaxError) and e.filename == name:
        message, line = e.msg, e.lineno or 0
    trace = e.__traceback__
    while trace:
        if trace.tb_frame.f_code.co_filename == name:
            line = trace.tb_lineno or line
        trace = trace.tb_next
    found = {"type": type(e).__name__, "message": clean(message)}
    if line:
        found["line"] = line
    return found


# What the host asks for.


def load(path, kind):
    if kind == "jsonl":
        value = []
        with open(path, "rb") as f:
            for number, line in enumerate(f, 1):
                if line.strip():
                    try:
                        value.append(json.loads(line))
                    except ValueError as e:
                        raise ValueError("line %d: %s" % (number, e)) from None
        return value
    # Piece by piece the string grows in place, so that little is there twice. CPython 3.11
    # does that in a loop without a condition only.
    text, decode = "", codecs.getincrementaldecoder("utf-8")("replace").decode
    with open(path, "rb") as f:
        while True:
            piece = f.read(max(1 << 16, len(text) // 16))
            text += decode(piece, not piece)
            if not piece:
                break
    return json.loads(text) if kind == "json" else text


def load_context(m):
    value, failure = guarded(load, m["path"], m.get("type"))
    if failure is None:
        reserved["context"] = value
        return {}
    return {"error": describe(failure)}


def execute(m):
    name = "<cell %d>" % m["id"]
    State.cell, State.final = m["id"], None
    State.room, State.dropped = OUTPUT, 0
    restore()
    began = time.perf_counter()
    failure = guarded(run, m["code"], name)[1]
    State.interrupted = False
    restore()
    result = {"execution_time": time.perf_counter() - began, "error": None}
    if failure is not None:
        result["error"] = describe(failure, name)
        del failure
    result["locals"] = shown()
    best, ready = guarded(read_answer)[0] or ("", False)
    State.cell = None
    if ready and State.final is None:
        State.final, failure = guarded(text_of, answer.get("content", ""))
        if failure is not None:
            answer["ready"] = False  # the next cell begins without it
            result["error"] = result["error"] or describe(failure)
    result.update(final=State.final, best=best, omitted=State.dropped)
    return result


def run(code, name):
    exec(compile(code, name, "exec", dont_inherit=True), space)


def read_answer():
    content = answer.get("content", "")
    text = content if type(content) is str else str(content)
    return cut(text, LONGEST // 4), bool(answer.get("ready"))


def final_var(m):
    restore()  # before the first cell, too
    known, value = lookup(m["name"])
    if not known:
        return {"final": None}
    text, failure = guarded(text_of, value)
    return {"final": text} if failure is None else {"error": describe(failure)}


def serve():
    while True:
        m = wire.request()
        kind = m["kind"]
        State.active, State.interrupted = m["id"], False
        if not busy.is_set():
            busy.set()
        result = handlers[kind](m)
        head = {"kind": kind + "_result", "id": m["id"]}
        frame = encode({**head, **result})
        if len(frame) > LIMIT:
            result.update(locals={}, final=None, best="")
            result["error"] = {"type": "ValueError", "message": "the variables and the answer are too large"}
            frame = encode({**head, **result})
        with wire.flushing:
            frames = [f for out in outputs for f in out.frames()]
            State.active = None
            wire.send(*frames, frame)
        m = result = frame = frames = None


# Hygiene, where it is asked for: no boundary.

ALLOWED = set(
    "collections dataclasses datetime decimal functools itertools json math"
    " pathlib random re statistics string textwrap typing uuid".split()
)


def strict_builtins():
    allowed = dict(vars(builtins))
    for name in ("input", "eval", "exec", "compile", "globals", "locals"):
        del allowed[name]

    def strict_import(name, globals=None, locals=None, fromlist=(), level=0):
        if level or name.partition(".")[0] not in ALLOWED:
            raise ImportError("import of %r is not allowed; allowed are %s" % (name, ", ".join(sorted(ALLOWED))))
        return builtins.__import__(name, globals, locals, fromlist, level)

    def strict_open(file, *args, **kwargs):
        path = os.path.realpath(os.path.join(HOME, os.fspath(file))) if not isinstance(file, int) else ""
        if not path.startswith(os.path.realpath(HOME) + os.sep):
            raise PermissionError("files outside of the session folder are not allowed")
        return open(path, *args, **kwargs)

    allowed.update(__import__=strict_import, open=strict_open)
    return allowed


# The start.


def connect(stdio):
    null = os.open(os.devnull, os.O_RDWR)
    if stdio:
        read, write = os.dup(0), os.dup(1)
        if os.name == "nt":
            import msvcrt

            msvcrt.setmode(read, os.O_BINARY)
            msvcrt.setmode(write, os.O_BINARY)
        os.dup2(null, 0)
        os.dup2(null, 1)
    else:
        read = write = 3
        os.set_inheritable(3, False)
    os.close(null)
    return Wire(read, write)


def forked():
    """A process that a cell has forked must not speak for us."""
    for fd in {wire.source, wire.sink}:
        os.close(fd)
    wire.__init__(-1, -1)


def limit_memory(n):
    if n:
        try:
            import resource

            resource.setrlimit(resource.RLIMIT_AS, (n, n))
        except (ImportError, ValueError, OSError):
            pass  # the system has no such limit, or a lower one


options = dict(word.partition("=")[::2] for word in sys.argv[1:])
sys.argv[1:] = []
wire = connect("stdio" in options)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forked)
limit_memory(int(options.get("memory") or 0))

busy = threading.Event()
outputs = (Output("<stdout>", b"stdout"), Output("<stderr>", b"stderr"))
streams = (open(os.devnull), *outputs)
recursion = sys.getrecursionlimit()
threading.Thread.start = start_thread
threading.excepthook = thread_failed
signal.signal(signal.SIGINT, on_interrupt)

main = types.ModuleType("__main__")
space = vars(main)
answer = {"content": "", "ready": False}
functions = {f.__name__: f for f in (llm_query, llm_query_batched, rlm_query, rlm_query_batched, FINAL, FINAL_VAR, SHOW_VARS)}
reserved = {
    **functions,
    "answer": answer,
    "history": [],
    "RLM_CORRELATION_ID": "",
    "RLM_DEPTH": 0,
    "__name__": "__main__",
    "__builtins__": strict_builtins() if "strict" in options else builtins,
}
if not hasattr(builtins, "exit"):  # which site would have added
    builtins.exit = builtins.quit = sys.exit
sys.modules["__main__"] = main
handlers = {"load_context": load_context, "execute": execute, "final_var": final_var}

_thread.start_new_thread(watch, ())
wire.send(encode({"kind": "ready", "version": "%d.%d.%d" % sys.version_info[:3], "language": "python"}))
serve()
