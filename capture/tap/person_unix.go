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

// checkPlatform says why there can be no taps; nil if there can.
func checkPlatform() error { return nil }

// checkPeer says why the process at the other end may not look; nil if it may.
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
		return fmt.Errorf("the user %d may not look at a tap of the user %d", uid, own)
	}
	return err
}

// checkOwner says why a folder is not ours alone.
func checkOwner(dir string, info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok || int64(st.Uid) != int64(os.Getuid()):
		return fmt.Errorf("%s belongs to another user", dir)
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Errorf("others may enter %s (its mode is %#o): chmod 700 it", dir, info.Mode().Perm())
	}
	return nil
}

// alive reports whether there is a process of that number.
func alive(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}
