package recording_test

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/recording"
	"github.com/wirectl/wirectl/fixtures"
	"github.com/wirectl/wirectl/frame"
)

// read returns copies of all records of a folder, and its session.
func read(t *testing.T, fsys fs.FS, framing frame.Framing) ([]capture.Record, capture.Session) {
	t.Helper()
	r, err := recording.Open(fsys, framing, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var all []capture.Record
	var rec capture.Record
	for {
		switch err := r.Next(&rec); err {
		case nil:
			all = append(all, rec.Clone())
		case io.EOF:
			return all, *r.Session()
		default:
			t.Fatal(err)
		}
	}
}

// show formats a record as a line: time, place and content.
func show(r *capture.Record, since time.Time) string {
	text := string(r.Text)
	if r.Kind == capture.Frame {
		text = string(r.Raw)
	}
	return fmt.Sprintf("%d %d %s %s %q", r.Time.Sub(since), r.Conn, r.Dir, r.Kind, text)
}

// A frame has the time of the read that completed it. Both directions, standard error and the
// connections are merged in order of time.
func TestOrder(t *testing.T) {
	fsys := fstest.MapFS{
		"c2s.bin":    {Data: []byte("one\ntwo\n\n")},
		"s2c.bin":    {Data: []byte("eins\nzwei\ndrei\ncut")},
		"stderr.bin": {Data: []byte("oops")},
		"timing.jsonl": {Data: []byte(strings.Join([]string{
			`{"event":"start","argv":["unit","-v"],"t_ns":100,"unix_ns":1000000100}`,
			`{"dir":"c2s","off":0,"len":6,"t_ns":200}`,
			`{"dir":"s2c","off":0,"len":14,"t_ns":300}`,
			`{"dir":"err","off":0,"len":4,"t_ns":400}`,
			`{"dir":"c2s","off":6,"len":3,"t_ns":500}`,
			`{"dir":"c2s","event":"eof","off":9,"t_ns":600}`,
			`{"dir":"s2c","off":14,"len":4,"t_ns":700}`,
			`{"event":"paused","t_ns":800}`,
			`{"event":"exit","code":-1,"signal":15,"state":"signal: SIGTERM","t_ns":900}`,
		}, "\n"))},
		"conn-2/c2s.bin":      {Data: []byte("zwo\n")},
		"conn-2/timing.jsonl": {Data: []byte(`{"event":"start","dial":"h:1","t_ns":0,"unix_ns":1000000250}` + "\n" + `{"dir":"c2s","off":0,"len":4,"t_ns":200}` + "\n")},
	}
	want := []string{
		`100 1  opened "unit -v"`,
		`200 1 c2u frame "one\n"`,
		`250 2  opened "h:1"`,
		`300 1 u2c frame "eins\n"`,
		`300 1 u2c frame "zwei\n"`,
		`400 1  stderr "oops"`,
		`450 2 c2u frame "zwo\n"`,
		`500 1 c2u frame "two\n"`,
		`500 1 c2u frame "\n"`,
		`600 1 c2u half-closed ""`,
		`700 1 u2c frame "drei\n"`,
		`700 1 u2c frame "cut"`,
		`800 1  note "{\"event\":\"paused\",\"t_ns\":800}"`,
		`900 1  signalled "SIGTERM"`,
	}
	records, session := read(t, fsys, frame.Line)
	if session.Unit != "unit -v" || !session.Created.Equal(time.Unix(1, 0)) || session.Framing != "line" {
		t.Errorf("session %+v", session)
	}
	var got []string
	for i := range records {
		got = append(got, show(&records[i], time.Unix(1, 0)))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// sameText compares flaws by their messages.
var sameText = cmp.Comparer(func(a, b error) bool { return fmt.Sprint(a) == fmt.Sprint(b) })

// framings lists the framings of the fixtures whose files are plain streams.
var framings = map[string]frame.Framing{
	"mcp-everything": frame.Line, "mcp-go-sdk": frame.Line, "acp-example": frame.Line,
	"lsp-gopls": frame.Header, "dap-session": frame.Header,
	"latis-session": frame.Len32, "rlm-oversize": frame.Len32,
}

// joined returns the expected content of a recording's file, from its records.
func joined(records []capture.Record, dir frame.Dir) []byte {
	var b []byte
	for _, r := range records {
		if r.Dir == dir && r.Kind == capture.Frame {
			b = append(b, r.Raw...)
		}
	}
	return b
}

// Every byte of a real session is read, in order of time. Writing the session again creates
// the same files, and reading those gives the same records.
func TestFixtures(t *testing.T) {
	for name, framing := range framings {
		t.Run(name, func(t *testing.T) {
			fsys := fixtures.Session(name)
			want, _ := read(t, fsys, framing)
			dir := filepath.Join(t.TempDir(), "again")
			rewrite(t, dir, want)
			for d, file := range map[frame.Dir]string{frame.C2U: "c2s.bin", frame.U2C: "s2c.bin"} {
				data, err := fs.ReadFile(fsys, file)
				again, _ := os.ReadFile(filepath.Join(dir, file))
				if err != nil || !bytes.Equal(joined(want, d), data) || !bytes.Equal(again, data) {
					t.Errorf("%s is not what was recorded: %v", file, err)
				}
			}
			for i := range want[1:] {
				if want[i+1].Time.Before(want[i].Time) {
					t.Errorf("record %d is from before record %d", i+1, i)
				}
			}
			got, _ := read(t, os.DirFS(dir), framing)
			if diff := cmp.Diff(want, got, cmp.Comparer(bytes.Equal), sameText); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func rewrite(t *testing.T, dir string, records []capture.Record) {
	t.Helper()
	w, err := recording.Create(dir, capture.Session{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range records {
		if err := w.Write(&records[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// A recording may have more connections than the limit on open files.
func TestManyConnections(t *testing.T) {
	const conns = 150
	var want []capture.Record
	for round := range 2 {
		for n := range conns {
			at := time.Unix(1, int64(round*conns+n)).UTC()
			want = append(want, capture.Record{
				Kind: capture.Stderr, Time: at, Framing: "line",
				Frame: frame.Frame{Conn: n + 1}, Text: fmt.Appendf(nil, "%d", at.Nanosecond()),
			})
		}
	}
	dir := t.TempDir()
	rewrite(t, dir, want)
	var got []capture.Record
	all, _ := read(t, os.DirFS(dir), frame.Line)
	for _, r := range all {
		if r.Kind != capture.Opened {
			got = append(got, r)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The streams are read even without a timing file.
func TestNoTiming(t *testing.T) {
	records, session := read(t, fstest.MapFS{"s2c.bin": {Data: []byte("a\nb\n")}, "c2s.bin": {Data: []byte("c\n")}}, frame.Line)
	if len(records) != 3 || string(joined(records, frame.U2C)) != "a\nb\n" || !records[0].Time.IsZero() || records[0].Dir != frame.C2U {
		t.Errorf("%+v", records)
	}
	if !session.Created.IsZero() {
		t.Errorf("session %+v", session)
	}
}

func TestRefusals(t *testing.T) {
	stream := &fstest.MapFile{Data: []byte("a\n")}
	for text, want := range map[string]string{
		`{"dir":"up","off":0,"len":1}`:  `timing.jsonl: line 1: invalid direction "up"`,
		`{"dir":`:                       `timing.jsonl: line 1: unexpected end of JSON input`,
		"\n" + `{"dir":"c2s","off":-1}`: `timing.jsonl: line 1: a read of 0 bytes at byte -1`,
	} {
		_, err := recording.Open(fstest.MapFS{"c2s.bin": stream, "timing.jsonl": {Data: []byte(text)}}, frame.Line, nil)
		if err == nil || err.Error() != want {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := recording.Open(fstest.MapFS{"a.bin": stream}, frame.Line, nil); err == nil {
		t.Error("a folder without streams was opened")
	}
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := recording.Create(full, capture.Session{}); err == nil {
		t.Error("a folder that is not empty was taken")
	}
}
