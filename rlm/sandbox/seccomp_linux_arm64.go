package sandbox

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

// No call of this architecture is of its own.
var allowedOld, metadataOld, refusedOld []uint32
