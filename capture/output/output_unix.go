//go:build !windows

package output

import (
	"io/fs"
	"os"
	"syscall"
)

const noFollow = syscall.O_NOFOLLOW

// trusted reports whether a link is the user's own or root's.
func trusted(link fs.FileInfo) bool {
	st, ok := link.Sys().(*syscall.Stat_t)
	return ok && (st.Uid == 0 || int64(st.Uid) == int64(os.Geteuid()))
}
