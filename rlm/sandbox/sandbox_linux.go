package sandbox

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/wirectl/wirectl/rlm/env"
)

// A system is a way in which Linux isolates programs.
type system struct {
	namespaces bool   // the launcher is started in its own namespaces
	bwrap      string // otherwise, the path of the program that makes them
	// With neither, only Landlock and seccomp isolate.
	cgroup bool // each program gets a cgroup
}

// private reports whether the program has its own root folder.
func (y system) private() bool { return y.namespaces || y.bwrap != "" }

// Probe finds out what can isolate on this machine, by doing what [Launcher.Start] does,
// without the program. If nothing can, the error is an [*UnavailableError].
func Probe(ctx context.Context) (*Launcher, error) {
	ways := []system{{namespaces: true}}
	bwrap, err := exec.LookPath("bwrap")
	if err == nil {
		ways = append(ways, system{bwrap: bwrap})
	}
	ways = append(ways, system{})
	unavailable := &UnavailableError{}
	for _, way := range ways {
		l, err := way.probe(ctx)
		if err == nil {
			return l, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		unavailable.Reasons = append(unavailable.Reasons, way.String()+": "+err.Error())
	}
	unavailable.Help = help(bwrap == "")
	return nil, unavailable
}

func (y system) String() string {
	switch {
	case y.namespaces:
		return "namespaces"
	case y.bwrap != "":
		return "bwrap"
	}
	return "Landlock"
}

// probe tries one way.
func (y system) probe(ctx context.Context) (*Launcher, error) {
	folder, err := env.NewFolder()
	if err != nil {
		return nil, err
	}
	defer func() { _ = folder.Remove() }()
	dir, err := filepath.Abs(folder.Path) // TMPDIR may be relative
	if err != nil {
		return nil, err
	}
	y.cgroup = true
	p, said, err := y.spawn(ctx, env.Spec{Dir: dir, Memory: 1 << 30}, true)
	if err != nil {
		return nil, err
	}
	if err := p.Wait(); err != nil {
		return nil, err
	}
	r := Report{}
	if y.private() {
		r.Holds = append(r.Holds, y.String())
	} else {
		r.Lacks = append(r.Lacks, "namespaces")
	}
	abi := 0
	for _, word := range said {
		if n, ok := strings.CutPrefix(word, "landlock "); ok {
			abi, _ = strconv.Atoi(n)
		}
	}
	if abi > 0 {
		r.Holds = append(r.Holds, fmt.Sprintf("Landlock ABI %d", abi))
	} else {
		r.Lacks = append(r.Lacks, "Landlock")
	}
	r.Holds = append(r.Holds, "seccomp", "rlimits")
	if y.private() && !slices.Contains(said, "proc") {
		r.Lacks = append(r.Lacks, "/proc")
	}
	if y.cgroup = slices.Contains(said, "cgroup"); y.cgroup {
		r.Holds = append(r.Holds, "cgroup")
	} else {
		r.Lacks = append(r.Lacks, "cgroup")
	}
	return &Launcher{report: r, system: y}, nil
}

// help returns suggestions for making isolation possible on this machine.
func help(noBwrap bool) []string {
	var list []string
	for _, setting := range []struct{ path, bad, want string }{
		{"kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"},
		{"kernel/apparmor_restrict_unprivileged_userns", "1", "kernel.apparmor_restrict_unprivileged_userns=0"},
		{"user/max_user_namespaces", "0", "user.max_user_namespaces=10000"},
	} {
		value, err := os.ReadFile("/proc/sys/" + setting.path)
		if err == nil && strings.TrimSpace(string(value)) == setting.bad {
			list = append(list, "allow user namespaces: sysctl -w "+setting.want)
		}
	}
	if noBwrap {
		list = append(list, "install bubblewrap, for example with: apt install bubblewrap")
	}
	return append(list, "use a kernel of 6.2 or newer with Landlock", "or accept the risk with --unsandboxed")
}

func (y system) start(ctx context.Context, s env.Spec) (env.Process, error) {
	p, _, err := y.spawn(ctx, s, false)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// spawn starts a launcher, gives it its order and waits until it is about to become the
// program, or, for a check, about to end. It returns the messages of the launcher.
func (y system) spawn(ctx context.Context, s env.Spec, check bool) (_ *running, said []string, err error) {
	o := newOrder(y, s, check)
	orders, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer w.Close()
	answers, stderr, err := os.Pipe()
	if err != nil {
		orders.Close()
		return nil, nil, err
	}
	defer answers.Close()
	cmd, err := y.command(o, len(s.Files))
	if err != nil {
		orders.Close()
		stderr.Close()
		return nil, nil, err
	}
	wired(cmd, s)
	cmd.ExtraFiles = append(slices.Clone(s.Files), orders)
	cmd.Stderr = stderr

	var group *cgroup
	if y.cgroup {
		group = newCgroup(s.Memory)
	}
	p, err := y.run(cmd, group)
	orders.Close()
	stderr.Close()
	if err != nil {
		group.remove()
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, p.Kill)
	defer func() {
		if !stop() && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			p.Kill()
			_ = p.Wait()
		}
	}()
	joined := group.join(p.pid)
	if joined != nil && !check {
		return nil, nil, joined
	}
	order, err := json.Marshal(o)
	if err != nil {
		return nil, nil, err
	}
	// If the launcher has ended, its messages say why.
	_, _ = w.Write(order)
	w.Close()
	said, err = listen(answers)
	if group != nil && joined == nil {
		said = append(said, "cgroup")
	}
	return p, said, err
}

// listen reads the messages of a launcher until it is ready.
func listen(answers *os.File) (said []string, err error) {
	lines := bufio.NewScanner(answers)
	for lines.Scan() {
		if lines.Text() == ready {
			return said, nil
		}
		said = append(said, lines.Text())
	}
	if text := strings.Join(said, " "); text != "" {
		return nil, errors.New(strings.TrimPrefix(text, failed))
	}
	return nil, errNoLauncher
}

// A running is a launcher, and later the program.
type running struct {
	process
	pid int // of the program's process
}

// run starts a command that ends with the thread that has started it, and so also if this
// process is killed. The thread is therefore kept until the command has ended.
func (y system) run(cmd *exec.Cmd, group *cgroup) (*running, error) {
	var info, infoWriter *os.File
	if y.bwrap != "" {
		var err error
		if info, infoWriter, err = os.Pipe(); err != nil {
			return nil, err
		}
		defer info.Close()
		cmd.ExtraFiles = append(cmd.ExtraFiles, infoWriter)
	}
	p := &running{process: process{ended: make(chan struct{})}}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		group.remove()
		close(p.ended)
	}()
	err := <-started
	if infoWriter != nil {
		infoWriter.Close()
	}
	switch {
	case err != nil && y.namespaces:
		return nil, fmt.Errorf("make user namespaces: %w", err)
	case err != nil:
		return nil, err
	}
	p.pid = cmd.Process.Pid
	p.kill = func() { _ = cmd.Process.Kill() }
	if y.bwrap == "" {
		return p, nil
	}
	// Wait returns when bwrap has ended, which is after the program. So the program has to be
	// killed.
	var child struct {
		Pid int `json:"child-pid"`
	}
	if err := json.NewDecoder(info).Decode(&child); err != nil {
		return p, nil // It has failed, and writes why to its standard error.
	}
	inner, err := os.FindProcess(child.Pid)
	if err != nil {
		return p, nil
	}
	p.pid = child.Pid
	p.kill = func() { _ = inner.Kill() }
	return p, nil
}

// command returns the command that starts the launcher for a program with that many files.
func (y system) command(o order, files int) (*exec.Cmd, error) {
	attributes := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	var cmd *exec.Cmd
	if y.bwrap != "" {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		cmd = exec.Command(y.bwrap, bwrapArguments(o, self, files)...) //nolint:noctx // it outlives the context
	} else {
		cmd = exec.Command("/proc/self/exe", strconv.Itoa(files)) //nolint:noctx // it outlives the context
		cmd.Args[0] = launcherName
	}
	if y.namespaces {
		attributes.Cloneflags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
			unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
		attributes.UidMappings = []syscall.SysProcIDMap{{ContainerID: insideID, HostID: os.Geteuid(), Size: 1}}
		attributes.GidMappings = []syscall.SysProcIDMap{{ContainerID: insideID, HostID: os.Getegid(), Size: 1}}
		// A user other than root has its capabilities only if they are ambient.
		attributes.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP}
	}
	cmd.Env = []string{"GOGC=off"} // the launcher gets no keys, and ends before it has much garbage
	cmd.SysProcAttr = attributes
	return cmd, nil
}

// insideID is the user and the group of the program, as it sees them.
const insideID = 1000

// bwrapArguments returns the arguments with which bwrap does what enterRoot does.
func bwrapArguments(o order, self string, files int) []string {
	list := []string{
		"--unshare-all", "--die-with-parent", "--new-session", "--as-pid-1", "--clearenv", "--cap-drop", "ALL",
		"--setenv", "GOGC", "off", "--hostname", hostName, "--info-fd", strconv.Itoa(firstFile + files + 1), "--proc", "/proc", "--dir", "/tmp",
	}
	for _, b := range o.View.Binds {
		how := "--ro-bind"
		if b == o.View.Session {
			how = "--bind"
		}
		list = append(list, how, b, b)
	}
	for _, device := range devices {
		list = append(list, "--dev-bind", device, device)
	}
	for _, l := range o.View.Links {
		list = append(list, "--symlink", l.Target, l.Path)
	}
	inside := "/" + launcherName
	list = append(list, "--ro-bind", self, inside)
	return append(list, "--remount-ro", "/", "--chdir", o.View.Session, "--", inside, strconv.Itoa(files))
}
