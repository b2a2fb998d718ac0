package env_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/rlm/env"
)

// The folder of a killed process is removed, and no other.
func TestRemoveStrays(t *testing.T) {
	const owner = "WIRECTL_TEST_OWNER"
	if os.Getenv(owner) != "" { // the process that is killed
		f, err := env.NewFolder()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println(f.Path)
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("TMP", os.Getenv("TMPDIR"))
	living, err := env.NewFolder()
	if err != nil {
		t.Fatal(err)
	}
	without, err := os.MkdirTemp("", "wirectl-rlm-") // such as one whose owner has not locked it yet
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), owner+"=1")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(stdout).ReadString('\n')
	path := strings.TrimSpace(line)
	exists := func(path string) bool {
		_, err := os.Stat(path)
		return err == nil
	}
	inside := filepath.Join(path, "read-only")
	if err := os.Mkdir(inside, 0o500); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(path, "context"), []byte("text"), 0o400); err != nil {
		t.Fatal(err)
	}
	env.RemoveStrays()
	if !exists(path) || !exists(inside) {
		t.Error("the folder of a living process was removed")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	env.RemoveStrays()
	if exists(path) {
		t.Error("the folder of a killed process was kept")
	}
	if !exists(living.Path) || !exists(without) {
		t.Error("another folder was removed")
	}
	for range 2 {
		if err := living.Remove(); err != nil || exists(living.Path) {
			t.Errorf("not removed: %v", err)
		}
	}
}
