package fd_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/iotest"

	"github.com/wirectl/wirectl/internal/fd"
)

// A file reads as it does without.
func TestFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	want := bytes.Repeat([]byte("direct "), 10_000)
	if err := os.WriteFile(name, want, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := iotest.TestReader(fd.OverFile(f), want); err != nil {
		t.Error(err)
	}
	if _, err := f.Seek(7, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(fd.OverFile(f)); !bytes.Equal(got, want[7:]) || err != nil {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
}

// What goes wrong is told as that of a file is.
func TestFileErrors(t *testing.T) {
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	d := fd.OverFile(dir)
	for _, when := range []string{"a folder", "closed"} {
		_, got := d.Read(make([]byte, 1))
		_, want := dir.Read(make([]byte, 1))
		if got == nil || want == nil || got.Error() != want.Error() {
			t.Errorf("%s: %v, not %v", when, got, want)
		}
		dir.Close()
	}
}
