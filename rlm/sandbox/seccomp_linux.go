package sandbox

import (
	"fmt"
	"slices"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// allowed are the system calls that the program may make with any arguments. The file system,
// Landlock and the limits decide what they can access.
var allowed = []uint32{
	// files
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_PREAD64, unix.SYS_PWRITE64, unix.SYS_READV, unix.SYS_WRITEV, unix.SYS_PREADV,
	unix.SYS_PWRITEV, unix.SYS_PREADV2, unix.SYS_PWRITEV2,
	unix.SYS_OPENAT, unix.SYS_CLOSE, unix.SYS_CLOSE_RANGE, unix.SYS_LSEEK, unix.SYS_DUP, unix.SYS_DUP3, unix.SYS_PIPE2,
	unix.SYS_FLOCK,
	unix.SYS_FSYNC, unix.SYS_FDATASYNC, unix.SYS_FTRUNCATE, unix.SYS_TRUNCATE, unix.SYS_FALLOCATE, unix.SYS_FADVISE64,
	unix.SYS_READAHEAD, unix.SYS_SENDFILE, unix.SYS_COPY_FILE_RANGE,
	unix.SYS_FSTAT, unix.SYS_NEWFSTATAT, unix.SYS_STATX, unix.SYS_STATFS, unix.SYS_FSTATFS, unix.SYS_FACCESSAT,
	unix.SYS_FACCESSAT2,
	unix.SYS_READLINKAT, unix.SYS_GETCWD, unix.SYS_CHDIR, unix.SYS_FCHDIR, unix.SYS_GETDENTS64, unix.SYS_UMASK,
	unix.SYS_FCHMOD,
	unix.SYS_MKDIRAT, unix.SYS_UNLINKAT, unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2,
	// memory
	unix.SYS_MMAP, unix.SYS_MPROTECT, unix.SYS_MUNMAP, unix.SYS_MREMAP, unix.SYS_MADVISE, unix.SYS_BRK, unix.SYS_MSYNC,
	unix.SYS_MINCORE, unix.SYS_MLOCK, unix.SYS_MUNLOCK,
	// threads, time and waiting
	unix.SYS_FUTEX, unix.SYS_FUTEX_WAITV, unix.SYS_SET_ROBUST_LIST, unix.SYS_SET_TID_ADDRESS, unix.SYS_RSEQ,
	unix.SYS_MEMBARRIER, unix.SYS_SCHED_YIELD, unix.SYS_GETCPU,
	unix.SYS_SCHED_GETAFFINITY, unix.SYS_SCHED_GETPARAM, unix.SYS_SCHED_GETSCHEDULER, unix.SYS_SCHED_GET_PRIORITY_MAX,
	unix.SYS_SCHED_GET_PRIORITY_MIN,
	unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_CLOCK_GETTIME, unix.SYS_CLOCK_GETRES, unix.SYS_GETTIMEOFDAY,
	unix.SYS_TIMES, unix.SYS_GETRUSAGE,
	unix.SYS_GETITIMER, unix.SYS_SETITIMER, unix.SYS_TIMER_CREATE, unix.SYS_TIMER_SETTIME, unix.SYS_TIMER_GETTIME,
	unix.SYS_TIMER_DELETE, unix.SYS_TIMER_GETOVERRUN,
	unix.SYS_TIMERFD_CREATE, unix.SYS_TIMERFD_SETTIME, unix.SYS_TIMERFD_GETTIME,
	unix.SYS_PPOLL, unix.SYS_PSELECT6, unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT,
	unix.SYS_EPOLL_PWAIT2, unix.SYS_EVENTFD2, unix.SYS_WAIT4, unix.SYS_WAITID, unix.SYS_RESTART_SYSCALL,
	unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_RT_SIGPENDING,
	unix.SYS_RT_SIGTIMEDWAIT, unix.SYS_RT_SIGSUSPEND, unix.SYS_SIGALTSTACK,
	// sockets that exist already
	unix.SYS_SENDTO, unix.SYS_SENDMSG, unix.SYS_RECVFROM, unix.SYS_RECVMSG, unix.SYS_SHUTDOWN, unix.SYS_GETSOCKOPT,
	unix.SYS_GETSOCKNAME, unix.SYS_GETPEERNAME,
	// itself
	unix.SYS_GETPID, unix.SYS_GETPPID, unix.SYS_GETTID, unix.SYS_GETUID, unix.SYS_GETEUID, unix.SYS_GETGID,
	unix.SYS_GETEGID, unix.SYS_GETRESUID, unix.SYS_GETRESGID, unix.SYS_GETGROUPS,
	unix.SYS_GETPGID, unix.SYS_GETSID, unix.SYS_GETPRIORITY, unix.SYS_GETRLIMIT, unix.SYS_UNAME, unix.SYS_SYSINFO,
	unix.SYS_GETRANDOM, unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
	// It replaces the program by another one with the same restrictions.
	unix.SYS_EXECVE,
}

// metadata are the calls that change a file without opening it. Landlock does not restrict
// them, so they are allowed only if the program has its own root folder.
var metadata = []uint32{unix.SYS_FCHMODAT, unix.SYS_UTIMENSAT}

// refused are the calls that fail with EPERM, which programs explain best. All other calls
// fail with ENOSYS, so that the C library uses an older call: with EPERM from clone3, it could
// start no thread.
var refused = []uint32{
	unix.SYS_EXECVEAT, unix.SYS_SOCKET, unix.SYS_CONNECT, unix.SYS_BIND,
	unix.SYS_LISTEN, unix.SYS_ACCEPT, unix.SYS_ACCEPT4, unix.SYS_SETSOCKOPT,
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_TKILL,

	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_UNSHARE, unix.SYS_SETNS,
	unix.SYS_SYMLINKAT, unix.SYS_LINKAT, unix.SYS_MKNODAT,
	unix.SYS_FCHMODAT, unix.SYS_FCHOWN, unix.SYS_FCHOWNAT,
	unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR,
	unix.SYS_FREMOVEXATTR,
	unix.SYS_BPF, unix.SYS_USERFAULTFD, unix.SYS_PERF_EVENT_OPEN, unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER,
	unix.SYS_IO_URING_REGISTER, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_INIT_MODULE,
	unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_MEMFD_CREATE,
	unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_MSGGET, unix.SYS_SEMGET, unix.SYS_MQ_OPEN, unix.SYS_SETUID, unix.SYS_SETGID,
	unix.SYS_SETREUID, unix.SYS_SETREGID, unix.SYS_SETRESUID, unix.SYS_SETRESGID,
	unix.SYS_SETGROUPS, unix.SYS_CAPSET, unix.SYS_SETRLIMIT,
	unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SETPRIORITY,
	unix.SYS_PERSONALITY, unix.SYS_SETSID, unix.SYS_SETPGID, unix.SYS_SETHOSTNAME, unix.SYS_REBOOT, unix.SYS_QUOTACTL,
	unix.SYS_SYSLOG, unix.SYS_OPEN_BY_HANDLE_AT,
}

// A word is 32 bits of the input of a seccomp program.
type word uint32

const (
	number       word = 0
	architecture word = 4
)

// argument returns the lower half of an argument: all that the kernel uses of an int. The
// upper half is the next word.
func argument(n int) word { return word(16 + 8*n) }

// A test is a condition on a word.
type test struct {
	word  word
	cond  bpf.JumpTest
	value uint32
}

// A rule allows a call if all tests of one of the cases hold. Otherwise the call fails with
// EPERM.
type rule struct {
	call  uint32
	cases [][]test
}

// anyOf returns the rule that an argument of a call must have one of the values.
func anyOf(call uint32, n int, values ...uint32) rule {
	r := rule{call: call}
	for _, v := range values {
		r.cases = append(r.cases, []test{{argument(n), bpf.JumpEqual, v}})
	}
	return r
}

// rules returns the rules for calls that depend on their arguments.
func rules(pid uint32) []rule {
	const namespaces = unix.CLONE_NEWNS | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
		unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP
	list := []rule{
		{unix.SYS_CLONE, [][]test{{{argument(0), bpf.JumpBitsSet, unix.CLONE_THREAD}, {argument(0), bpf.JumpBitsNotSet, namespaces}}}},
		// The times of an open file: the path is a null pointer.
		{unix.SYS_UTIMENSAT, [][]test{{{argument(1), bpf.JumpEqual, 0}, {argument(1) + 4, bpf.JumpEqual, 0}}}},
		anyOf(unix.SYS_IOCTL, 1, unix.TCGETS, unix.TIOCGWINSZ, fionread, fionbio, fioclex, fionclex),
		// Not F_SETOWN, which can make the kernel signal any process.
		anyOf(unix.SYS_FCNTL, 1, unix.F_DUPFD, unix.F_DUPFD_CLOEXEC, unix.F_GETFD, unix.F_SETFD, unix.F_GETFL, unix.F_SETFL,
			unix.F_GETLK, unix.F_SETLK, unix.F_SETLKW, unix.F_OFD_GETLK, unix.F_OFD_SETLK, unix.F_OFD_SETLKW, unix.F_GETPIPE_SZ),
		anyOf(unix.SYS_PRCTL, 0, unix.PR_SET_NAME, unix.PR_GET_NAME, unix.PR_GET_NO_NEW_PRIVS, unix.PR_GET_SECCOMP,
			unix.PR_CAPBSET_READ, unix.PR_SET_VMA),
		anyOf(unix.SYS_PRLIMIT64, 0, 0),
		anyOf(unix.SYS_SCHED_SETAFFINITY, 0, 0),
	}
	for _, call := range []uint32{unix.SYS_KILL, unix.SYS_TGKILL, unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_TGSIGQUEUEINFO} {
		list = append(list, anyOf(call, 0, pid))
	}
	// A pair is connected only to itself, and event loops need one. A datagram socket could
	// send to any address.
	pair := rule{call: unix.SYS_SOCKETPAIR}
	for _, flags := range []uint32{0, unix.SOCK_CLOEXEC, unix.SOCK_NONBLOCK, unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK} {
		pair.cases = append(pair.cases, []test{
			{argument(0), bpf.JumpEqual, unix.AF_UNIX},
			{argument(1), bpf.JumpEqual, unix.SOCK_STREAM | flags},
		})
	}
	return append(list, pair)
}

// Requests of ioctl that x/sys does not name.
const (
	fionread = 0x541b
	fionbio  = 0x5421
	fionclex = 0x5450
	fioclex  = 0x5451
)

// The results of a seccomp program.
var (
	pass    = bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}
	refuse  = bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)}
	unknown = bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)}
)

// load reads a word.
func load(w word) bpf.Instruction { return bpf.LoadAbsolute{Off: uint32(w), Size: 4} }

// filter returns the seccomp program for the process pid. A program with a private root may
// also change the metadata of files.
func filter(pid int, privateRoot bool) ([]bpf.RawInstruction, error) {
	program := []bpf.Instruction{
		load(architecture),
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: auditArch, SkipTrue: 1},
		unknown,
		load(number),
		// The other table of x86-64. On arm64 there are no such numbers.
		bpf.JumpIf{Cond: bpf.JumpLessThan, Val: 0x40000000, SkipTrue: 1},
		unknown,
	}
	answer := func(calls []uint32, with bpf.Instruction) {
		for _, call := range calls {
			program = append(program, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: call, SkipTrue: 1}, with)
		}
	}
	answer(slices.Concat(allowed, allowedOld), pass)
	if privateRoot {
		answer(slices.Concat(metadata, metadataOld), pass)
	}
	for _, r := range rules(uint32(pid)) {
		// Every path through a block returns: after it, the number would be lost.
		block := r.block()
		program = append(program, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: r.call, SkipTrue: uint8(len(block))})
		program = append(program, block...)
	}
	answer(slices.Concat(refused, refusedOld), refuse)
	return bpf.Assemble(append(program, unknown))
}

// block returns the instructions for the call of a rule.
func (r rule) block() []bpf.Instruction {
	var block []bpf.Instruction
	for _, tests := range r.cases {
		for i, t := range tests {
			toNextCase := 2*(len(tests)-i-1) + 1
			block = append(block, load(t.word), bpf.JumpIf{Cond: t.cond, Val: t.value, SkipFalse: uint8(toNextCase)})
		}
		block = append(block, pass)
	}
	return append(block, refuse)
}

// loadFilter loads a seccomp program for the calling thread, and for what it executes.
func loadFilter(program []bpf.RawInstruction) error {
	filters := make([]unix.SockFilter, len(program))
	for i, in := range program {
		filters[i] = unix.SockFilter{Code: in.Op, Jt: in.Jt, Jf: in.Jf, K: in.K}
	}
	prog := unix.SockFprog{Len: uint16(len(filters)), Filter: &filters[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return fmt.Errorf("seccomp: %w", errno)
	}
	return nil
}
