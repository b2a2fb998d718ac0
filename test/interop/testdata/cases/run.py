#!/usr/bin/env python3
"""Runs one case without wirectl and through it, and prints whether clients saw the same, the findings and the calls.

  run.py stdio NAME [relay flags]   NAME.server.py, driven by NAME.steps.json, directly and behind `wirectl relay`
  run.py bridge NAME [relay flags]  a stdio client behind `wirectl relay http://…/NAME`
  run.py proxy NAME                 an HTTP client of …/NAME, directly and through `wirectl relay --listen`
  run.py keepalive NAME             as proxy, with one connection that stays open

NAME of an HTTP case is a behaviour of http_server.py, or `pings` or `restart`. WIRECTL names the program
(default: wirectl on the PATH). Everything is written into a temporary folder."""
import hashlib, http.client, json, os, random, signal, socket, subprocess, sys, tempfile, threading, time

HERE = os.path.dirname(os.path.abspath(__file__))
WIRECTL = os.environ.get("WIRECTL", "wirectl")


def environment(out):
    run = os.path.join(out, "run")
    os.makedirs(run, mode=0o700, exist_ok=True)
    return {**os.environ, "XDG_STATE_HOME": os.path.join(out, "state"), "XDG_RUNTIME_DIR": run, "WIRECTL_HUB": "",
            "PYTHONPATH": HERE, "ALIVE": os.path.join(out, "alive")}


def drive(steps, command, env):
    """Plays the client's steps to a command over stdio: what it wrote, when its streams ended, its exit status."""
    began = time.time()
    p = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0, env=env)
    got, err, seen, change = bytearray(), bytearray(), [], threading.Condition()
    ended = {}

    def read(f, buffer, name):
        while True:
            b = os.read(f.fileno(), 1 << 16)
            with change:
                if not b:
                    ended[name] = round(time.time() - began, 1)
                else:
                    buffer += b
                change.notify_all()
            if not b:
                return

    for f, buffer, name in ((p.stdout, got, "stdout"), (p.stderr, err, "stderr")):
        threading.Thread(target=read, args=(f, buffer, name), daemon=True).start()
    for op, *args in steps:
        try:
            if op == "send":  # a message, with @@ replaced by so many x
                line = json.dumps(args[0], separators=(",", ":"), ensure_ascii=False)
                p.stdin.write((line.replace("@@", "x" * args[1]) if len(args) > 1 else line).encode() + b"\n")
            elif op == "text":
                p.stdin.write(args[0].encode())
            elif op == "sleep":
                time.sleep(args[0])
            elif op == "wait":  # until the words have come, for so many seconds
                until = time.time() + args[1]
                with change:
                    while args[0].encode() not in got and time.time() < until and "stdout" not in ended:
                        change.wait(.2)
                    seen.append(("saw " if args[0].encode() in got else "MISSED ") + args[0])
            elif op == "close":
                p.stdin.close()
            elif op == "exit":
                p.wait(args[0])
        except BrokenPipeError:
            seen.append("broken pipe at " + op)
        except subprocess.TimeoutExpired:
            seen.append(f"still running after {args[0]} s")
    if p.poll() is None:
        p.kill()
        p.wait()
    exited = round(time.time() - began, 1)
    time.sleep(.2)
    with change:
        return {"steps": seen, "exit": p.returncode, "bytes": len(got), "sha256": hashlib.sha256(got).hexdigest()[:12],
                "exited at": exited, "ended": dict(ended), "stdout": bytes(got), "stderr": err.decode(errors="replace")}


def judge(capture, env):
    """What lint and calls say of a capture."""
    say = lambda *args: subprocess.run([WIRECTL, *args, capture], capture_output=True, env=env, timeout=30).stdout
    rows = lambda b: [json.loads(line) for line in b.splitlines() if line.strip()]
    return {"findings": rows(say("lint", "-q", "-o", "ndjson")), "calls": rows(say("calls", "-q", "-o", "ndjson"))}


def stdio(name, out, flags=(), folder=HERE, direct=True):
    env, capture = environment(out), os.path.join(out, name + ".pcapng")
    server = [sys.executable, os.path.join(folder, name + ".server.py")]
    steps = json.load(open(os.path.join(folder, name + ".steps.json")))
    answer = {"direct": drive(steps, server, {**env, "ALIVE": env["ALIVE"] + ".direct"})} if direct else {}
    answer["relay"] = drive(steps, [WIRECTL, "relay", "--no-tap", "--capture", capture, *flags, "--", *server], env)
    return {**answer, **judge(capture, env)}


def reachable(port, seconds=10):
    until = time.time() + seconds
    while time.time() < until:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(.05)
    raise SystemExit(f"nothing listens on {port}")


def serve(name, port, out, server=None):
    file = server or os.path.join(HERE, name + ".py" if name in ("pings", "restart") else "http_server.py")
    p = subprocess.Popen([sys.executable, file, str(port)], stdout=open(os.path.join(out, "server.log"), "wb"), stderr=subprocess.STDOUT)
    reachable(port)
    return p


def free():
    """Two ports in a row where nobody listens, and which the system gives to no client in the meantime."""
    while True:
        port = random.randrange(12000, 30000, 2)
        with socket.socket() as a, socket.socket() as b:
            try:
                a.bind(("127.0.0.1", port))
                b.bind(("127.0.0.1", port + 1))
                return port
            except OSError:
                pass


def bridge(name, port, out, flags=(), server=None):
    env, capture = environment(out), os.path.join(out, name + "-bridge.pcapng")
    s = serve(name, port, out, server)
    try:
        steps = json.load(open(os.path.join(HERE, "restart.steps.json" if name == "restart" else "http.steps.json")))
        answer = {"relay": drive(steps, [WIRECTL, "relay", "--no-tap", "--capture", capture, *flags, f"http://127.0.0.1:{port}/{name}"], env)}
    finally:
        s.kill()
        s.wait()
    return {**answer, **judge(capture, env)}


def client(port, name, keepalive=False):
    """A small client of a Streamable HTTP server: the status, content type and length of each answer."""
    seen, one = [], http.client.HTTPConnection("127.0.0.1", port, timeout=5)

    def ask(label, method, body=None, timeout=5):
        c = one if keepalive and method == "POST" else http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
        head = {"Accept": "application/json, text/event-stream"}
        if body:
            head["Content-Type"] = "application/json"
        if label != "initialize":
            head |= {"MCP-Protocol-Version": "2025-06-18", "Mcp-Session-Id": "s1"}
        try:
            c.request(method, "/" + name, json.dumps(body) if body else None, head)
            r = c.getresponse()
            seen.append((label, r.status, r.getheader("Content-Type"), len(r.read())))
        except (OSError, http.client.HTTPException) as e:
            seen.append((label, type(e).__name__, None, 0))
        if c is not one:
            c.close()

    call = lambda i: {"jsonrpc": "2.0", "id": i, "method": "tools/call", "params": {"name": "t", "arguments": {}}}
    ask("initialize", "POST", {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}})
    ask("initialized", "POST", {"jsonrpc": "2.0", "method": "notifications/initialized"})
    if not keepalive:
        ask("get", "GET", timeout=1)
    ask("call 1", "POST", call(1))
    time.sleep(.3)
    ask("call 2", "POST", call(2))
    if keepalive:
        time.sleep(.5)
        ask("ping", "POST", {"jsonrpc": "2.0", "id": 3, "method": "ping"})
        one.close()
    else:
        ask("delete", "DELETE")
    return seen


def proxy(name, port, out, keepalive=False, server=None, direct=True):
    env, capture = environment(out), os.path.join(out, name + "-proxy.pcapng")
    s = serve(name, port, out, server)
    try:
        answer = {"direct": client(port, name, keepalive)} if direct else {}
        r = subprocess.Popen([WIRECTL, "relay", "--no-tap", "--capture", capture, "--listen", f"http://127.0.0.1:{port + 1}", f"http://127.0.0.1:{port}/{name}"],
                             stdout=subprocess.DEVNULL, stderr=open(os.path.join(out, "relay.log"), "wb"), env=env)
        reachable(port + 1)
        answer["relay"] = client(port + 1, name, keepalive)
        time.sleep(.3)
        r.send_signal(signal.SIGINT)
        r.wait(15)
    finally:
        s.kill()
        s.wait()
    return {**answer, **judge(capture, env)}


def main():
    if len(sys.argv) < 3 or sys.argv[1] not in ("stdio", "bridge", "proxy", "keepalive"):
        raise SystemExit(__doc__)
    how, name, rest = sys.argv[1], sys.argv[2], sys.argv[3:]
    port = free()
    with tempfile.TemporaryDirectory() as out:
        if how == "stdio":
            a = stdio(name, out, rest)
        elif how == "bridge":
            a = bridge(name, port, out, rest)
        else:
            a = proxy(name, port, out, keepalive=how == "keepalive")
        relay, direct = a["relay"], a.get("direct")
        if how in ("stdio", "bridge"):
            same = lambda side: {k: side[k] for k in ("steps", "exit", "sha256")}
            print("client:", "; ".join(relay["steps"] + ["exit " + str(relay["exit"])]))
            print("stderr:", relay["stderr"].strip(), file=sys.stderr)
        else:
            same = lambda side: side
            print("client:", "; ".join(f"{label} {status}" for label, status, *_ in relay))
        if direct:
            print("as without the relay:", "yes" if same(relay) == same(direct) else f"no: {same(direct)}, {same(relay)}")
        for f in a["findings"]:
            print("finding:", f["severity"], f["finding"], f["message"].replace(str(port), "PORT"))
        for c in a["calls"]:
            print("call:", *(str(c[k]) for k in ("id", "kind", "name", "outcome", "reason") if c.get(k) is not None))
        if how == "stdio" and name == "forklive":
            def lines():
                try:
                    return len(open(os.path.join(out, "alive")).readlines())
                except FileNotFoundError:
                    return 0
            until, before = time.time() + 10, lines()
            while lines() == before and time.time() < until:
                time.sleep(.1)
            print("the program left behind", "lives" if lines() > before else "is dead")


if __name__ == "__main__":
    main()
