//go:build unix

package commands

import (
	"os"
	"os/signal"
	"slices"
	"syscall"
	"testing"
)

// What runs below nohup does not hear that its terminal has gone.
func TestHangupStaysIgnored(t *testing.T) {
	if !slices.Contains(passedOn(), os.Signal(syscall.SIGHUP)) && !signal.Ignored(syscall.SIGHUP) {
		t.Error("a hangup is not passed on")
	}
	signal.Ignore(syscall.SIGHUP)
	defer signal.Reset(syscall.SIGHUP)
	if slices.Contains(passedOn(), os.Signal(syscall.SIGHUP)) {
		t.Error("a hangup that is ignored is passed on")
	}
}
