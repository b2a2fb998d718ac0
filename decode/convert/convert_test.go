package convert_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/pcapng"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/convert"
	"github.com/wirectl/wirectl/fixtures"
	"github.com/wirectl/wirectl/frame"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A script is a capture of these records, ending with err or io.EOF.
type script struct {
	session capture.Session
	records []capture.Record
	err     error
}

func (s *script) Session() *capture.Session { return &s.session }

func (s *script) Next(rec *capture.Record) error {
	if len(s.records) == 0 {
		return cmp.Or(s.err, io.EOF)
	}
	*rec, s.records = s.records[0], s.records[1:]
	return nil
}

// line is the record of a payload that is a line.
func line(conn int, dir frame.Dir, payload string) capture.Record {
	return capture.Record{
		Framing: "line",
		Frame:   frame.Frame{Raw: []byte(payload + "\n"), End: len(payload), Conn: conn, Dir: dir},
	}
}

// all reads all records of r.
func readAll(t *testing.T, r capture.Reader) []capture.Record {
	t.Helper()
	var records []capture.Record
	for {
		var rec capture.Record
		err := r.Next(&rec)
		if err == io.EOF {
			return records
		}
		check(t, err)
		records = append(records, rec.Clone())
	}
}

func TestFormatOf(t *testing.T) {
	for _, c := range []struct {
		name string
		want convert.Format
		zstd bool
	}{
		{"a.pcapng", convert.Pcapng, false},
		{"a.PCAPNG.zst", convert.Pcapng, true},
		{"a.ndjson", convert.NDJSON, false},
		{"a.jsonl", convert.NDJSON, false},
		{"a.trace.json", convert.Trace, false},
		{"a.har", convert.HAR, false},
		{"a/", convert.Raw, false},
		{"a", "", false},
		{"a.pcap", "", false},
		{"-", "", false},
	} {
		if got, zstd := convert.FormatOf(c.name); got != c.want || zstd != c.zstd {
			t.Errorf("%s: %q, %t", c.name, got, zstd)
		}
	}
}

// Every recorded session comes back from a capture with the bytes it had.
func TestRoundTrip(t *testing.T) {
	for _, file := range fixtures.Files() {
		name, stream := path.Split(file)
		if stream != "c2s.bin" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			folder := fixtures.Session(path.Clean(name))
			recorded, err := decode.OpenRecording(folder, decode.Config{})
			check(t, err)
			defer recorded.Close()
			r, err := convert.Resolve(recorded, nil, frame.DirUnknown)
			check(t, err)
			var b bytes.Buffer
			check(t, convert.WriteZstd(&b, r, nil))

			captured, err := pcapng.NewReader(&b, 0)
			check(t, err)
			dir := filepath.Join(t.TempDir(), "raw")
			check(t, convert.WriteRaw(dir, captured))
			for _, stream := range []string{"c2s.bin", "s2c.bin"} {
				want, err := fs.ReadFile(folder, stream)
				if !errors.Is(err, fs.ErrNotExist) {
					check(t, err)
				}
				got, err := os.ReadFile(filepath.Join(dir, stream))
				check(t, err)
				if !bytes.Equal(got, want) {
					t.Errorf("%s has %d bytes that are not the %d it had", stream, len(got), len(want))
				}
			}
		})
	}
}

// A conversion ends with its context, however long the capture is.
func TestUntil(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	r := convert.Until(ctx, &script{records: []capture.Record{line(1, frame.C2U, "1"), line(1, frame.C2U, "2")}})
	var rec capture.Record
	check(t, r.Next(&rec))
	cause := errors.New("no more")
	cancel(cause)
	if err := r.Next(&rec); !errors.Is(err, cause) {
		t.Errorf("the error is %v", err)
	}
}

// What a function hands out is read record by record.
func TestPull(t *testing.T) {
	cut := errors.New("cut")
	three := func(yield func(*capture.Record) bool) error {
		var rec capture.Record
		for _, payload := range []string{"a", "b", "c"} {
			if rec = line(1, frame.C2U, payload); !yield(&rec) {
				return errors.New("stopped")
			}
		}
		return cut
	}
	p, err := convert.Pull(three)
	check(t, err)
	if s := p.Session(); s.Framing != "line" {
		t.Errorf("the session is %+v", s)
	}
	var rec capture.Record
	var got []string
	for err = p.Next(&rec); err == nil; err = p.Next(&rec) {
		got = append(got, string(rec.Payload()))
	}
	if !slices.Equal(got, []string{"a", "b", "c"}) || !errors.Is(err, cut) {
		t.Errorf("%q and then %v", got, err)
	}
	if err := p.Next(&rec); !errors.Is(err, cut) {
		t.Errorf("a second time the error is %v", err)
	}
	p.Close()

	p, err = convert.Pull(three)
	check(t, err)
	check(t, p.Next(&rec))
	p.Close()

	if _, err := convert.Pull(func(func(*capture.Record) bool) error { return cut }); !errors.Is(err, cut) {
		t.Errorf("an error ahead of everything is returned as %v", err)
	}
	p, err = convert.Pull(func(func(*capture.Record) bool) error { return nil })
	check(t, err)
	if err := p.Next(&rec); err != io.EOF {
		t.Errorf("an empty session ends with %v", err)
	}
}

// A file is not touched before there is something to write to it.
func TestWriteFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "out")
	check(t, os.WriteFile(name, []byte("before"), 0o666))
	failed := errors.New("failed")
	if err := convert.WriteFile(name, func(io.Writer) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("the error is %v", err)
	}
	if got, _ := os.ReadFile(name); string(got) != "before" {
		t.Errorf("the file has become %q", got)
	}
	err := convert.WriteFile(filepath.Join(name, "in no folder"), func(w io.Writer) error {
		_, err := w.Write(make([]byte, 1<<20))
		return err
	})
	if err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("the error is %q, and not one sentence", err)
	}
	check(t, convert.WriteFile(name, func(io.Writer) error { return nil }))
	if got, _ := os.ReadFile(name); len(got) > 0 {
		t.Errorf("nothing was written, and the file is %q", got)
	}
	// What is cut is kept, for the user alone; what was cancelled is not.
	for _, why := range []error{capture.ErrCut, context.Canceled} {
		check(t, os.Chmod(name, 0o644))
		err := convert.WriteFile(name, func(w io.Writer) error {
			_, err := w.Write([]byte(why.Error()))
			return errors.Join(err, why)
		})
		if got, _ := os.ReadFile(name); !errors.Is(err, why) || string(got) != capture.ErrCut.Error() {
			t.Errorf("%v: the file is %q, %v", why, got, err)
		}
		info, err := os.Stat(name)
		check(t, err)
		if others := info.Mode().Perm() & 0o077; runtime.GOOS != "windows" && why == capture.ErrCut && others != 0 {
			t.Errorf("others have the rights %v", others)
		}
	}
}

// A recording has no place for what has no direction.
func TestRawNeedsDirection(t *testing.T) {
	dir := t.TempDir()
	err := convert.WriteRaw(dir, &script{records: []capture.Record{line(1, frame.DirUnknown, "x")}})
	if !errors.Is(err, convert.ErrNoDir) {
		t.Errorf("the error is %v", err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) > 0 {
		t.Errorf("the folder is no longer empty: %v", entries)
	}
}

// A capture that is cut is written up to the cut.
func TestCut(t *testing.T) {
	begin := time.Unix(1, 0)
	rec := line(1, frame.C2U, "x")
	rec.Time = begin
	var b bytes.Buffer
	err := convert.WriteZstd(&b, &script{records: []capture.Record{rec}, err: &capture.Error{Err: capture.ErrCut}}, nil)
	if !errors.Is(err, capture.ErrCut) {
		t.Errorf("the error is %v", err)
	}
	r, err := pcapng.NewReader(&b, 0)
	check(t, err)
	if got := readAll(t, r); len(got) != 1 || !got[0].Time.Equal(begin) {
		t.Errorf("%+v", got)
	}
}
