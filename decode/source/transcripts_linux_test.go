package source

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// A file of a folder that may not be opened is not passed over in silence.
func TestSessionsWithoutPermission(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "secret.jsonl")
	if err := os.WriteFile(name, nil, 0); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 { // root may open each file, but not as somebody else
		const nobody = 65534
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer func() { _ = syscall.Setfsuid(0) }()
		_ = syscall.Setfsuid(nobody)
	}
	if _, err := os.ReadFile(name); err == nil {
		t.Fatal("the file can be opened")
	}
	if got := Sessions(dir); len(got) != 1 || got[0] != name {
		t.Errorf("the sessions are %q", got)
	}
}
