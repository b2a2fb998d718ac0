package env

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// NewExec returns an environment whose worker is a command of the user, such as one on
// another machine. The command speaks repl on its standard streams. It is not isolated, and
// gets this process's environment. docs/rlm-environments.md describes it.
func NewExec(c Config, args []string) (*Env, error) {
	path, err := exec.LookPath(args[0])
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return nil, fmt.Errorf("exec: %w", err)
	}
	c.Launcher, c.Stdio = Plain, true
	c.Spec = Spec{Path: path, Args: args[1:], Env: os.Environ()}
	return New(c), nil
}
