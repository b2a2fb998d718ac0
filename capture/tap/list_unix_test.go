//go:build linux || darwin

package tap

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/journal"
)

// An unreadable description does not hide other taps. It is reported while its owner runs,
// and removed afterwards.
func TestUnreadable(t *testing.T) {
	dir := shortDir(t)
	whole := serve(t, dir, "whole", journal.New(capture.Session{}, journal.Options{}), nil)
	owned := serve(t, dir, "owned", journal.New(capture.Session{}, journal.Options{}), nil)
	file := func(name string) string { return filepath.Join(dir, name+describes) }
	write := func(name, text string) error { return os.WriteFile(file(name), []byte(text), 0o600) }
	err := errors.Join(
		write(owned.Name(), `{"pid":`), write("text", "not JSON"), write("empty", ""), write("nobody", `{"pid":-1}`),
		write("large", fmt.Sprintf(`{"pid":%d%s}`, os.Getpid(), strings.Repeat(" ", maxDescription))),
		syscall.Mkfifo(file("pipe"), 0o600), os.Symlink(file(whole.Name()), file("link")),
	)
	if err != nil {
		t.Fatal(err)
	}
	var skipped []string
	taps, err := List(dir, func(err error) { skipped = append(skipped, err.Error()) })
	if err != nil || len(taps) != 1 || taps[0].Name != whole.Name() {
		t.Errorf("%+v, %v, want %s", taps, err, whole.Name())
	}
	if len(skipped) != 1 || !strings.Contains(skipped[0], owned.Name()+describes) {
		t.Errorf("told about %q, want %s", skipped, owned.Name())
	}
	for _, name := range []string{"text", "empty", "nobody", "large", "pipe", "link"} {
		if _, err := os.Lstat(file(name)); err == nil {
			t.Errorf("%s is still there", name)
		}
	}
	serve(t, dir, "another", journal.New(capture.Session{}, journal.Options{}), nil) // removes stale taps
}
