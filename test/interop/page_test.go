package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// overSSH matches a transcript of a page that reaches the host build by ssh: a command and
// its output.
var overSSH = regexp.MustCompile("(?ms)^```console ssh\n\\$ (.*?)\n(.*?)^```$")

// The transcripts of docs/endpoints.md that need an ssh server print the expected output.
// The host has only wirectl. (The other transcripts run with the tests of the project.)
func TestPageOverSSH(t *testing.T) {
	page, err := os.ReadFile("../../docs/endpoints.md")
	check(t, err)
	blocks := overSSH.FindAllSubmatch(page, -1)
	if len(blocks) == 0 {
		t.Fatal("docs/endpoints.md has no transcript over ssh")
	}
	bin := t.TempDir()
	check(t, os.Symlink(wirectl, filepath.Join(bin, "wirectl")))
	to := sshd(t, fmt.Sprintf("SetEnv PATH=%s:%s", bin, os.Getenv("PATH")))
	user, _, _ := strings.Cut(to[len(to)-1], "@")
	options := append(to[1:len(to)-1], "-o", "HostName=127.0.0.1", "-l", user)
	ssh := fmt.Sprintf("#!/bin/sh\nexec %s '%s' \"$@\"\n", need(t, "ssh"), strings.Join(options, "' '"))
	check(t, os.WriteFile(filepath.Join(bin, "ssh"), []byte(ssh), 0o700))
	for _, b := range blocks {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", string(b[1]))
		cmd.Dir = t.TempDir()
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "COLUMNS=100")
		out, err := cmd.CombinedOutput()
		check(t, err)
		if string(out) != string(b[2]) {
			t.Errorf("%s\n got: %s\nwant: %s", b[1], out, b[2])
		}
	}
}
