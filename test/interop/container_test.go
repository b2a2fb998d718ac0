package interop

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// buildImage builds the image of a release from its Dockerfile.
func buildImage(t *testing.T, e *engine) {
	t.Helper()
	folder := t.TempDir()
	platform := "linux/" + runtime.GOARCH
	static := filepath.Join(folder, filepath.FromSlash(platform), "wirectl")
	build := exec.CommandContext(t.Context(), "go", "build", "-C", "../..", "-trimpath", "-tags=urfave_cli_no_docs,grpcnotrace", "-o", static, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const certificates = "/etc/ssl/certs/ca-certificates.crt"
	text, err := os.ReadFile(certificates)
	check(t, err)
	check(t, os.MkdirAll(filepath.Join(folder, filepath.Dir(certificates)), 0o755))
	check(t, os.WriteFile(filepath.Join(folder, certificates), text, 0o644))
	_, err = e.podman(nil, "build", "-q", "--platform", platform, "-t", wirectlImage, "-f", "../../contrib/container/Dockerfile", folder)
	check(t, err)
}

// The image of a release reads a recording from standard input, as a non-root user. A unit
// in a container answers as one outside, and the relay passes on its exit status.
func TestContainer(t *testing.T) {
	t.Parallel()
	e := realEngine(t)
	buildImage(t, e)
	got, err := e.podman(nil, "image", "inspect", "--format", "{{.Config.User}} {{.Config.Entrypoint}}", wirectlImage)
	check(t, err)
	if want := "65532:65532 [/usr/bin/wirectl]"; got != want {
		t.Errorf("the image is to run as %s, want %s", got, want)
	}
	flags, words := e.inside(t)
	args := append([]string{"send", "--prompt", "into the box"}, flags...)
	answer, stderr := command(t, nil, append(append(append(args, "latis"), words...), "unit")...)
	if string(answer) != "Echo: into the box\n" {
		t.Errorf("%q\n%s", answer, stderr)
	}
	_, stderr, status := relayThrough(t, nil, append(append(flags, words...), "no-such-command")...)
	if status != 2 {
		t.Errorf("status %d\n%s", status, stderr)
	}
}

// inside returns the words of an ENDPOINT that runs wirectl in a container of the image,
// and the flags before it. If containers cannot run here, namespaces replace them.
func (e *engine) inside(t *testing.T) (flags, words []string) {
	t.Helper()
	if e.forbidden != nil {
		stand := filepath.Join(t.TempDir(), "runtime")
		script := fmt.Sprintf("#!/bin/sh\n[ \"$1 $2 $3\" = 'exec -i box' ] || exit 125\nshift 3\nexec %s --user --map-root-user --pid --fork --kill-child \"$@\"\n", need(t, "unshare"))
		check(t, os.WriteFile(stand, []byte(script), 0o700))
		return []string{"--runtime", stand}, []string{"container", "box", wirectl}
	}
	recording, err := os.ReadFile("../../fixtures/sessions/a2a03-ts-jsonrpc/c2s.bin")
	check(t, err)
	want, _ := command(t, recording, "decode", "-q")
	got, err := e.podman(strings.NewReader(string(recording)), "run", "--rm", "-i", "--network", "none", wirectlImage, "decode", "-q")
	check(t, err)
	if got != strings.TrimSpace(string(want)) {
		t.Errorf("in a container, decode prints\n%s\nwant\n%s", got, want)
	}
	id, err := e.podman(nil, "run", "-d", "--rm", "--network", "none", wirectlImage, "unit", "--listen", "tcp://127.0.0.1:0")
	check(t, err)
	t.Cleanup(func() {
		_, err := e.podman(nil, "rm", "-f", "-t", "0", id)
		check(t, err)
	})
	users, err := e.podman(nil, "top", id, "user", "huser")
	check(t, err)
	if fields := strings.Fields(users); len(fields) != 4 || fields[2] != "65532" {
		t.Errorf("it runs as %q", users)
	}
	return []string{"--runtime", filepath.Join(e.dir, "podman")}, []string{"container", id, "/usr/bin/wirectl"}
}

// proxied is a cell that asks models from a program that it starts.
const proxied = `import subprocess, sys
code = r'''
import http.client, json, os, socket, urllib.parse
proxy = urllib.parse.urlsplit(os.environ["WIRECTL_PROXY"])
if proxy.scheme == "unix":
    c = http.client.HTTPConnection("localhost")
    c.sock = socket.socket(socket.AF_UNIX)
    c.sock.connect(proxy.path)
    c.request("POST", "/llm_query", json.dumps({"prompt": "one"}))
else:
    c = http.client.HTTPConnection(proxy.hostname, proxy.port)
    c.request("POST", proxy.path + "/llm_query", json.dumps({"prompt": "one"}))
print(c.getresponse().read().decode())
'''
p = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
FINAL((p.stdout + p.stderr[-500:]).strip())`

// limited is a cell that tests the limits of its container, and what is inaccessible.
const limited = `import os, signal, socket, subprocess, sys
said = []
for reach in [("192.0.2.1", 80), ("127.0.0.1", 22), ("localhost", 8768)]:
    try: socket.create_connection(reach, 5); said.append("connected")
    except OSError: pass
for path in ["/x", "/usr/x", "/context", "/workspace/worker.py", "/sys/x"]:
    try: open(path, "w"); said.append("wrote " + path)
    except OSError: pass
n = 0
try:
    while n < 2000: os.posix_spawn("/bin/sleep", ["sleep", "1000"], {}); n += 1
except OSError: pass
os.kill(-1, signal.SIGKILL)
try:
    while True: os.wait()
except ChildProcessError: pass
said.append("%d processes" % (n // 100 * 100) if n < 512 else "too many processes")
hold = "b = b'x' * (300 << 20); print(flush=True); import time; time.sleep(1000)"
children = [subprocess.Popen([sys.executable, "-S", "-c", hold], stdout=subprocess.PIPE) for _ in range(4)]
for c in children: c.stdout.readline()
said.append("memory is limited" if any(c.poll() == -9 for c in children) else "1.2 GB")
for c in children: c.kill(); c.wait()
FINAL("; ".join(said))`

// busy is a cell that cannot be interrupted, and does not notice the end of its input.
const busy = "7 ** (10 ** 9)"

// The real engine runs the code of a run within its limits, and programs that the code
// starts ask models by both kinds of proxy. A run that is interrupted or killed soon leaves
// nothing behind. An engine that cannot run containers fails with a reason.
func TestRLMContainer(t *testing.T) {
	e := realEngine(t)
	t.Setenv("TMPDIR", t.TempDir())
	refused := func(e *engine) {
		t.Helper()
		stdout, stderr, status := e.run(t, turns(t, nil, "FINAL(1)"), "Ask.")
		if status != 1 || stdout != "" || !regexp.MustCompile(`(?m)^wirectl: (start the interpreter: it ended|pull the image \S+): exit status \d+: \S`).MatchString(stderr) {
			t.Errorf("an engine that runs nothing: status %d, %q, %s", status, stdout, stderr)
		}
	}
	broken := &engine{dir: t.TempDir()}
	check(t, os.WriteFile(filepath.Join(broken.dir, "podman"), fmt.Appendf(nil, "#!/bin/sh\nexec %s/podman --runtime /bin/false \"$@\"\n", e.dir), 0o700))
	check(t, os.Symlink(filepath.Join(e.dir, "docker"), filepath.Join(broken.dir, "docker")))
	refused(broken)
	if e.forbidden != nil {
		t.Log("no container runs here:", e.forbidden)
		refused(e)
		return
	}
	answers := func(want, config string, args ...string) {
		t.Helper()
		if stdout, stderr, status := e.run(t, config, append(args, "Ask.")...); status != 0 || stdout != want+"\n" {
			t.Errorf("status %d, %q, want %q\n%s", status, stdout, want, stderr)
		}
	}
	root := os.Getuid() == 0
	memory := "memory is limited"
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err != nil && !root {
		memory = "1.2 GB" // cgroups v1 have no limits without root
	}
	before, err := os.ReadDir(".")
	check(t, err)
	if answers("500 processes; "+memory, turns(t, nil, limited), "--memory", "768MiB"); t.Failed() {
		return
	}
	if after, err := os.ReadDir("."); err != nil || len(after) != len(before) {
		t.Errorf("files are left: %v, %v", after, err)
	}
	answers(`{"response":"Echo: one"}`, turns(t, map[string]any{"proxy": "socket", "sub_model": "sub"}, proxied))
	if tcp := turns(t, map[string]any{"proxy": "tcp", "sub_model": "sub"}, proxied); root {
		answers(`{"response":"Echo: one"}`, tcp)
	} else if _, stderr, status := e.run(t, tcp, "Ask."); status != 1 || !strings.Contains(stderr, "use proxy: socket") {
		t.Errorf("proxy over TCP without root: status %d\n%s", status, stderr)
	}

	if status, pid := e.signalled(t, os.Interrupt); status != 130 || e.has(t, pid) {
		t.Errorf("interrupted: status %d, or a container is left", status)
	}
	pid, left := 0, false
	for tries := 0; !left && tries < 5; tries++ { // a worker that has not got its cell yet ends with its run
		_, pid = e.signalled(t, os.Kill)
		left = e.has(t, pid)
	}
	if !left {
		t.Error("the container of a killed run ended with it")
	}
	answers("2", turns(t, nil, "FINAL(1 + 1)"))
	if e.has(t, pid) {
		t.Error("the next run did not remove the container of a killed run")
	}
}

// signalled starts a run whose cell is busy, and sends it a signal. It returns the status
// and the process id.
func (e *engine) signalled(t *testing.T, s os.Signal) (status, pid int) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	cmd := exec.CommandContext(ctx, wirectl, "rlm", "-q", "--env", "container", "--image", pythonImage, "-o", "ndjson", "--config", turns(t, nil, "print(llm_query('x'))", busy), "Ask.")
	cmd.Env, cmd.Stderr = e.env(), t.Output()
	stdout, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if strings.Contains(lines.Text(), `"event":"cell"`) && strings.Contains(lines.Text(), `**`) {
			break
		}
	}
	check(t, cmd.Process.Signal(s))
	_, _ = io.Copy(io.Discard, stdout)
	_ = cmd.Wait()
	return cmd.ProcessState.ExitCode(), cmd.Process.Pid
}

// has reports whether a container of a run exists.
func (e *engine) has(t *testing.T, pid int) bool {
	t.Helper()
	names, err := e.podman(nil, "ps", "-a", "--format", "{{.Names}}")
	check(t, err)
	return strings.Contains(names, fmt.Sprintf("wirectl-rlm-%d-", pid))
}

// The tables of faults and escapes, and the interrupts at each event, also hold for the
// real engine.
func TestContainerTables(t *testing.T) {
	e := realEngine(t)
	if e.forbidden != nil {
		t.Log("no container runs here, as TestRLMContainer shows:", e.forbidden)
		return
	}
	for folder, tests := range map[string]string{
		"rlm/env": "Faults|Timeouts|Killed|Cancelled|CancelledStart|Escapes|Query|Tools",
		"test":    "InterruptAtEveryEvent|ProvidersFail",
	} {
		t.Run(folder, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), "go", "test", "-C", "../..", "-count=1", "-v", "-run", "^Test("+tests+")$/^container$", "./"+folder)
			cmd.Env = append(e.env(), "REAL_IMAGE="+pythonImage)
			out, err := cmd.CombinedOutput()
			if ran := strings.Count(string(out), "/container ("); err != nil || ran != strings.Count(tests, "|")+1 || strings.Contains(string(out), "--- SKIP") {
				t.Errorf("%v, %d ran\n%s", err, ran, out)
			}
		})
	}
}
