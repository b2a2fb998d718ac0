package track_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/pcapng"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/convert"
	"github.com/wirectl/wirectl/decode/track"
	"github.com/wirectl/wirectl/fixtures"
	"github.com/wirectl/wirectl/session/calls"
)

// onlyFull are findings that need values which a record of metadata does not keep.
var onlyFull = map[string]string{
	"mcp26-http-errors":      "[9] header-mismatch", // between a header and the message
	"mcp26-tasks-stdio-made": "[7 24] wrong-retry",  // of the state that a server has given
}

// A record of metadata tells the same calls, cancels and findings as a full one, of every recorded
// session.
func TestMetadata(t *testing.T) {
	sessions := map[string]fs.FS{}
	for _, name := range fixtures.Sessions() {
		sessions[name] = fixtures.Session(name)
	}
	const more = "../../test/testdata/recordings"
	folders, err := os.ReadDir(more)
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		sessions[folder.Name()] = os.DirFS(more + "/" + folder.Name())
	}
	for _, name := range slices.Sorted(maps.Keys(sessions)) {
		t.Run(name, func(t *testing.T) {
			full := conclusions(t, record(t, sessions[name], capture.Redaction{}))
			x := capture.Secrets()
			x.Outline = true
			if n := slices.Index(full, onlyFull[name]); n >= 0 {
				full = slices.Delete(full, n, n+1)
			}
			if diff := cmp.Diff(full, conclusions(t, record(t, sessions[name], x))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// record returns a record of a session that x has redacted.
func record(t *testing.T, session fs.FS, x capture.Redaction) capture.Reader {
	t.Helper()
	from, err := decode.OpenRecording(session, decode.Config{Workers: 1, Resync: true})
	if err != nil {
		t.Fatal(err)
	}
	r := convert.Redact(from, x)
	var file bytes.Buffer
	w, err := pcapng.NewWriter(&file, *r.Session(), nil)
	for rec := new(capture.Record); err == nil; {
		if err = r.Next(rec); err == nil {
			err = w.Write(rec)
		}
	}
	if err != io.EOF {
		t.Fatal(err)
	}
	back, err := pcapng.NewReader(&file, 0)
	if err != nil {
		t.Fatal(err)
	}
	return back
}

// conclusions lists the calls, cancels and findings of a session, without texts.
func conclusions(t *testing.T, r capture.Reader) (lines []string) {
	t.Helper()
	cfg := decode.Config{Workers: 1, Resync: true}
	in := decode.Input{Capture: r}
	log := calls.Log{Unfold: true, Show: func(c *calls.Call) {
		lines = append(lines, fmt.Sprintf("%5d %s %s of %d %s after %d parts, %d and %d bytes, %v, %s stopped by %q, %v", c.Frame, c.Protocol, c.Kind, c.Operation,
			c.Outcome, c.Parts, c.BytesOut, c.BytesIn, c.Usage, c.Model, c.StopReason, c.Stopped))
	}}
	ts := track.Trackers{Watcher: &log}
	f := track.NewFollower(&ts, in, cfg)
	cfg.Event = f.Event
	view := func(dst []byte, it *decode.Item) ([]byte, error) {
		log.First = it.First
		return f.View(dst, it)
	}
	if _, err := decode.Run(context.Background(), in, io.Discard, cfg, func() decode.View { return view }); err != nil {
		t.Fatal(err)
	}
	f.End()
	log.Finish(f.Last)
	for _, tr := range ts.List {
		for c := range tr.Cancels() {
			lines = append(lines, fmt.Sprintf("%5d %s cancels %d: %s", c.Seq, c.Kind, c.TargetSeq, c.Class))
		}
		for f := range tr.Findings() {
			lines = append(lines, fmt.Sprintf("%v %s", f.Frames, f.Name))
		}
	}
	slices.Sort(lines)
	return lines
}

// A record of metadata of an earlier build, which masked more and did not say so, tells nothing
// wrong: it lacks only what was inferred from a reason.
func TestOldMetadata(t *testing.T) {
	file, err := os.Open("testdata/metadata-1.pcapng")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	old, err := pcapng.NewReader(file, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := conclusions(t, record(t, os.DirFS("../../test/testdata/recordings/mcp26-go-stdio"), capture.Redaction{}))
	want = slices.DeleteFunc(want, func(line string) bool { return strings.HasSuffix(line, "request-timeout") })
	for i := range want {
		want[i] = strings.Replace(want[i], "timed-out", "done", 1)
	}
	if diff := cmp.Diff(want, conclusions(t, old)); diff != "" {
		t.Error(diff)
	}
}
