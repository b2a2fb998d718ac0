// Package starlark runs cells of code without an installed interpreter: wirectl executes
// itself again as the worker, which interprets Starlark. Any program that calls [New] must
// therefore call [Main] before anything else.
package starlark

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/wirectl/wirectl/rlm/env"
)

// argument is the first argument of a worker.
const argument = "//starlark"

// spare is the address space of the Go runtime, besides that of the code.
const spare = 4 << 30

// New returns an environment whose worker is this program. It sets Path, Args and Env of the
// Spec in c. Its Memory bounds the variables of the code.
func New(c env.Config) (*env.Env, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find wirectl's own program: %w", err)
	}
	c.Spec.Path = self
	c.Spec.Args = []string{argument}
	if c.Stdio || runtime.GOOS == "windows" {
		c.Spec.Args = append(c.Spec.Args, "stdio")
	}
	c.Spec.Env = []string{"GOTRACEBACK=none", "GOGC=off"} // no collection before Main
	if runtime.GOOS == "windows" {
		c.Spec.Env = append(c.Spec.Env, "SYSTEMROOT="+os.Getenv("SYSTEMROOT"))
	}
	if c.Spec.Memory > 0 {
		c.Spec.Args = append(c.Spec.Args, "memory="+strconv.FormatInt(c.Spec.Memory, 10))
		c.Spec.Memory += spare
	}
	return env.New(c), nil
}

// Main is the worker. In any other process, it returns at once.
func Main() {
	if len(os.Args) < 2 || os.Args[1] != argument {
		return
	}
	debug.SetGCPercent(100)
	in, out := os.NewFile(3, "wire"), os.NewFile(3, "wire")
	memory := int64(0)
	for _, option := range os.Args[2:] {
		if text, ok := strings.CutPrefix(option, "memory="); ok {
			memory, _ = strconv.ParseInt(text, 10, 64)
		} else if option == "stdio" {
			in, out = os.NewFile(0, "stdin"), os.NewFile(1, "stdout")
		}
	}
	newWorker(in, out, memory).work()
}

// leave ends the worker.
func leave() {
	os.Exit(0) //nolint:forbidigo // it is a separate process
}
