package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/wirectl/wirectl/rlm/env"
)

// launcherName is the name of a process that is a launcher.
const launcherName = "wirectl-sandbox"

// Messages of a launcher on standard error, in addition to those for the report.
const (
	ready  = "ready"
	failed = "failed: "
)

// firstFile is the first descriptor after the standard ones.
const firstFile = 3

var errNoLauncher = errors.New("the launcher ended before it said why; does the program call sandbox.Main?")

// An order tells a launcher what to do. It is sent over a pipe once the launcher is in its
// cgroup. The pipe's descriptor follows those of the program.
type order struct {
	Namespaces bool // build the root
	Private    bool // the program has its own root
	Check      bool // do not become the program
	View       view
	Path       string
	Args, Env  []string
	Dir        string
	Memory     int64
}

func newOrder(y system, s env.Spec, check bool) order {
	return order{
		Namespaces: y.namespaces, Private: y.private(), Check: check, View: see(s),
		Path: s.Path, Args: append([]string{s.Path}, s.Args...), Env: s.Env, Dir: s.Dir, Memory: s.Memory,
	}
}

// Main is the launcher. In any other process, it returns at once. A program that uses this
// package must call it first, and so must TestMain.
func Main() {
	if filepath.Base(os.Args[0]) != launcherName || len(os.Args) != 2 {
		return
	}
	runtime.LockOSThread() // restrictions apply to a thread, which must be the one that becomes the program
	answers, err := unix.FcntlInt(2, unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		err = launch(answers)
	}
	fmt.Fprintf(os.NewFile(uintptr(answers), "answers"), "%s%v\n", failed, err)
	unix.Exit(1)
}

// launch executes the order. It returns only if that fails.
func launch(answers int) error {
	files, err := strconv.Atoi(os.Args[1])
	if err != nil {
		return err
	}
	o, err := readOrder(firstFile + files)
	if err != nil {
		return err
	}
	// The signal that was set at the start is for the first thread, and this may be another
	// one. If the parent has died already, writing that the launcher is ready will end it.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("parent death signal: %w", err)
	}
	if o.Namespaces {
		if err := enterRoot(o.View); err != nil {
			return fmt.Errorf("build a root folder: %w", err)
		}
		if err := unix.Sethostname([]byte(hostName)); err != nil {
			return err
		}
	}
	if err := os.Chdir(o.Dir); err != nil {
		return err
	}
	// Other inherited descriptors are not for the program.
	if err := unix.CloseRange(uint(firstFile+files), ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("close_range: %w", err)
	}
	abi, err := ll.LandlockGetABIVersion()
	if err != nil {
		abi = 0
	}
	if err := limit(o, abi); err != nil {
		return err
	}
	if err := dropCapabilities(); err != nil {
		return err
	}
	if err := restrict(o, abi); err != nil {
		return err
	}
	said := fmt.Sprintf("landlock %d\n", abi)
	if _, err := os.Stat("/proc/self"); err == nil && o.Private {
		said += "proc\n"
	}
	said += ready + "\n"
	program, err := filter(os.Getpid(), o.Private)
	if err != nil {
		return err
	}
	return become(o, program, answers, said)
}

func readOrder(fd int) (o order, err error) {
	f := os.NewFile(uintptr(fd), "order")
	defer f.Close()
	return o, json.NewDecoder(f).Decode(&o)
}

// limit sets the limits that the launcher itself does not exceed.
func limit(o order, abi int) error {
	limits := map[int]uint64{
		unix.RLIMIT_CORE: 0, unix.RLIMIT_CPU: maxCPU, unix.RLIMIT_FSIZE: maxFile,
		unix.RLIMIT_NOFILE: maxOpenFiles, unix.RLIMIT_MSGQUEUE: 0,
	}
	// Kernels with Landlock ABI 2 count processes for each user namespace. Older ones would
	// count all processes of the user.
	if (o.Namespaces || ownUsers()) && abi >= 2 {
		limits[unix.RLIMIT_NPROC] = maxThreads
	}
	for which, most := range limits {
		var now unix.Rlimit
		if err := unix.Getrlimit(which, &now); err != nil {
			return fmt.Errorf("getrlimit: %w", err)
		}
		most = min(most, now.Max)
		if err := unix.Prlimit(0, which, &unix.Rlimit{Cur: most, Max: most}, nil); err != nil {
			return fmt.Errorf("setrlimit: %w", err)
		}
	}
	return nil
}

// ownUsers reports whether bwrap has made a user namespace, which has one user.
func ownUsers() bool {
	users, err := os.ReadFile("/proc/self/uid_map")
	fields := strings.Fields(string(users))
	return err == nil && len(fields) == 3 && fields[2] == "1"
}

// dropCapabilities gives up all capabilities, so that the program cannot regain them.
func dropCapabilities() error {
	for c := uintptr(0); c < 64; c++ {
		// If it fails, there is no such capability to regain.
		_ = unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return fmt.Errorf("capset: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	return nil
}

// minLandlock is the first version that prevents files from being truncated. It is needed if
// only Landlock isolates.
const minLandlock = 3

// The access that Landlock allows. In the session folder, it allows no links, devices, pipes or
// sockets, so that programs that open files there later are safe.
const (
	readFile    = ll.AccessFSReadFile
	readFolder  = readFile | ll.AccessFSReadDir
	runFile     = readFile | ll.AccessFSExecute
	runFolder   = readFolder | ll.AccessFSExecute
	writeFolder = readFolder | ll.AccessFSWriteFile | ll.AccessFSTruncate | ll.AccessFSRemoveDir | ll.AccessFSRemoveFile |
		ll.AccessFSMakeDir | ll.AccessFSMakeReg
)

// restrict restricts the process by Landlock, as far as the kernel supports it.
func restrict(o order, abi int) error {
	if abi < minLandlock && !o.Private {
		return fmt.Errorf("without namespaces it needs Landlock ABI %d or newer, and this kernel has %d", minLandlock, abi)
	}
	if abi < 1 {
		return nil
	}
	rules := []landlock.Rule{landlock.PathAccess(writeFolder, o.View.Session)}
	for _, path := range o.View.Binds {
		if path == o.View.Session {
			continue
		}
		access := landlock.AccessFSSet(runFile)
		if info, err := os.Stat(path); err != nil {
			return err
		} else if info.IsDir() {
			access = runFolder
		}
		rules = append(rules, landlock.PathAccess(access, path))
	}
	rules = append(rules, landlock.PathAccess(readFile|ll.AccessFSWriteFile, "/dev/null").IgnoreIfMissing())
	for _, device := range devices {
		rules = append(rules, landlock.PathAccess(readFile, device).IgnoreIfMissing())
	}
	if o.Private {
		rules = append(rules, landlock.PathAccess(readFolder, "/proc").IgnoreIfMissing(),
			landlock.PathAccess(ll.AccessFSReadDir, "/tmp").IgnoreIfMissing())
	}
	if err := landlock.V11.BestEffort().Restrict(rules...); err != nil {
		return fmt.Errorf("landlock: %w", err)
	}
	return nil
}

// become replaces the launcher by the program.
func become(o order, program []bpf.RawInstruction, answers int, said string) error {
	if err := unix.Access(o.Path, unix.X_OK); err != nil && !o.Check {
		return fmt.Errorf("execute %s: %w", o.Path, err)
	}
	path, err := syscall.BytePtrFromString(o.Path)
	if err != nil {
		return err
	}
	args, err := syscall.SlicePtrFromStrings(o.Args)
	if err != nil {
		return err
	}
	environment, err := syscall.SlicePtrFromStrings(o.Env)
	if err != nil {
		return err
	}
	null, err := unix.Open("/dev/null", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := unix.Dup3(null, 2, 0); err != nil {
		return err
	}
	memory := unix.Rlimit{Cur: uint64(o.Memory), Max: uint64(o.Memory)}
	if err := loadFilter(program); err != nil {
		return err
	}
	if _, err := unix.Write(answers, []byte(said)); err != nil {
		return err
	}
	if o.Check {
		unix.Exit(0)
	}
	// The address space of the launcher may already exceed the limit. From here on, it must
	// not grow, so nothing is allocated.
	var errno syscall.Errno
	if o.Memory > 0 {
		_, _, errno = syscall.RawSyscall6(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_AS, uintptr(unsafe.Pointer(&memory)), 0, 0, 0)
	}
	if errno == 0 {
		_, _, _ = syscall.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(path)), uintptr(unsafe.Pointer(&args[0])), uintptr(unsafe.Pointer(&environment[0])))
	}
	_, _, _ = syscall.RawSyscall(unix.SYS_EXIT_GROUP, 126, 0, 0)
	return errors.New("unreachable")
}
