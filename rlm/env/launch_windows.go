package env

import (
	"os"
	"syscall"
)

func apart() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

func killGroup(leader *os.Process) { _ = leader.Kill() }
