package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// An engine is podman with its own storage and settings. It needs no registry.
type engine struct {
	dir string // a folder for PATH, with podman and a docker that does not answer
	// forbidden is the reason why it can run no container here, or nil.
	forbidden error
}

// Images of the engine.
const (
	pythonImage  = "localhost/python:test"
	wirectlImage = "localhost/wirectl:test"
)

// started is the engine started by a test, or nil.
var started *engine

var startEngine = sync.OnceValues(func() (*engine, error) {
	dir, err := os.MkdirTemp("", "wirectl-podman")
	if err != nil {
		return nil, err
	}
	e := &engine{dir: dir}
	started = e
	var image bytes.Buffer
	archive := exec.Command("python3", filepath.Join("python", "image.py"))
	archive.Stdout = &image
	if err := archive.Run(); err != nil {
		return e, fmt.Errorf("make an image of python3: %w", err)
	}
	var tried []error
	for _, driver := range []string{"overlay", "vfs"} {
		if err := e.configure(driver, ""); err != nil {
			return e, err
		}
		if _, err := e.podman(bytes.NewReader(image.Bytes()), "import", "-", pythonImage); err != nil {
			tried = append(tried, err)
			continue
		}
		for _, runtime := range []string{"", "runc"} {
			if err := e.configure(driver, runtime); err != nil {
				return e, err
			}
			_, err := e.podman(nil, "run", "--rm", "--network", "none", "--memory", "64m", pythonImage, "python3", "-c", "")
			if err == nil {
				return e, nil
			}
			tried = append(tried, err)
		}
	}
	e.forbidden = errors.Join(tried...)
	return e, nil
})

// realEngine returns the engine. Without podman the test is skipped, or fails in CI.
func realEngine(t *testing.T) *engine {
	t.Helper()
	need(t, "podman")
	need(t, "python3")
	e, err := startEngine()
	check(t, err)
	return e
}

// configure writes a podman script that runs the real one.
func (e *engine) configure(driver, runtime string) error {
	real, err := exec.LookPath("podman")
	if err != nil {
		return err
	}
	settings := "[containers]\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=4096:4096\"]\n[engine]\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\n"
	if runtime != "" {
		settings += fmt.Sprintf("runtime = %q\n", runtime)
	}
	file := func(name string) string { return filepath.Join(e.dir, name) }
	var errs []error
	for name, text := range map[string]string{
		"containers.conf": settings,
		"storage.conf":    fmt.Sprintf("[storage]\ndriver = %q\ngraphroot = %q\nrunroot = %q\n", driver, file(driver), file("run")),
		"docker":          "#!/bin/sh\necho it does not run >&2\nexit 1\n",
		"podman":          fmt.Sprintf("#!/bin/sh\nexport CONTAINERS_CONF=%s CONTAINERS_STORAGE_CONF=%s\nexec %s \"$@\"\n", file("containers.conf"), file("storage.conf"), real),
	} {
		errs = append(errs, os.WriteFile(file(name), []byte(text), 0o700))
	}
	return errors.Join(errs...)
}

// podman runs a command of the engine and returns its output.
func (e *engine) podman(stdin io.Reader, args ...string) (string, error) {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	cmd := exec.CommandContext(ctx, filepath.Join(e.dir, "podman"), args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("podman %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(stdout.String()), nil
}

// env returns an environment in which programs find the engine.
func (e *engine) env() []string { return append(os.Environ(), "PATH="+e.dir+":"+os.Getenv("PATH")) }

// endEngine removes everything that the engine has stored.
func endEngine() {
	e := started
	if e == nil {
		return
	}
	_, rm := e.podman(nil, "rm", "-f", "-a", "-t", "0")
	_, rmi := e.podman(nil, "rmi", "-f", "-a")
	umount, _ := exec.LookPath("umount")
	_ = exec.Command(umount, filepath.Join(e.dir, "overlay", "overlay")).Run() // podman leaves it mounted
	// If we are not root, its folders belong to other users.
	if err := errors.Join(rm, rmi, os.RemoveAll(e.dir)); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// run runs wirectl with the engine and a configuration, and returns its output and status.
func (e *engine) run(t *testing.T, config string, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	cmd := exec.CommandContext(ctx, wirectl, append([]string{"rlm", "--env", "container", "--image", pythonImage, "--config", config}, args...)...)
	var out, said bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = e.env(), &out, &said
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), said.String(), cmd.ProcessState.ExitCode()
}

// turns writes a configuration in which the root model answers with one cell per turn, with
// more settings of rlm.
func turns(t *testing.T, settings map[string]any, cells ...string) string {
	t.Helper()
	type object = map[string]any
	var replies []object
	for _, code := range cells {
		replies = append(replies, object{"text": "```repl\n" + code + "\n```"})
	}
	text, err := json.Marshal(object{
		"providers": object{"root": object{"kind": "mock", "mock": object{"turns": replies}}, "sub": object{"kind": "mock"}},
		"models":    object{"root": object{"provider": "root"}, "sub": object{"provider": "sub"}},
		"default":   "root",
		"rlm":       settings,
	})
	check(t, err)
	path := filepath.Join(t.TempDir(), "config.json")
	check(t, os.WriteFile(path, text, 0o600))
	return path
}
