package session_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wirectl/wirectl/fixtures"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/protocol/theory"
	"github.com/wirectl/wirectl/session"
)

// Recorded sessions have exactly the correct findings, and their cancels the classes that a
// reader would expect.
func TestRecordedSessions(t *testing.T) {
	for _, test := range []struct {
		name, framing, protocol string
		want                    string // findings as NAME @ FRAMES, and cancels as KIND class +PARTS
	}{
		{"mcp-everything", "line", "mcp", "notifications/cancelled @ 59: silent +10"},
		{"cdp-pipe", "nul", "cdp", ""},
		{"mcp-cancel", "line", "mcp", `
warning late-result @ 11 13 15
warning cancel-unknown @ 16
notifications/cancelled @ 7: silent +0
notifications/cancelled @ 9: crossed +0
notifications/cancelled @ 13: late-result +1
notifications/cancelled @ 16: unknown-target +0`},
		{"mcp-go-sdk", "line", "mcp", ""},
		{"acp-example", "line", "acp", "session/cancel @ 19: confirmed +0"},
		{"lsp-gopls", "header", "lsp", `
$/cancelRequest @ 21: confirmed +0
$/cancelRequest @ 22: confirmed +0
$/cancelRequest @ 23: confirmed +0`},
		{"lsp-small", "header", "lsp", "$/cancelRequest @ 8: confirmed +1"},
		{"dap-session", "header", "dap", "cancel @ 13: confirmed +0"},
		{"latis-cancel", "len32", "latis", "PROMPT_CANCEL @ 6: confirmed +0"},
		{"latis-session", "len32", "latis", `
warning cancel-unknown @ 23
PROMPT_CANCEL @ 18: crossed +0
PROMPT_CANCEL @ 23: unknown-target +0
PROMPT_CANCEL @ 30: confirmed +1`},
		{"latis-echo-varint", "varint", "latis", ""},
		{"latis-echo-grpc", "grpc", "latis", ""},
		{"nexus-calls", "line", "nexus", `
warning unsafe-id @ 11
warning unsafe-id @ 13
cancel @ 8: confirmed +0
cancel @ 13: crossed +0`},
		{"nexus-errors", "line", "nexus", `
error malformed @ 1
error bad-version @ 3
warning unknown-kind @ 5
error bad-id @ 7
warning unknown-kind @ 9
error bad-params @ 11`},
		{"rlm-single", "len32", "rlm", ""},
		{"rlm-batch", "len32", "rlm", ""},
		{"rlm-errors", "len32", "rlm", `
error unknown-field @ 1
error bad-id @ 3
error bad-params @ 5
error bad-params @ 7
error bad-params @ 9
error bad-params @ 11
error bad-params @ 13
error both-answers @ 15
error missing-field @ 17
warning unknown-kind @ 19
error malformed @ 21`},
		{"rlm-oversize", "len32", "rlm", "error oversize @ 3"},
		{"repl-run", "len32", "repl", `
cancel @ 11: confirmed +0
cancel @ 12: crossed +0`},
		{"theory-run", "line", "theory", ""},
		{"theory-error", "line", "theory", ""},
		{"theory-dialects", "line", "theory", `
error cancel-silent @ 12 19
control @ 19: silent +1`},
		{"theory-oldest", "line", "theory", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			tr := track(t, test.name, test.framing, test.protocol)
			if diff := cmp.Diff(strings.TrimSpace(test.want), summary(tr)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// In every dialect of theory a correct run has no findings, and a run without an answer has
// one.
func TestTheoryDialects(t *testing.T) {
	for name, lines := range map[string][]string{
		"A": {
			`>{"kind":"RunOpen","content":{"role":"client","execution_id":"r","payload":{}}}`, `<{"kind":"Ack","content":{"execution_id":"r"}}`,
			`<{"kind":"Event","content":{"phase":"started"}}`, `<{"kind":"RunResult","content":{"execution_id":"r","status":"success","outputs":{}}}`,
		},
		"B": {
			`>{"kind":"RunOpen","content":{"run_id":"r","mode":"mock","inputs":{},"outputs":{}}}`, `<{"kind":"Ack","content":{"run_id":"r"}}`,
			`<{"kind":"Event","content":{"phase":"started"}}`, `<{"kind":"RunResult","content":{"run_id":"r","status":"success","outputs":{}}}`,
		},
		"C": {
			`>{"kind":"Request","control":{"run_id":7}}`, `<{"kind":"Ack","content":{"run_id":7}}`,
			`<{"kind":"Event","content":{"phase":"started"}}`, `<{"kind":"Response","control":{"run_id":7,"status":"success"},"outputs":{}}`,
		},
		"D": {
			`>{"kind":"Request","control":{"run_id":"r"}}`, `<{"kind":"Ack","control":{"run_id":"r"}}`,
			`<{"kind":"Event","control":{"run_id":"r"},"data":{"phase":"started"}}`, `<{"kind":"Response","control":{"run_id":"r","status":"success"},"outputs":{}}`,
		},
	} {
		for _, tt := range []struct {
			lines []string
			want  string
		}{{lines, ""}, {lines[:3], "error no-final @ 1"}, {slices.Delete(slices.Clone(lines), 1, 2), "error missing-ack @ 1 2"}} {
			tr := session.New(theory.Protocol, session.Options{})
			for i, line := range tt.lines {
				var m protocol.Message
				payload, dir := []byte(line[1:]), frame.C2U
				if line[0] == '<' {
					dir = frame.U2C
				}
				if err := theory.Protocol.Parse(payload, &m); err != nil {
					t.Fatal(err)
				}
				tr.Feed(session.Frame{Seq: int64(i + 1), Conn: 1, Dir: dir, Size: len(payload), Payload: payload}, &m)
			}
			tr.End(1, time.Time{})
			if got := summary(tr); got != tt.want {
				t.Errorf("dialect %s, %d messages: found %q, want %q", name, len(tt.lines), got, tt.want)
			}
		}
	}
}

// Each operation has the usage that its agent reports. Totals count by their increase, and
// usage reported twice counts once.
func TestUsage(t *testing.T) {
	for _, test := range []struct{ name, protocol, want string }{
		{"claude-sdk", "claude", "15728 0 60 $48084; 48077 0 87 $145536; 33405 0 33 $33570"},
		{"claude-interrupt", "claude", "15703 0 75 $48234; 15857 0 29 $48006; 32290 0 67 $97875; 16430 0 10 $49440"},
		{"claude-mcp-cancel", "claude", "5927 0 11 $17946; 6207 0 5 $18696; 12706 0 53 $38913"},
		{"claude-raw", "claude", "22841 0 5 $22866; 69159 0 87 $69594"},
		{"codex-app-server", "codex", "9839 0 42 $0; 30457 0 126 $0; 20972 0 84 $0"},
		{"codex-interrupt", "codex", "9967 0 42 $0; 10317 0 42 $0"},
		{"codex-app-server-acp", "codex", "10762 0 42 $0; 33243 0 126 $0; 11145 0 42 $0; 23082 0 84 $0"},
		{"codex-exec-json", "codex-exec", "19896 0 84 $0"},
		{"acp-v1-claude", "acp", "11434 0 60 $51068; 34983 0 87 $141672; 23752 0 39 $95788; 12146 0 29 $49164"},
		{"acp-v2-claude", "acp", "11434 0 60 $51068; 34983 0 87 $141672; 23752 0 39 $95788; 12146 0 29 $49164"},
		{"acp-v1-codex", "acp", "10762 0 42 $0; 33250 0 126 $0; 23090 0 84 $0"},
		{"acp-v2-codex", "acp", "10762 0 42 $0; 33250 0 126 $0; 23090 0 84 $0"},
	} {
		var used []string
		for _, e := range slices.SortedFunc(track(t, test.name, "line", test.protocol).Exchanges(), func(a, b *session.Exchange) int { return int(a.First - b.First) }) {
			if e.Usage != (protocol.Usage{}) {
				used = append(used, fmt.Sprintf("%d %d %d $%d", e.Usage.Input, e.Usage.Cached, e.Usage.Output, e.Usage.Cost))
			}
		}
		if got := strings.Join(used, "; "); got != test.want {
			t.Errorf("%s:\n got  %q\n want %q", test.name, got, test.want)
		}
	}
}

// summary lists the findings and the results of cancels, one per line.
func summary(tr *session.Tracker) string {
	var lines []string
	for f := range tr.Findings() {
		lines = append(lines, fmt.Sprintf("%s %s @ %s", f.Severity, f.Name, strings.Trim(fmt.Sprint(f.Frames), "[]")))
	}
	for c := range tr.Cancels() {
		lines = append(lines, fmt.Sprintf("%s @ %d: %s +%d", c.Kind, c.Seq, c.Class, c.Parts))
	}
	return strings.Join(lines, "\n")
}

// track feeds a recorded session, both directions in the order of reading.
func track(t testing.TB, name, framing, protocolName string) *session.Tracker {
	t.Helper()
	p, err := all.Named(protocolName)
	if err != nil {
		t.Fatal(err)
	}
	tr := session.New(p, session.Options{})
	for i, f := range recorded(t, name, framing, p) {
		f.Seq = int64(i + 1)
		var m protocol.Message
		var parsed *protocol.Message
		if !f.Gap {
			if err := p.Parse(f.Payload, &m); err != nil {
				f.Fault = err
			} else {
				parsed = &m
			}
		}
		tr.Feed(f, parsed)
	}
	tr.End(0, time.Unix(1<<40, 0))
	return tr
}

// recorded returns the frames of a recorded session.
func recorded(t testing.TB, name, framing string, p protocol.Protocol) []session.Frame {
	t.Helper()
	frames := append(direction(t, name, framing, p, "c2s", frame.C2U), direction(t, name, framing, p, "s2c", frame.U2C)...)
	slices.SortStableFunc(frames, func(a, b session.Frame) int { return a.Time.Compare(b.Time) })
	return frames
}

func direction(t testing.TB, name, framing string, p protocol.Protocol, stream string, dir frame.Dir) (frames []session.Frame) {
	t.Helper()
	data := read(t, name+"/"+stream+".bin")
	f, err := frame.Named(framing)
	if err != nil {
		t.Fatal(err)
	}
	limit := all.Limit(p)
	for offset := 0; offset < len(data); {
		var e frame.Extent
		err := f.Next(data[offset:], limit, true, &e)
		fr := session.Frame{Dir: dir, Fault: err, Gap: err != nil || e.Gap}
		if err != nil {
			e.Raw = len(data) - offset
		} else {
			fr.Fault = e.Flaw
			fr.Payload = data[offset+e.Start : offset+e.End]
		}
		offset += e.Raw
		fr.Size = len(fr.Payload)
		fr.Time = readAt(t, name, stream, offset)
		frames = append(frames, fr)
	}
	return frames
}

// read returns a file of a recorded session.
func read(t testing.TB, name string) []byte {
	t.Helper()
	data, err := fixtures.Read(name)
	if err != nil {
		data, err = os.ReadFile("../test/testdata/recordings/" + name)
	}
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// readAt returns when the byte before offset was read.
func readAt(t testing.TB, name, stream string, offset int) time.Time {
	t.Helper()
	for line := range bytes.Lines(read(t, name+"/timing.jsonl")) {
		var read struct {
			Dir      string
			Off, Len int
			Time     int64 `json:"t_ns"`
		}
		if err := json.Unmarshal(line, &read); err != nil {
			t.Fatal(err)
		}
		if read.Dir == stream && read.Off+read.Len >= offset {
			return time.Unix(0, read.Time)
		}
	}
	t.Fatalf("%s: nothing was read at %d", stream, offset)
	return time.Time{}
}
