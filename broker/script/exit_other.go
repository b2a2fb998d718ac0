//go:build !unix

package script

import (
	"os"
	"os/exec"
)

func interrupt(p *os.Process) error { return p.Kill() }

func exitStatus(e *exec.ExitError) int { return e.ExitCode() }
