package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

const newcomer = "testdata/newcomer.txtar"

// A newcomer installs wirectl in a clean container and ends with a tested server: the
// commands are those of README.md, and the server and the client are real. Without
// containers, the commands run in an empty environment with a new home.
func TestNewcomer(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the transcript needs sh")
	}
	modules := npm(t)
	e := &engine{forbidden: exec.ErrNotFound}
	if runtime.GOOS == "linux" {
		e = realEngine(t)
	}
	testscript.Run(t, testscript.Params{
		Files: []string{newcomer},
		Setup: func(env *testscript.Env) error {
			project := filepath.Join(env.WorkDir, "project")
			check(t, os.WriteFile(filepath.Join(project, "server"), fmt.Appendf(nil,
				"#!/bin/sh\nexec node %s\n", filepath.Join(modules, "@modelcontextprotocol/server-everything/dist/index.js")), 0o700))
			check(t, os.Mkdir(filepath.Join(env.WorkDir, "bin"), 0o700))
			check(t, os.WriteFile(filepath.Join(env.WorkDir, "bin", "box"), []byte(e.box(t, env.WorkDir, modules)), 0o700))
			env.Setenv("PATH", filepath.Join(env.WorkDir, "bin")+":"+os.Getenv("PATH"))
			return nil
		},
	})
}

// box returns a script that runs a shell command in the project of a newcomer. Its machine
// has sh, Go, Node.js and a module proxy with this checkout as the latest version of wirectl.
func (e *engine) box(t *testing.T, work, modules string) string {
	t.Helper()
	home, proxy, project := filepath.Join(work, "home"), filepath.Join(work, "proxy"), filepath.Join(work, "project")
	node, scripts := need(t, "node"), abs(t, "node")
	root, cache, downloads := goEnv(t, "GOROOT"), goEnv(t, "GOCACHE"), filepath.Join(goEnv(t, "GOMODCACHE"), "cache", "download")
	check(t, os.Mkdir(home, 0o700))
	publish(t, filepath.Join(proxy, "github.com/wirectl/wirectl/@v"))
	settings := []string{
		"HOME=" + home,
		"PATH=" + strings.Join([]string{filepath.Join(home, "go", "bin"), filepath.Join(root, "bin"), filepath.Dir(node), "/usr/bin", "/bin"}, ":"),
		"GOPROXY=file://" + proxy + ",file://" + downloads, "GOSUMDB=off", "GOFLAGS=-trimpath -modcacherw", "GOCACHE=" + cache, "CGO_ENABLED=0",
		"SCRIPTS=" + scripts, "MODULES=" + modules,
	}
	if e.forbidden != nil {
		t.Log("an empty environment replaces a container:", e.forbidden)
		return fmt.Sprintf("#!/bin/sh\ncd '%s' && exec env -i '%s' /bin/sh -c \"$1\"\n", project, strings.Join(settings, "' '"))
	}
	const image = "localhost/newcomer:test"
	archive := exec.CommandContext(t.Context(), "python3", filepath.Join("python", "image.py"), node)
	stdout, err := archive.StdoutPipe()
	check(t, err)
	check(t, archive.Start())
	_, err = e.podman(stdout, "import", "-", image)
	check(t, err)
	check(t, archive.Wait())
	args := []string{"run", "-d", "--rm", "--network", "none", "--tmpfs", "/tmp", "-w", project, "-v", work + ":" + work, "-v", cache + ":" + cache}
	for _, folder := range []string{root, downloads, modules, scripts, "/usr/share/nodejs"} {
		if _, err := os.Stat(folder); err == nil {
			args = append(args, "-v", folder+":"+folder+":ro")
		}
	}
	for _, setting := range settings {
		args = append(args, "-e", setting)
	}
	id, err := e.podman(nil, append(args, image, "/bin/sleep", "1d")...)
	check(t, err)
	t.Cleanup(func() {
		_, err := e.podman(nil, "rm", "-f", "-t", "0", id)
		check(t, err)
	})
	return fmt.Sprintf("#!/bin/sh\nexec '%s' exec -i %s /bin/sh -c \"$1\"\n", filepath.Join(e.dir, "podman"), id)
}

// publish writes this checkout to a folder of a module proxy, as its only version.
func publish(t *testing.T, folder string) {
	t.Helper()
	const version = "v0.99.0"
	check(t, os.MkdirAll(folder, 0o700))
	file, err := os.Create(filepath.Join(folder, version+".zip"))
	check(t, err)
	check(t, zip.CreateFromDir(file, module.Version{Path: "github.com/wirectl/wirectl", Version: version}, "../.."))
	check(t, file.Close())
	mod, err := os.ReadFile("../../go.mod")
	check(t, err)
	for name, text := range map[string]string{"list": version + "\n", version + ".info": `{"Version":"` + version + `"}`, version + ".mod": string(mod)} {
		check(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
}

func abs(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	check(t, err)
	return path
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	value, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
	check(t, err)
	return strings.TrimSpace(string(value))
}

// The newcomer has read only README.md: every command of wirectl in the transcript is there,
// perhaps with another SOURCE. The transcript runs the first way to install, and every
// command about a server and about CI, except for those that need more than a shell.
func TestNewcomerHasReadREADME(t *testing.T) {
	var (
		text    = func(path string) string { b, err := os.ReadFile(path); check(t, err); return string(b) }
		readme  = text("../../README.md")
		script  = text(newcomer)
		source  = regexp.MustCompile(`(fixture:\S+|live|golden\.pcapng)$`)
		general = func(command string) string { return source.ReplaceAllString(strings.TrimSpace(command), "SOURCE") }
		line    = regexp.MustCompile(`(?m)^(?:\$ )?((?:wirectl|go|claude|codex) .*?)(?: *#.*)?$`)
		known   []string
		skipped = []string{
			"wirectl monitor", // TestMonitor has a terminal
			"claude mcp add files -- wirectl relay exec npx -y my-server", // these write what wrap writes
			"codex mcp add files -- wirectl relay exec npx -y my-server",
		}
	)
	for _, section := range strings.Split(readme, "\n## ") {
		for i, found := range line.FindAllStringSubmatch(section, -1) {
			known = append(known, general(found[1]))
			title, _, _ := strings.Cut(section, "\n")
			walked := title == "Install" && i == 0 || strings.HasPrefix(title, "Put it in front") || title == "In CI"
			if walked && !slices.Contains(skipped, found[1]) && !strings.Contains(script, found[1]) {
				t.Errorf("README.md has %q: %s does not run it", found[1], newcomer)
			}
		}
	}
	for _, found := range regexp.MustCompile(`wirectl [a-z]+ [^'"\n]*`).FindAllString(script, -1) {
		command, _, _ := strings.Cut(found, " >calls.txt")
		command, _, _ = strings.Cut(command, " ||")
		if !slices.Contains(known, general(command)) {
			t.Errorf("%s runs %q: README.md does not have it", newcomer, found)
		}
	}
}
