package test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/convert"
	"github.com/wirectl/wirectl/decode/track"
	"github.com/wirectl/wirectl/fixtures"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/lint"
)

// The golden file of each recorded session lists what wirectl concludes from it: the
// operations with their exchanges, the outcomes of cancels, and the findings.
func TestRecordings(t *testing.T) {
	for name, fsys := range recordings(t) {
		t.Run(name, func(t *testing.T) {
			got := understood(t, fsys)
			golden := filepath.Join("testdata", "recordings.golden", name+".txt")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(string(want), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Each retry in the MCP recordings over stdio has exactly one operation that it can
// continue. The exception is one of two equal calls that were answered with equal states.
func TestRetriesAreLinked(t *testing.T) {
	retries, guessed := 0, 0
	for _, name := range []string{"mcp26-ts-stdio", "mcp26-ts-mrtr-stdio", "mcp26-go-stdio", "mcp26-tasks-stdio-made"} {
		for _, tr := range follow(t, recordings(t)[name]) {
			kinds := map[int64]string{}
			for e := range tr.Exchanges() {
				kinds[e.First] = e.Kind
			}
			for e := range tr.Exchanges() {
				if e.Of == 0 || kinds[e.Of] != e.Kind {
					continue
				}
				if retries++; e.Guessed {
					guessed++
				}
			}
		}
	}
	if retries != 16 || guessed != 1 {
		t.Errorf("%d retries, of which %d are guessed; want 16 and 1", retries, guessed)
	}
}

// recordings returns all recorded sessions by name.
func recordings(t *testing.T) map[string]fs.FS {
	t.Helper()
	all := map[string]fs.FS{}
	for _, name := range fixtures.Sessions() {
		all[name] = fixtures.Session(name)
	}
	folders, err := os.ReadDir("testdata/recordings")
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		all[folder.Name()] = os.DirFS(filepath.Join("testdata", "recordings", folder.Name()))
	}
	return all
}

// No ordinary server has a finding about safety above a note.
func TestRecordingsAreSafe(t *testing.T) {
	for name, fsys := range recordings(t) {
		var safety lint.Safety
		cfg := decode.Config{Workers: 1, Resync: true}
		view := decode.View(func(dst []byte, it *decode.Item) ([]byte, error) {
			safety.AddFrame(it.Seq, all.Of(it.Protocol), it.Frame, &it.Message, it.Payload, "wire")
			return dst, nil
		})
		if _, err := decode.Run(t.Context(), decode.Input{Capture: recording(t, fsys)}, io.Discard, cfg, func() decode.View { return view }); err != nil {
			t.Error(err)
		}
		var found lint.Session
		found.AddSafety(&safety)
		for _, f := range found.Findings {
			if f.Severity > session.Note && name != "mcp-poison" {
				t.Errorf("%s: %s: %s", name, f.Name, f.Message)
			}
		}
		if name == "mcp-poison" && len(found.Findings) == 0 {
			t.Errorf("nothing is found in %s", name)
		}
	}
}

// A session that was made fit to be shared is understood as the original; sizes may differ.
func TestSharedRecordings(t *testing.T) {
	if testing.Short() {
		t.Skip("one thing after another: the race detector has nothing to find")
	}
	sizes := regexp.MustCompile(`, given [^\n]*?(, \d+ parts)?\n`)
	for name, fsys := range recordings(t) {
		var x capture.Redaction
		share := convert.Share(known(t, fsys), &x)
		got := describe(followed(t, convert.Redact(known(t, fsys), x)))
		want := describe(follow(t, fsys))
		if diff := gocmp.Diff(sizes.ReplaceAllString(want, "$1\n"), sizes.ReplaceAllString(got, "$1\n")); diff != "" {
			t.Errorf("%s: %s: %s", name, share.Summary(), diff)
		}
	}
}

func recording(t *testing.T, fsys fs.FS) capture.Reader {
	t.Helper()
	r, err := decode.OpenRecording(fsys, decode.Config{Workers: 1, Resync: true})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// known returns a recording with the protocol of each frame.
func known(t *testing.T, fsys fs.FS) capture.Reader {
	t.Helper()
	cfg := decode.Config{Workers: 1, Resync: true}
	r, done, err := convert.Open(t.Context(), "recording", decode.Input{Capture: recording(t, fsys)}, cfg, frame.DirUnknown, func(_ frame.Framing, err error) error { return err })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(done)
	return r
}

// follow returns the trackers of a recorded session.
func follow(t *testing.T, fsys fs.FS) []track.Tracker {
	t.Helper()
	return followed(t, recording(t, fsys))
}

func followed(t *testing.T, r capture.Reader) []track.Tracker {
	t.Helper()
	cfg := decode.Config{Workers: 1, Resync: true}
	in := decode.Input{Capture: r}
	ts := track.Trackers{Forms: true}
	f := track.NewFollower(&ts, in, cfg)
	cfg.Event = f.Event
	if _, err := decode.Run(context.Background(), in, io.Discard, cfg, func() decode.View { return f.View }); err != nil {
		t.Log(err)
	}
	f.End()
	return ts.List
}

// understood describes what the trackers of a session have found.
func understood(t *testing.T, fsys fs.FS) string {
	t.Helper()
	return describe(follow(t, fsys))
}

func describe(list []track.Tracker) string {
	var b strings.Builder
	for _, tr := range list {
		fmt.Fprintf(&b, "%s\n\n", strings.Join(append([]string{tr.Protocol.Name()}, tr.Versions()...), " "))
		exchanges := slices.SortedFunc(tr.Exchanges(), func(a, b *session.Exchange) int {
			return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Conn, b.Conn))
		})
		parts := map[int64][]*session.Exchange{}
		for _, e := range exchanges {
			parts[e.Of] = append(parts[e.Of], e)
		}
		for _, e := range parts[0] {
			fmt.Fprintf(&b, "%4d %s\n", e.First, said(e))
			for _, part := range parts[e.First] {
				fmt.Fprintf(&b, "%4d   %s\n", part.First, said(part))
			}
		}
		var rest []string
		for c := range tr.Cancels() {
			rest = append(rest, fmt.Sprintf("%4d %s of %s at %d: %v, %d parts after", c.Seq, c.Kind, c.TargetKind, c.TargetSeq, c.Class, c.Parts))
		}
		for f := range tr.Findings() {
			rest = append(rest, fmt.Sprintf("%4d %v %s %v", f.Frames[len(f.Frames)-1], f.Severity, f.Name, f.Frames))
		}
		if len(rest) > 0 {
			fmt.Fprintf(&b, "\n%s\n", strings.Join(rest, "\n"))
		}
		fmt.Fprintln(&b)
	}
	return b.String()
}

// said describes an exchange on one line.
func said(e *session.Exchange) string {
	line := e.Title() + ": " + e.Outcome.String()
	if e.Guessed {
		line = "? " + line
	}
	if e.Version != "" {
		line += ", version " + e.Version
	}
	if e.Model != "" {
		line += fmt.Sprintf(", %s: %d tokens in (%d cached), %d out, stopped by %q", e.Model, e.Usage.Input, e.Usage.Cached, e.Usage.Output, e.StopReason)
	}
	if len(e.ToolCalls) > 0 {
		line += fmt.Sprintf(", calls %q", e.ToolCalls)
	}
	if p := e.Context; p != nil {
		line += ", given " + strings.Join(p.Lines(0), "; ")
	}
	if e.Parts > 0 {
		line += fmt.Sprintf(", %d parts", e.Parts)
	}
	return line
}
