package diff

import (
	"strings"
	"testing"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
)

// read makes a session of MCP messages, a line each, that the sides send in
// the direction in front of them.
func read(t *testing.T, lines string) *Session {
	t.Helper()
	s := NewSession(Options{})
	for i, line := range strings.Split(strings.TrimSpace(lines), "\n") {
		arrow, payload, _ := strings.Cut(strings.TrimSpace(line), " ")
		r := Record{Seq: int64(i + 1), Dir: frame.C2U, Payload: []byte(payload)}
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

// compare writes all differences of two sessions.
func compare(t *testing.T, a, b string) string {
	t.Helper()
	var text []string
	for _, d := range Compare(read(t, a), read(t, b)).Differences {
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

// Each side has ids of its own, and what the sides say at the same time may
// cross.
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

// An id that is used again has another name the second time.
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

// A number that is no id is compared, though some id has the same digits.
func TestNumbersAreNotIDs(t *testing.T) {
	a := `> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"n":1}}}`
	b := `> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"a","arguments":{"n":2}}}`
	if got, want := compare(t, a, b), "payload tools/call params.arguments.n"; got != want {
		t.Errorf("they differ in %q, want %q", got, want)
	}
}

// Payloads for which there is no room are compared by their digests.
func TestPayloadsNotKept(t *testing.T) {
	small := func(lines string) *Session {
		s := NewSession(Options{})
		s.room = 0
		for i, line := range strings.Split(lines, "\n") {
			s.Add(Record{Seq: int64(i + 1), Dir: frame.C2U, Payload: []byte(line)})
		}
		return s
	}
	if r := Compare(small(`{"a":1}`), small(`{ "a":1}`)); !r.Alike() {
		t.Errorf("equal payloads differ: %+v", r.Differences)
	}
	r := Compare(small(`{"a":1}`), small(`{"a":20}`))
	if r.Total != 1 || r.Differences[0].A.Value != "7 bytes" || r.Differences[0].B.Value != "8 bytes" {
		t.Errorf("other payloads differ in %+v", r.Differences)
	}
}

// What is no message is compared by its bytes.
func TestMalformed(t *testing.T) {
	if got, want := compare(t, "> nonsense", "> nothing"), "payload malformed"; got != want {
		t.Errorf("they differ in %q, want %q", got, want)
	}
}

// A report keeps a bounded number of differences, and counts all.
func TestReportIsBounded(t *testing.T) {
	list := func(n string) string {
		return `> {"jsonrpc":"2.0","method":"x","params":[` + strings.Repeat(n+",", 2*maxDifferences) + n + `]}`
	}
	r := Compare(read(t, list("1")), read(t, list("2")))
	if r.Total != 2*maxDifferences+1 || len(r.Differences) != maxDifferences {
		t.Errorf("%d differences, of which %d are kept", r.Total, len(r.Differences))
	}
	if !strings.HasSuffix(r.Summary(), "; the last 10001 ones not shown") {
		t.Errorf("the summary is %q", r.Summary())
	}
}
