package capture_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/pcapng"
	"github.com/wirectl/wirectl/capture/recording"
	"github.com/wirectl/wirectl/fixtures"
	"github.com/wirectl/wirectl/frame"
)

// open opens the recording of a fixture.
func open(t *testing.T, name string, framing frame.Framing) *recording.Reader {
	t.Helper()
	r, err := recording.Open(fixtures.Session(name), framing, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// packed returns a fixture as pcapng.
func packed(t *testing.T, name string, framing frame.Framing) []byte {
	t.Helper()
	r := open(t, name, framing)
	var b bytes.Buffer
	w, err := pcapng.NewWriter(&b, *r.Session(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := capture.Copy(w, r); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A recorded session survives a round trip through pcapng, byte for byte.
func TestCopyThereAndBack(t *testing.T) {
	for name, framing := range map[string]frame.Framing{
		"mcp-everything": frame.Line, "lsp-gopls": frame.Header, "latis-session": frame.Len32, "rlm-oversize": frame.Len32,
	} {
		t.Run(name, func(t *testing.T) {
			r, err := pcapng.NewReader(bytes.NewReader(packed(t, name, framing)), 0)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			w, err := recording.Create(dir, capture.Session{})
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(capture.Copy(w, r), w.Close()); err != nil {
				t.Fatal(err)
			}
			for _, file := range []string{"c2s.bin", "s2c.bin"} {
				want, err := fixtures.Read(name + "/" + file)
				if err != nil {
					t.Fatal(err)
				}
				if got, err := os.ReadFile(filepath.Join(dir, file)); err != nil || !bytes.Equal(got, want) {
					t.Errorf("%s is not what was recorded: %v", file, err)
				}
			}
		})
	}
}

// Records before a cut are copied, and the cut is reported.
func TestCopyCut(t *testing.T) {
	data := packed(t, "latis-session", frame.Len32)
	r, err := pcapng.NewReader(bytes.NewReader(data[:len(data)-1]), 0)
	if err != nil {
		t.Fatal(err)
	}
	var n count
	if err := capture.Copy(&n, r); !errors.Is(err, capture.ErrCut) || n == 0 {
		t.Errorf("%d records, %v", n, err)
	}
	full := errors.New("the disk is full")
	if err := capture.Copy(fails{full}, open(t, "latis-session", frame.Len32)); err != full {
		t.Errorf("%v, want %v", err, full)
	}
}

type count int

func (n *count) Write(*capture.Record) error { *n++; return nil }

type fails struct{ err error }

func (f fails) Write(*capture.Record) error { return f.err }
