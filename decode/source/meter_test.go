package source

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"
)

// slowly yields a hundred bytes a read, four reads a second.
type slowly struct{ left int }

func (r *slowly) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	time.Sleep(250 * time.Millisecond)
	n := min(r.left, 100)
	r.left -= n
	return n, nil
}

// The bar comes after a second and goes at the end.
func TestMeter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var terminal bytes.Buffer
		m := newMeter(&slowly{600}, 600, &terminal)
		if _, err := io.Copy(io.Discard, m); err != nil {
			t.Fatal(err)
		}
		m.clear()
		drawn := strings.Split(strings.TrimPrefix(terminal.String(), "\r"), "\r")
		want := []string{
			"████████████████████░░░░░░░░░░  67%  0.0 MB/s\x1b[K",
			"█████████████████████████░░░░░  83%  0.0 MB/s\x1b[K",
			"██████████████████████████████ 100%  0.0 MB/s\x1b[K",
			"\x1b[K",
		}
		if strings.Join(drawn, "\n") != strings.Join(want, "\n") {
			t.Errorf("%q", drawn)
		}
	})
}

func TestMeterOfWhatIsQuick(t *testing.T) {
	var terminal bytes.Buffer
	m := newMeter(strings.NewReader("quick"), 5, &terminal)
	if _, err := io.Copy(io.Discard, m); err != nil {
		t.Fatal(err)
	}
	m.clear()
	if terminal.Len() > 0 {
		t.Errorf("%q", &terminal)
	}
}

// Files are metered.
func TestWhatIsMetered(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte("{}\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		why      string
		name     string
		terminal io.Writer
		want     bool
	}{
		{"a file", name, io.Discard, true},
		{"no terminal", name, nil, false},
		{"no file", "fixture:latis-cancel/c2s.bin", io.Discard, false},
	} {
		src, err := new(Opener).Open(t.Context(), tt.name)
		if err != nil {
			t.Fatal(err)
		}
		src.Meter(tt.terminal)
		if _, got := src.Reader.(*meter); got != tt.want {
			t.Errorf("%s: metered is %v", tt.why, got)
		}
		src.Close()
	}
}

// The files of a recording have one bar together.
func TestMeterOfFolder(t *testing.T) {
	var terminal bytes.Buffer
	folder := fstest.MapFS{"c2s.bin": {Data: make([]byte, 30)}, "conn-2/s2c.bin": {Data: make([]byte, 70)}}
	metered, _ := meterFolder(folder, &terminal)
	m := metered.(meteredFS).meter
	for name := range folder {
		if _, err := fs.ReadFile(metered, name); err != nil {
			t.Fatal(err)
		}
	}
	if entries, err := fs.ReadDir(metered, "."); len(entries) != 2 || err != nil {
		t.Errorf("%v, %v", entries, err)
	}
	if m.done != 100 || m.size != 100 {
		t.Errorf("%d bytes of %d are counted, want 100 of 100", m.done, m.size)
	}
	if same, _ := meterFolder(folder, nil); len(same.(fstest.MapFS)) != 2 {
		t.Error("a bar without a terminal")
	}
}
