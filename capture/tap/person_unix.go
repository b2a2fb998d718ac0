//go:build linux || darwin

package tap

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
)

// checkPlatform returns nil: this platform has taps.
func checkPlatform() error { return nil }

// checkPeer returns an error if the user at the other end has no access.
func checkPeer(c *net.UnixConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var uid uint32
	if cerr := raw.Control(func(fd uintptr) { uid, err = peerUID(int(fd)) }); cerr != nil {
		return cerr
	}
	if own := os.Getuid(); err == nil && uid != 0 && int64(uid) != int64(own) {
		return fmt.Errorf("the user %d may not view a tap of the user %d", uid, own)
	}
	return err
}

// checkOwner returns an error unless a folder is accessible to its owner only, and that is
// the current user.
func checkOwner(dir string, info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok || int64(st.Uid) != int64(os.Getuid()):
		return fmt.Errorf("%s belongs to another user", dir)
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("others can open %[1]s (mode %#[2]o): run chmod 700 %[1]s", dir, info.Mode().Perm())
	}
	return nil
}

// alive reports whether a process with that id exists.
func alive(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}
