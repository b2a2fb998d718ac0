//go:build !windows

package output_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/wirectl/wirectl/capture/output"
)

// finished writes a file as what is written at once does, and grown as what grows.
func finished(name, text string) error {
	f, err := output.Begin(name)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, text)
	return errors.Join(err, f.Close(err == nil))
}

func grown(name, text string) error {
	f, err := output.Create(name)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, text)
	return errors.Join(err, f.Close())
}

var ways = map[string]func(name, text string) error{"finished": finished, "grown": grown}

func check(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// holds checks the text and the mode of a file.
func holds(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	info, err := os.Lstat(name)
	got, readErr := os.ReadFile(name)
	check(t, err, readErr)
	if string(got) != text || info.Mode() != mode {
		t.Errorf("%s holds %q with mode %v, want %q with %v", name, got, info.Mode(), text, mode)
	}
}

// What others may read is left to them as it was, by whichever name they have it.
func TestReplaces(t *testing.T) {
	for way, write := range ways {
		t.Run(way, func(t *testing.T) {
			dir := t.TempDir()
			name, other := filepath.Join(dir, "file"), filepath.Join(dir, "other")
			check(t, os.WriteFile(name, []byte("before"), 0o644), os.Chmod(name, 0o644), os.Link(name, other))
			check(t, write(name, "secret"))
			holds(t, name, "secret", 0o600)
			holds(t, other, "before", 0o644)
			if entries, _ := os.ReadDir(dir); len(entries) != 2 {
				t.Errorf("something is left over: %v", entries)
			}
		})
	}
}

// Links of the user are followed, to a file that is not there yet, too.
func TestOwnLinks(t *testing.T) {
	for way, write := range ways {
		t.Run(way, func(t *testing.T) {
			dir := t.TempDir()
			name := filepath.Join(dir, "b", "file")
			check(t, os.Mkdir(filepath.Join(dir, "b"), 0o700))
			check(t, os.Symlink("b/second", filepath.Join(dir, "first")), os.Symlink("file", filepath.Join(dir, "b", "second")))
			for _, text := range []string{"new", "again"} {
				check(t, write(filepath.Join(dir, "first"), text))
				holds(t, name, text, 0o600)
			}
			check(t, os.Symlink("loop", filepath.Join(dir, "loop")))
			if err := write(filepath.Join(dir, "loop"), ""); err == nil || !strings.Contains(err.Error(), "too many links") {
				t.Errorf("a loop: %v", err)
			}
		})
	}
}

// A link of somebody else is refused, and what it leads to stays as it is.
func TestForeignLinks(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make links of others")
	}
	ways := map[string]func(string, string) error{"appended": func(name, _ string) error {
		f, err := output.Append(name)
		if err == nil {
			f.Close()
		}
		return err
	}, "finished": finished, "grown": grown}
	for way, write := range ways {
		dir := t.TempDir()
		name, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
		check(t, os.WriteFile(name, []byte("before"), 0o600), os.Symlink(name, link), os.Lchown(link, 12345, 12345))
		if err := write(link, "secret"); err == nil || !strings.Contains(err.Error(), "link of another user") {
			t.Errorf("%s: %v", way, err)
		}
		holds(t, name, "before", 0o600)
	}
}

// A pipe, a device and a descriptor are written as they are.
func TestInPlace(t *testing.T) {
	for way, write := range ways {
		t.Run(way, func(t *testing.T) {
			pipe := filepath.Join(t.TempDir(), "pipe")
			check(t, syscall.Mkfifo(pipe, 0o600))
			read := make(chan string)
			go func() {
				text, err := os.ReadFile(pipe)
				if err != nil {
					text = []byte(err.Error())
				}
				read <- string(text)
			}()
			check(t, write(pipe, "through"))
			if got := <-read; got != "through" {
				t.Errorf("the pipe gave %q", got)
			}
			if info, err := os.Lstat(pipe); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
				t.Errorf("the pipe is %v now, %v", info.Mode(), err)
			}
			check(t, write(os.DevNull, "nowhere"))
			if info, err := os.Lstat(os.DevNull); err != nil || info.Mode()&os.ModeCharDevice == 0 {
				t.Fatalf("the null device is %v now, %v", info.Mode(), err)
			}
		})
	}
}

// What grows can be seen while it does, under its own name alone; what is to be
// finished is seen when it is, and if it is not kept the former is still there.
func TestWhenItIsSeen(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	check(t, os.WriteFile(name, []byte("before"), 0o600))
	f, err := output.Begin(name)
	check(t, err)
	_, err = io.WriteString(f, "half")
	check(t, err)
	holds(t, name, "before", 0o600)
	check(t, f.Close(false))
	holds(t, name, "before", 0o600)

	g, err := output.Create(name)
	check(t, err)
	holds(t, name, "", 0o600)
	_, err = io.WriteString(g, "more")
	check(t, err)
	holds(t, name, "more", 0o600)
	check(t, g.Close())
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("something is left over: %v", entries)
	}
}
