package env

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// pythonSource is the program of the worker.
//
//go:embed worker.py
var pythonSource []byte

// file is the name of the worker in the session folder.
const file = "worker.py"

// An Interpreter is a CPython that can run the worker.
type Interpreter struct {
	Path    string   // of the program
	Version string   // such as 3.12.3
	Read    []string // folders of its installation
}

// ErrNoPython says that no interpreter can run the worker.
var ErrNoPython = errors.New("no Python 3.8 or newer on PATH")

// probe prints what describe needs. It also runs on versions that are too old, and imports
// nothing that takes time.
const probe = `import sys
print("\0".join([sys.implementation.name, "%d.%d.%d" % sys.version_info[:3], sys.executable or "",
sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix]))`

// probeTimeout is how long probe may take. On Windows, python on PATH may be a program that
// opens a shop.
const probeTimeout = 20 * time.Second

// FindPython finds the interpreter: python3 on PATH, or else python. The error is ErrNone, with what
// was found instead.
func FindPython(ctx context.Context) (Interpreter, error) {
	var found []error
	for _, name := range []string{"python3", "python"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		p, err := describe(ctx, path)
		if err == nil {
			return p, nil
		}
		if ctx.Err() != nil {
			return Interpreter{}, context.Cause(ctx)
		}
		found = append(found, fmt.Errorf("%s: %w", path, err))
	}
	if len(found) > 0 {
		return Interpreter{}, fmt.Errorf("%w: %w", ErrNoPython, errors.Join(found...))
	}
	return Interpreter{}, ErrNoPython
}

// describe asks an interpreter for its version and its folders.
func describe(ctx context.Context, path string) (Interpreter, error) {
	ctx, stop := context.WithTimeout(ctx, probeTimeout)
	defer stop()
	cmd := exec.CommandContext(ctx, path, "-I", "-S", "-c", probe)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return Interpreter{}, fmt.Errorf("does not run: %w", err)
	}
	d := strings.Split(strings.TrimRight(string(out), "\r\n"), "\x00")
	var major, minor int
	if len(d) != 7 {
		return Interpreter{}, errors.New("does not say what it is")
	}
	if _, err := fmt.Sscanf(d[1], "%d.%d", &major, &minor); err != nil {
		return Interpreter{}, errors.New("does not say what it is")
	}
	switch {
	case d[0] != "cpython":
		return Interpreter{}, fmt.Errorf("is %s, not CPython", d[0])
	case major < 3 || major == 3 && minor < 8:
		return Interpreter{}, fmt.Errorf("is version %s", d[1])
	}
	if filepath.IsAbs(d[2]) {
		path = d[2] // path may be a script of a version manager
	}
	read := d[3:]
	slices.Sort(read)
	return Interpreter{Path: path, Version: d[1], Read: slices.Compact(read)}, nil
}

// PythonOptions say what code may use.
type PythonOptions struct {
	Site   bool // modules of site-packages
	Strict bool // only some modules and builtins: hygiene, not a boundary
}

// NewPython returns an environment whose worker is run by p. It sets Path, Args, Env and Files of
// the Spec in c.
func NewPython(p Interpreter, c Config, o PythonOptions) *Env {
	c.Stdio = c.Stdio || runtime.GOOS == "windows"
	c.Spec.Path = p.Path
	c.Spec.Args = PythonArgs(o, c.Stdio, c.Spec.Memory)
	c.Spec.Env = environ()
	c.Spec.Read = append(slices.Clone(p.Read), c.Spec.Read...)
	c.Files = PythonFiles()
	return New(c)
}

// PythonFiles returns the files that the worker needs in its working directory.
func PythonFiles() map[string][]byte { return map[string][]byte{file: pythonSource} }

// PythonArgs returns the arguments with which an interpreter runs the worker, in the folder of its
// Files. The worker limits its own address space to memory, if the system can do that; 0 is
// no limit.
func PythonArgs(o PythonOptions, stdio bool, memory int64) []string {
	args := []string{"-I", "-B", "-X", "utf8"}
	if !o.Site {
		args = append(args, "-S")
	}
	args = append(args, file)
	for name, on := range map[string]bool{"stdio": stdio, "strict": o.Strict} {
		if on {
			args = append(args, name)
		}
	}
	if memory > 0 {
		args = append(args, "memory="+strconv.FormatInt(memory, 10))
	}
	return args
}

// environ returns the environment of the worker, which has nothing of this process except what
// Windows needs.
func environ() []string {
	if runtime.GOOS == "windows" {
		return []string{"SYSTEMROOT=" + os.Getenv("SYSTEMROOT"), "TEMP=."}
	}
	return []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "TMPDIR=."}
}
