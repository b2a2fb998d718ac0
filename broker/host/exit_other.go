//go:build !unix

package host

import (
	"os"
	"os/exec"
)

func interrupt(p *os.Process) error { return p.Kill() }

func exitStatus(e *exec.ExitError) int { return e.ExitCode() }
