//go:build !linux

package sandbox

import "os/exec"

// Main does nothing, because only Linux needs a launcher.
func Main() {}

// begin starts a command and waits for it in a goroutine that ends with it.
func begin(cmd *exec.Cmd, kill, after func()) (*process, error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{kill: kill, ended: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		after()
		close(p.ended)
	}()
	return p, nil
}
