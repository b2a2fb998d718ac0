package sandbox

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

// This architecture has no older system calls.
var allowedOld, metadataOld, refusedOld []uint32
