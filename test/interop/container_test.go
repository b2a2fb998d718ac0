package interop

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// container returns the words of an ENDPOINT that run a program in a container in
// which wirectl is the file /wirectl, and flags that go before. Where no runtime
// runs, namespaces of their own stand in for one.
func container(t *testing.T) (flags, words []string) {
	t.Helper()
	for _, runtime := range []string{"docker", "podman"} {
		if exec.CommandContext(t.Context(), runtime, "ps").Run() == nil {
			return []string{"--runtime", runtime}, []string{"container", runContainer(t, runtime), "/wirectl"}
		}
	}
	unshare := need(t, "unshare")
	stand := filepath.Join(t.TempDir(), "runtime")
	script := fmt.Sprintf("#!/bin/sh\n[ \"$1 $2 $3\" = 'exec -i box' ] || exit 125\nshift 3\nexec %s --user --map-root-user --pid --fork --kill-child \"$@\"\n", unshare)
	check(t, os.WriteFile(stand, []byte(script), 0o700))
	return []string{"--runtime", stand}, []string{"container", "box", wirectl}
}

// runContainer starts a container that holds wirectl and nothing else, without
// fetching an image, and returns its id.
func runContainer(t *testing.T, runtime string) string {
	t.Helper()
	static := filepath.Join(t.TempDir(), "wirectl")
	build := exec.CommandContext(t.Context(), "go", "build", "-C", "../..", "-o", static, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	binary, err := os.ReadFile(static)
	check(t, err)
	var image bytes.Buffer
	archive := tar.NewWriter(&image)
	check(t, archive.WriteHeader(&tar.Header{Name: "wirectl", Mode: 0o755, Size: int64(len(binary))}))
	_, err = archive.Write(binary)
	check(t, err)
	check(t, archive.Close())

	ctx := context.WithoutCancel(t.Context())
	imported := output(t, ctx, &image, runtime, "import", "-")
	t.Cleanup(func() { output(t, ctx, nil, runtime, "rmi", "-f", imported) })
	id := output(t, ctx, nil, runtime, "run", "-d", "--rm", imported, "/wirectl", "unit", "--listen", "tcp://127.0.0.1:0")
	t.Cleanup(func() { output(t, ctx, nil, runtime, "rm", "-f", id) })
	return id
}

// output runs a program, which must succeed, and returns its last word.
func output(t *testing.T, ctx context.Context, stdin *bytes.Buffer, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(ctx, name, args...)
	if stdin != nil {
		cmd.Stdin = stdin
	}
	out, err := cmd.CombinedOutput()
	words := bytes.Fields(out)
	if err != nil || len(words) == 0 {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	return string(words[len(words)-1])
}

// A unit in a container answers as one outside, and the status of what runs
// inside is the relay's.
func TestContainer(t *testing.T) {
	flags, words := container(t)
	args := append([]string{"send", "--prompt", "into the box"}, flags...)
	got, stderr := command(t, nil, append(append(append(args, "latis"), words...), "unit")...)
	if string(got) != "Echo: into the box\n" {
		t.Errorf("%q\n%s", got, stderr)
	}
	_, stderr, status := relayThrough(t, nil, append(append(flags, words...), "no-such-command")...)
	if status != 2 {
		t.Errorf("status %d\n%s", status, stderr)
	}
}
