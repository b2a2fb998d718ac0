package diff

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/fd"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/carried"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/session"
)

// read makes a session of MCP messages, one per line, each preceded by its direction.
func read(t *testing.T, lines string) *Session {
	t.Helper()
	s := NewSession(Options{})
	for i, line := range strings.Split(strings.TrimSpace(lines), "\n") {
		arrow, payload, _ := strings.Cut(strings.TrimSpace(line), " ")
		r := Record{Seq: int64(i + 1), Dir: frame.C2U, Protocol: jsonrpc.MCP, Payload: []byte(payload)}
		if arrow == "<" {
			r.Dir = frame.U2C
		}
		var m protocol.Message
		if err := jsonrpc.MCP.Parse(r.Payload, &m); err == nil {
			r.Message = &m
		}
		s.Add(r)
	}
	return s
}

// report compares two sessions, and closes them.
func report(t *testing.T, a, b *Session) *Report {
	t.Helper()
	r, err := Compare(a, b)
	if err := errors.Join(err, a.End(), b.End(), a.Close(), b.Close()); err != nil {
		t.Fatal(err)
	}
	return r
}

// compare writes all differences of two sessions.
func compare(t *testing.T, a, b string) string {
	t.Helper()
	var text []string
	for _, d := range report(t, read(t, a), read(t, b)).Differences {
		line := string(d.What) + " " + d.Kind
		if d.Path != "" {
			line += " " + d.Path
		}
		text = append(text, line)
	}
	return strings.Join(text, "\n")
}

const both = `
> {"jsonrpc":"2.0","id":0,"method":"tools/call","params":{"name":"a"}}
< {"jsonrpc":"2.0","id":0,"method":"ping"}
> {"jsonrpc":"2.0","id":0,"result":{}}
< {"jsonrpc":"2.0","id":0,"result":{"isError":false}}`

// Each side has its own ids, and simultaneous messages of the two sides may cross.
func TestIDsOfBothSides(t *testing.T) {
	crossed := `
< {"jsonrpc":"2.0","id":0,"method":"ping"}
> {"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"a"}}
< {"jsonrpc":"2.0","id":5,"result":{"isError":false}}
> {"jsonrpc":"2.0","id":0,"result":{}}`
	if got := compare(t, both, crossed); got != "" {
		t.Errorf("they differ in:\n%s", got)
	}
}

// A reused id corresponds to another id the second time.
func TestIDsUsedAgain(t *testing.T) {
	twice := `
> {"jsonrpc":"2.0","id":1,"method":"ping"}
< {"jsonrpc":"2.0","id":1,"result":{}}
> {"jsonrpc":"2.0","id":1,"method":"ping"}
< {"jsonrpc":"2.0","id":1,"result":{}}`
	fresh := `
> {"jsonrpc":"2.0","id":1,"method":"ping"}
< {"jsonrpc":"2.0","id":1,"result":{}}
> {"jsonrpc":"2.0","id":2,"method":"ping"}
< {"jsonrpc":"2.0","id":2,"result":{}}`
	for _, got := range []string{compare(t, twice, fresh), compare(t, fresh, twice)} {
		if got != "" {
			t.Errorf("they differ in:\n%s", got)
		}
	}
}

// A number that is not an id is compared, even if an id has the same digits.
func TestNumbersAreNotIDs(t *testing.T) {
	a := `> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"n":1}}}`
	b := `> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"a","arguments":{"n":2}}}`
	if got, want := compare(t, a, b), "payload tools/call params.arguments.n"; got != want {
		t.Errorf("they differ in %q, want %q", got, want)
	}
}

// Long sessions are compared completely, and need only a fraction of their size in memory.
func TestLongSessions(t *testing.T) {
	const calls, size = 5000, 2000
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	long := func(odd int) *Session {
		s := NewSession(Options{})
		for n := range calls {
			answer := fmt.Sprintf(`"%s%v"`, strings.Repeat("x", size), n == odd)
			for i, text := range []string{
				fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"x"}}`, n+odd),
				fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"content":%s}}`, n+odd, answer),
			} {
				var m protocol.Message
				if err := jsonrpc.MCP.Parse([]byte(text), &m); err != nil {
					t.Fatal(err)
				}
				s.Add(Record{Seq: int64(2*n + i), Dir: []frame.Dir{frame.C2U, frame.U2C}[i], Payload: []byte(text), Message: &m})
			}
		}
		return s
	}
	a, b := long(0), long(calls-1)
	if took := int64(heap() - before); took > calls*2*400 {
		t.Errorf("%d bytes are in memory for %d exchanges of %d bytes", took, 2*calls, size)
	}
	r := report(t, a, b)
	if r.Total != 2 || r.Differences[0].A.Opened != 0 || r.Differences[1].B.Frames[0] != 2*calls-1 {
		t.Errorf("%d differences: %+v", r.Total, r.Differences)
	}
}

// A message is unchanged when it is read back, however long its parts are. By then the file has
// no name, so a killed process leaves no file.
func TestSpill(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	s := spill{Tail: fd.Tail{Size: spillBuffer, Spill: true}}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	at := int64(none)
	var want []message
	for n := range 300 {
		m := message{seq: int64(n), dir: frame.U2C, phase: protocol.Part, kind: strings.Repeat("k", n%200), label: "l", id: strings.Repeat("i", 7*n), size: 31 * n * n, time: time.Unix(int64(n), int64(n))}
		at = s.put(&m, at, bytes.Repeat([]byte{byte(n)}, m.size))
		want = append(want, m)
	}
	for n := len(want) - 1; n >= 0; n-- {
		m, before, ok := s.get(at)
		payload := m.payload()
		if !ok || !bytes.Equal(payload, bytes.Repeat([]byte{byte(n)}, want[n].size)) {
			t.Fatalf("message %d: %v, a payload of %d bytes, %v", n, ok, len(payload), s.err)
		}
		if m.spill, m.at = nil, 0; m != want[n] {
			t.Fatalf("message %d is %+v, want %+v", n, m, want[n])
		}
		at = before
	}
	if names, err := os.ReadDir(os.TempDir()); runtime.GOOS != "windows" && (err != nil || len(names) > 0) {
		t.Errorf("the temporary folder has %v, %v", names, err)
	}
	if at != none {
		t.Errorf("the first has one before it at %d", at)
	}
}

// Payloads that are not messages are compared by their bytes.
func TestMalformed(t *testing.T) {
	if got, want := compare(t, "> nonsense", "> nothing"), "payload malformed"; got != want {
		t.Errorf("they differ in %q, want %q", got, want)
	}
}

// A report keeps a bounded number of differences, but counts all.
func TestReportIsBounded(t *testing.T) {
	list := func(n string) string {
		return `> {"jsonrpc":"2.0","method":"x","params":[` + strings.Repeat(n+",", 2*maxDifferences) + n + `]}`
	}
	r := report(t, read(t, list("1")), read(t, list("2")))
	if r.Total != 2*maxDifferences+1 || len(r.Differences) != maxDifferences {
		t.Errorf("%d differences, of which %d are kept", r.Total, len(r.Differences))
	}
	if !strings.HasSuffix(r.Summary(), "; the last 10001 ones not shown") {
		t.Errorf("the summary is %q", r.Summary())
	}
}

// Over HTTP, clients choose a connection for each request, and concurrent requests and their
// responses come in any order. The order of other requests counts.
func TestConnectionsOfHTTP(t *testing.T) {
	const sum, echo = `"method":"tools/call","params":{"name":"sum"}}`, `"method":"tools/call","params":{"name":"echo"}}`
	type sent struct {
		conn    int
		stream  int64
		payload string // of a request, or a number: the status of a response
	}
	read := func(list ...sent) *Session {
		s := NewSession(Options{})
		var scopes session.Scopes
		for i, one := range list {
			f := &frame.Frame{Conn: one.conn, Stream: one.stream, Dir: frame.C2U, Meta: &frame.Meta{Framing: frame.HTTP}}
			session := []frame.Field{{Name: "Mcp-Session-Id", Value: "s"}}
			var p protocol.Protocol = jsonrpc.MCP
			var m protocol.Message
			switch _, err := strconv.Atoi(one.payload); {
			case err == nil:
				f.Dir, f.Meta.Signal = frame.U2C, frame.Response
				f.Meta.Head = &frame.Head{Start: "HTTP/1.1 " + one.payload + " OK", Fields: session}
				p = carried.HTTP
				carried.Parse(f, &m)
			case strings.Contains(one.payload, "result") && one.stream == 1, strings.Contains(one.payload, "roots"):
				f.Dir = frame.U2C
				fallthrough
			default:
				if f.Dir == frame.C2U {
					f.Meta.Head = &frame.Head{Start: "POST /mcp HTTP/1.1", Fields: session}
				}
				if err := p.Parse([]byte(one.payload), &m); err != nil {
					t.Fatal(err)
				}
			}
			r := Record{Seq: int64(i + 1), Frame: f, Dir: f.Dir, Protocol: p, Message: &m, Payload: []byte(one.payload)}
			r.Conn, r.Stream = scopes.Of(f)
			s.Add(r)
		}
		return s
	}
	a := read(
		sent{1, 1, `{"jsonrpc":"2.0","id":1,` + sum}, sent{2, 1, `{"jsonrpc":"2.0","id":2,` + echo},
		sent{1, 1, "200"}, sent{1, 1, `{"jsonrpc":"2.0","id":0,"method":"roots/list"}`}, sent{3, 2, `{"jsonrpc":"2.0","id":0,"result":{"roots":[]}}`},
		sent{1, 1, `{"jsonrpc":"2.0","id":1,"result":{"n":1}}`}, sent{3, 2, "202"},
		sent{2, 1, "200"}, sent{2, 1, `{"jsonrpc":"2.0","id":2,"result":{"n":2}}`},
	)
	b := read(
		sent{1, 1, `{"jsonrpc":"2.0","id":2,` + echo}, sent{2, 1, `{"jsonrpc":"2.0","id":1,` + sum},
		sent{1, 1, "200"}, sent{1, 1, `{"jsonrpc":"2.0","id":2,"result":{"n":2}}`},
		sent{2, 1, "200"}, sent{2, 1, `{"jsonrpc":"2.0","id":0,"method":"roots/list"}`}, sent{1, 2, `{"jsonrpc":"2.0","id":0,"result":{"roots":[]}}`},
		sent{1, 2, "202"}, sent{2, 1, `{"jsonrpc":"2.0","id":1,"result":{"n":1}}`},
	)
	for _, d := range report(t, a, b).Differences {
		t.Errorf("%s %s %s: %+v, %+v", d.What, d.Kind, d.Path, d.A, d.B)
	}

	const one, two = `{"jsonrpc":"2.0","id":1,"result":{"n":1}}`, `{"jsonrpc":"2.0","id":2,"result":{"n":2}}`
	a = read(sent{1, 1, `{"jsonrpc":"2.0","id":1,` + sum}, sent{1, 1, one}, sent{2, 1, `{"jsonrpc":"2.0","id":2,` + echo}, sent{2, 1, two})
	b = read(sent{2, 1, `{"jsonrpc":"2.0","id":2,` + echo}, sent{2, 1, two}, sent{1, 1, `{"jsonrpc":"2.0","id":1,` + sum}, sent{1, 1, one})
	if r := report(t, a, b); r.OnlyA != 1 || r.OnlyB != 1 {
		t.Errorf("%d are only in A and %d in B, not 1 and 1", r.OnlyA, r.OnlyB)
	}
}
