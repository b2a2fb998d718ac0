//go:build !linux

package agent

import (
	"net/netip"
	"os"
	"runtime"
	"syscall"
)

const rootsAreAFile = runtime.GOOS != "darwin" && runtime.GOOS != "windows"

func endsWithUs() *syscall.SysProcAttr { return nil }

// stopsOf returns no signals: whether the agent has stopped itself is not known here.
func stopsOf() (stops <-chan os.Signal, release func()) { return nil, func() {} }

func followStop(os.Signal, int) {}

// isOwn reports false, because the tables of sockets are not read here.
func isOwn(_, _ netip.AddrPort) bool { return false }

type process struct{}

func (process) String() string { return "" }

func remaining(string) []process { return nil }
