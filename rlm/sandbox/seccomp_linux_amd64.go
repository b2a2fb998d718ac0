package sandbox

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

// System calls that newer architectures do not have.
var (
	allowedOld = []uint32{
		unix.SYS_OPEN, unix.SYS_CREAT, unix.SYS_DUP2, unix.SYS_PIPE, unix.SYS_STAT, unix.SYS_LSTAT, unix.SYS_ACCESS,
		unix.SYS_READLINK, unix.SYS_GETDENTS, unix.SYS_MKDIR, unix.SYS_RMDIR, unix.SYS_UNLINK, unix.SYS_RENAME, unix.SYS_TIME,
		unix.SYS_ALARM, unix.SYS_POLL, unix.SYS_SELECT, unix.SYS_EPOLL_CREATE, unix.SYS_EPOLL_WAIT, unix.SYS_EVENTFD,
		unix.SYS_PAUSE, unix.SYS_GETPGRP, unix.SYS_ARCH_PRCTL,
	}
	metadataOld = []uint32{unix.SYS_CHMOD, unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_FUTIMESAT}
	refusedOld  = []uint32{
		unix.SYS_FORK, unix.SYS_VFORK, unix.SYS_SYMLINK, unix.SYS_LINK, unix.SYS_MKNOD, unix.SYS_CHMOD, unix.SYS_CHOWN,
		unix.SYS_LCHOWN, unix.SYS_UTIME, unix.SYS_UTIMES, unix.SYS_FUTIMESAT,
	}
)
