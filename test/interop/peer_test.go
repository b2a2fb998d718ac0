package interop

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/textproto"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"
)

// need returns the path of a program. Without it the test is skipped, or fails in CI.
func need(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	switch {
	case err == nil:
	case os.Getenv("CI") != "":
		t.Fatal(err)
	default:
		t.Skip(err)
	}
	return path
}

// npm installs the packages pinned by npm/package-lock.json once, and returns their folder.
func npm(t *testing.T) string { return packages(t, "npm") }

// packages does the same for the package-lock.json of another folder.
func packages(t *testing.T, folder string) string {
	t.Helper()
	program := need(t, "npm")
	lock, err := os.ReadFile(filepath.Join(folder, "package-lock.json"))
	check(t, err)
	cache, err := os.UserCacheDir()
	check(t, err)
	root := filepath.Join(cache, "wirectl-interop")
	dir := filepath.Join(root, fmt.Sprintf("%x", sha256.Sum256(lock)))
	modules := filepath.Join(dir, "node_modules")
	if _, err := os.Stat(modules); err == nil {
		return modules
	}
	check(t, os.MkdirAll(root, 0o755))
	partial, err := os.MkdirTemp(root, "partial")
	check(t, err)
	defer os.RemoveAll(partial)
	check(t, os.CopyFS(partial, os.DirFS(folder)))
	install := exec.CommandContext(t.Context(), program, "ci", "--no-audit", "--no-fund", "--ignore-scripts")
	install.Dir = partial
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
	if err := os.Rename(partial, dir); err != nil { // another test may have been first
		_, missing := os.Stat(modules)
		check(t, missing)
	}
	return modules
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A framing delimits messages. The code is independent of wirectl's, so that wirectl is not
// tested against itself.
type framing struct {
	name string
	wrap func(payload string) string
	next func(*bufio.Reader) ([]byte, error)
}

var line = framing{
	name: "line",
	wrap: func(payload string) string { return payload + "\n" },
	next: func(r *bufio.Reader) ([]byte, error) { return r.ReadBytes('\n') },
}

var header = framing{
	name: "header",
	wrap: func(payload string) string { return fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(payload), payload) },
	next: func(r *bufio.Reader) ([]byte, error) {
		fields, err := textproto.NewReader(r).ReadMIMEHeader()
		if err != nil {
			return nil, err
		}
		n, err := strconv.Atoi(fields.Get("Content-Length"))
		if err != nil {
			return nil, err
		}
		payload := make([]byte, n)
		_, err = io.ReadFull(r, payload)
		return payload, err
	},
}

// A message has the members of JSON-RPC that distinguish a request from its answer.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
}

// A peer is a JSON-RPC server that runs on pipes. It keeps the bytes of both directions.
type peer struct {
	t        *testing.T
	framing  framing
	cmd      *exec.Cmd
	stdin    io.Closer
	in       io.Writer
	out      *bufio.Reader
	c2u, u2c bytes.Buffer
	sent     []string
	stderr   bytes.Buffer
}

// patience is the time limit for a peer in one test.
const patience = 2 * time.Minute

func start(t *testing.T, f framing, name string, args ...string) *peer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	p := &peer{t: t, framing: f, cmd: exec.CommandContext(ctx, name, args...)}
	p.cmd.Stderr = &p.stderr
	stdin, err := p.cmd.StdinPipe()
	check(t, err)
	stdout, err := p.cmd.StdoutPipe()
	check(t, err)
	p.stdin, p.in = stdin, io.MultiWriter(&p.c2u, stdin)
	p.out = bufio.NewReader(io.TeeReader(stdout, &p.u2c))
	check(t, p.cmd.Start())
	return p
}

func (p *peer) send(payloads ...string) {
	p.t.Helper()
	for _, payload := range payloads {
		_, err := io.WriteString(p.in, p.framing.wrap(payload))
		check(p.t, err)
		p.sent = append(p.sent, payload)
	}
}

// await reads until each of these requests is answered.
func (p *peer) await(ids ...string) {
	p.t.Helper()
	for len(ids) > 0 {
		payload, err := p.framing.next(p.out)
		if err != nil {
			p.t.Fatalf("no answer to %s: %v\n%s", ids, err, &p.stderr)
		}
		var m message
		check(p.t, json.Unmarshal(payload, &m))
		if m.Method == "" {
			ids = slices.DeleteFunc(ids, func(id string) bool { return id == string(m.ID) })
		}
	}
}

// end closes the peer's input and reads the rest of its output.
func (p *peer) end() {
	p.t.Helper()
	check(p.t, p.stdin.Close())
	_, err := io.Copy(io.Discard, p.out)
	check(p.t, err)
	if err := p.cmd.Wait(); err != nil {
		p.t.Fatalf("%v\n%s", err, &p.stderr)
	}
}

// verify decodes both directions and checks that wirectl saw each message as it was sent,
// and each request with its one answer.
func (p *peer) verify(protocol string) {
	p.t.Helper()
	asked := decode(p.t, p.c2u.Bytes(), p.framing.name, protocol)
	if len(asked) != len(p.sent) {
		p.t.Fatalf("decode found %d of %d messages", len(asked), len(p.sent))
	}
	var opened, answered []string
	for i, r := range asked {
		var m message
		check(p.t, json.Unmarshal([]byte(p.sent[i]), &m))
		if r.Kind != m.Method || !bytes.Equal(r.ID, m.ID) || string(r.Payload) != p.sent[i] {
			p.t.Errorf("%s was decoded as %s %s %s", p.sent[i], r.Kind, r.ID, r.Payload)
		}
		if r.Phase == "open" {
			opened = append(opened, string(r.ID))
		}
	}
	for _, r := range decode(p.t, p.u2c.Bytes(), p.framing.name, protocol) {
		if r.Phase == "close" || r.Phase == "fail" || r.Phase == "cancelled" {
			answered = append(answered, string(r.ID))
		}
	}
	slices.SortFunc(opened, cmp.Compare)
	slices.SortFunc(answered, cmp.Compare)
	if !slices.Equal(opened, answered) {
		p.t.Errorf("the requests are %s and the answers %s", opened, answered)
	}
}
