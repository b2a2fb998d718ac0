package env

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// NewExec returns an environment whose worker is a command of the user's, such as one that
// reaches another machine. The command speaks repl on its standard streams. It is not
// isolated here, and has our environment. docs/rlm-environments.md says what it has to do.
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
