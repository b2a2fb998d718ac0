package sandbox

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/wirectl/wirectl/rlm/env"
)

// hostWay makes the test binary run as a wirectl that has started a program and is then killed.
const hostWay = "SANDBOX_TEST_WAY"

func TestMain(m *testing.M) {
	Main()
	var err error
	switch way := os.Getenv(hostWay); way {
	case "":
		goleak.VerifyTestMain(m)
		return
	case "poor":
		err = impoverish()
	case "none":
		_, err = Probe(context.Background())
		if unavailable := new(UnavailableError); errors.As(err, &unavailable) {
			err = fmt.Errorf("%w; %s", err, strings.Join(unavailable.Help, "; "))
		}
	default:
		err = host(way)
	}
	fmt.Println(err)
	os.Exit(1)
}

// interpreter returns the machine's Python, and its installation.
var interpreter = sync.OnceValues(func() ([]string, error) {
	script := "import os, sys\nprint(os.path.realpath(sys.executable))\nprint(sys.base_prefix)"
	out, err := exec.Command("python3", "-I", "-c", script).Output()
	return strings.Fields(string(out)), err
})

// demand skips the test if the machine lacks a program, or fails it in CI.
func demand(t *testing.T, err error) {
	t.Helper()
	switch {
	case err == nil:
	case os.Getenv("CI") != "":
		t.Fatal(err)
	default:
		t.Skip(err)
	}
}

// script returns the start of a Python script in its own session folder.
func script(t *testing.T, file string) env.Spec {
	t.Helper()
	python, err := interpreter()
	demand(t, err)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	return env.Spec{
		Path: python[0], Args: []string{"-I", "-B", "-X", "utf8", "-c", string(code)},
		Env: []string{"ONLY=this"}, Dir: dir, Read: []string{python[1]}, Memory: 4 << 30,
	}
}

// ways runs a test in each way of isolation that works on this machine. It checks that Probe
// does not use the others.
func ways(t *testing.T, test func(*testing.T, *Launcher)) {
	t.Run("namespaces", func(t *testing.T) { way(t, system{namespaces: true}, test) })
	t.Run("bwrap", func(t *testing.T) {
		bwrap, err := exec.LookPath("bwrap")
		demand(t, err)
		way(t, system{bwrap: bwrap}, test)
	})
	t.Run("Landlock", func(t *testing.T) { way(t, system{}, test) })
}

func way(t *testing.T, y system, test func(*testing.T, *Launcher)) {
	l, err := y.probe(t.Context())
	if err == nil {
		test(t, l)
		return
	}
	t.Log(err)
	best, probed := Probe(t.Context())
	if unavailable := new(UnavailableError); errors.As(probed, &unavailable) {
		if len(unavailable.Reasons) < 2 || len(unavailable.Help) == 0 {
			t.Errorf("nothing isolates, and the error does not say enough: %+v", unavailable)
		}
	} else if probed != nil || best.system.String() == y.String() {
		t.Errorf("%v fails with %v, and Probe returns %+v, %v", y, err, best, probed)
	}
	if p, err := (&Launcher{system: y}).Start(t.Context(), env.Spec{Path: "/bin/true", Dir: t.TempDir()}); err == nil {
		t.Errorf("the way fails, and yet starts a program: %v", p.Wait())
	}
}

// output runs a program to its end and returns its output.
func output(t *testing.T, l *Launcher, s env.Spec) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s.Stdout = w
	p, err := l.Start(t.Context(), s)
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(r)
	if err := errors.Join(err, p.Wait()); err != nil {
		t.Fatalf("%v after:\n%s", err, out)
	}
	return string(out)
}

// Ordinary code works as usual.
func TestWorks(t *testing.T) {
	ways(t, func(t *testing.T, l *Launcher) {
		readable := filepath.Join(t.TempDir(), "readable")
		s := script(t, "works.py")
		s.Args = append(s.Args, s.Dir, readable)
		s.Read = append(s.Read, readable)
		for path, text := range map[string]string{readable: "readable", filepath.Join(s.Dir, "context"): "needle"} {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		ours, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
		defer ours.Close()
		s.Files = []*os.File{theirs}
		if _, err := ours.WriteString("ping"); err != nil {
			t.Fatal(err)
		}
		if got := output(t, l, s); got != "works\n" {
			t.Errorf("printed %q", got)
		}
		theirs.Close()
		if got, err := io.ReadAll(ours); string(got) != "pong" || err != nil {
			t.Errorf("the socket brought %q, %v", got, err)
		}
	})
}

// Hostile code reaches nothing outside its session folder, and leaves nothing there that leads
// elsewhere.
func TestEscapes(t *testing.T) {
	t.Setenv("SANDBOX_TEST_SECRET", "secret")
	ways(t, func(t *testing.T, l *Launcher) {
		outside := t.TempDir()
		secret := filepath.Join(outside, "secret")
		readable := filepath.Join(t.TempDir(), "readable")
		for _, path := range []string{secret, readable} {
			if err := os.WriteFile(path, []byte("secret"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		reached := listeners(t, outside)
		// Inherited descriptors of wirectl are not passed on.
		inherited, err := unix.Dup(1)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(inherited)
		s := script(t, "escape.py")
		s.Read = append(s.Read, readable)
		reached.facts["secret"], reached.facts["outside"], reached.facts["pid"] = secret, outside, os.Getpid()
		reached.facts["readable"], reached.facts["readable_outside"] = readable, readable
		reached.facts["private"] = l.system.private()
		facts, err := json.Marshal(reached.facts)
		if err != nil {
			t.Fatal(err)
		}
		s.Args = append(s.Args, string(facts))
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		ours, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
		defer ours.Close()
		defer theirs.Close()
		s.Files = []*os.File{theirs}
		before := state(t, outside)
		out := output(t, l, s)
		if !strings.HasSuffix(out, "\nend\n") || strings.Count(out, "\n") < 90 {
			t.Errorf("the script did not get to its end:\n%s", out)
		}
		for line := range strings.Lines(out) {
			if strings.Contains(line, "REACHED") {
				t.Errorf("%s", line)
			}
		}
		if diff := cmp.Diff(before, state(t, outside)); diff != "" {
			t.Errorf("the script changed what is outside:\n%s", diff)
		}
		reached.check(t)
		plain(t, s.Dir)
	})
}

// A reachable is a set of listeners that hostile code might reach.
type reachable struct {
	facts   map[string]any
	streams []net.Listener
	packets net.PacketConn
}

func listeners(t *testing.T, dir string) *reachable {
	t.Helper()
	abstract := fmt.Sprintf("wirectl-sandbox-test-%d-%s", os.Getpid(), filepath.Base(dir))
	path := filepath.Join(dir, "socket")
	r := &reachable{facts: map[string]any{"abstract": abstract, "unix": path}}
	for _, address := range [][2]string{{"tcp", "127.0.0.1:0"}, {"unix", "@" + abstract}, {"unix", path}} {
		l, err := net.Listen(address[0], address[1])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		r.streams = append(r.streams, l)
	}
	var err error
	if r.packets, err = net.ListenPacket("udp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.packets.Close() })
	r.facts["tcp"] = r.streams[0].Addr().(*net.TCPAddr).Port
	r.facts["udp"] = r.packets.LocalAddr().(*net.UDPAddr).Port
	return r
}

// check checks that nobody has connected to a listener. The kernel queues a connection before
// the other side's call returns.
func (r *reachable) check(t *testing.T) {
	t.Helper()
	for _, l := range r.streams {
		waiting(t, l.(interface{ File() (*os.File, error) }), l.Addr())
	}
	waiting(t, r.packets.(*net.UDPConn), r.packets.LocalAddr())
}

func waiting(t *testing.T, l interface{ File() (*os.File, error) }, at net.Addr) {
	t.Helper()
	f, err := l.File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	poll := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLIN}}
	if n, err := unix.Poll(poll, 0); n != 0 || err != nil {
		t.Errorf("something has come to %v: %d, %v", at, n, err)
	}
}

// state describes the contents of a folder.
func state(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := ""
		if info.Mode().IsRegular() {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text = string(b)
		}
		found[path] = fmt.Sprint(info.Mode(), info.ModTime(), text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// plain checks that a session folder contains only files and folders.
func plain(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !d.Type().IsRegular() {
			t.Errorf("%s is a %v", path, d.Type())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A thread bomb ends at the limit of the cgroup or of the user namespace. Without either, it
// ends at the memory limit, because a thread takes 8 MiB here.
func TestBomb(t *testing.T) {
	ways(t, func(t *testing.T, l *Launcher) {
		s := script(t, "bomb.py")
		stack := 64 << 10
		if !slices.Contains(l.Report().Holds, "cgroup") && (!l.system.private() || os.Geteuid() == 0) {
			stack = 8 << 20
		}
		s.Args = append(s.Args, strconv.Itoa(stack))
		got := output(t, l, s)
		n, err := strconv.Atoi(strings.TrimSpace(got))
		if err != nil || n > maxThreads {
			t.Errorf("printed %q, want a number of threads up to %d", got, maxThreads)
		}
	})
}

// The memory limit holds even if the launcher itself exceeds it.
func TestMemory(t *testing.T) {
	ways(t, func(t *testing.T, l *Launcher) {
		s := script(t, "bomb.py")
		s.Memory = 256 << 20
		s.Args = append(s.Args, strconv.Itoa(8<<20))
		got := output(t, l, s)
		if n, err := strconv.Atoi(strings.TrimSpace(got)); err != nil || n > 32 {
			t.Errorf("printed %q, want a number of threads up to 32", got)
		}
	})
}

// asleep starts a program that ignores all signals that can be ignored.
func asleep(t *testing.T, l *Launcher) *running {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	s := script(t, "sleep.py")
	s.Stdout = w
	p, err := l.Start(t.Context(), s)
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(r).ReadString('\n'); err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	return p.(*running)
}

// Wait returns once a killed program is gone, with its cgroup.
func TestKill(t *testing.T) {
	ways(t, func(t *testing.T, l *Launcher) {
		p := asleep(t, l)
		folders := groups(t, p.pid)
		if slices.Contains(l.Report().Holds, "cgroup") != (len(folders) > 0) {
			t.Errorf("%v, and the cgroups of the program are %q", l.Report(), folders)
		}
		p.Kill()
		if err := p.Wait(); err == nil {
			t.Error("a killed program ended well")
		}
		p.Kill()
		if err := unix.Kill(p.pid, 0); !errors.Is(err, unix.ESRCH) {
			t.Errorf("the program is still there: %v", err)
		}
		for _, folder := range folders {
			if _, err := os.Stat(folder); err == nil {
				t.Errorf("%s is left", folder)
			}
		}
	})
}

// groups returns the cgroups that were created for a process.
func groups(t *testing.T, pid int) (folders []string) {
	t.Helper()
	table, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(table)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) == 3 && strings.Contains(fields[2], cgroupPrefix) {
			folders = append(folders, filepath.Join("/sys/fs/cgroup", fields[1], fields[2]))
		}
	}
	return folders
}

// The program dies with wirectl, even if that is killed.
func TestHostKilled(t *testing.T) {
	ways(t, func(t *testing.T, l *Launcher) {
		python, err := interpreter()
		demand(t, err)
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), self, python[0], python[1], t.TempDir())
		cmd.Env = append(os.Environ(), hostWay+"="+l.system.String())
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(stdout).ReadString('\n')
		pid, bad := strconv.Atoi(strings.TrimSpace(line))
		if err := errors.Join(err, bad); err != nil {
			t.Fatal(err)
		}
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(poll, 60_000)
		for errors.Is(err, unix.EINTR) {
			n, err = unix.Poll(poll, 60_000)
		}
		if n != 1 || err != nil {
			t.Errorf("the program outlives us: %d, %v", n, err)
		}
	})
}

// Leftovers of a killed wirectl are removed by the next one, and nothing else is.
func TestSweep(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	gone := exec.CommandContext(t.Context(), self, "-test.run=^$")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	base := t.TempDir()
	left := filepath.Join(base, fmt.Sprintf("%s%d-1", cgroupPrefix, gone.Process.Pid))
	ours := filepath.Join(base, fmt.Sprintf("%s%d-1", cgroupPrefix, os.Getpid()))
	other := filepath.Join(base, cgroupPrefix+"x")
	for _, folder := range []string{left, ours, other} {
		if err := os.Mkdir(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	sweep(base)
	got, err := filepath.Glob(filepath.Join(base, "*"))
	if want := []string{ours, other}; !slices.Equal(got, want) || err != nil {
		t.Errorf("%q are left, want %q; %v", got, want, err)
	}
}

// host starts a program, prints its process and waits to be killed.
func host(name string) error {
	way := system{namespaces: name == "namespaces"}
	if name == "bwrap" {
		way.bwrap, _ = exec.LookPath("bwrap")
	}
	l := &Launcher{system: way}
	code, err := os.ReadFile(filepath.Join("testdata", "sleep.py"))
	if err != nil {
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	p, err := l.Start(context.Background(), env.Spec{
		Path: os.Args[1], Args: []string{"-I", "-c", string(code)}, Read: []string{os.Args[2]}, Dir: os.Args[3], Stdout: w,
	})
	if err != nil {
		return err
	}
	if _, err := r.Read(make([]byte, 1)); err != nil {
		return err
	}
	fmt.Println(p.(*running).pid)
	return p.Wait()
}

// A start that fails returns the reason, and leaves nothing behind.
func TestStartFails(t *testing.T) {
	ways(t, func(t *testing.T, l *Launcher) {
		dir := t.TempDir()
		ended, end := context.WithCancelCause(t.Context())
		end(errors.New("the run has ended"))
		for _, c := range []struct {
			ctx  context.Context
			spec env.Spec
			want string
		}{
			{t.Context(), env.Spec{Path: "/nowhere/python", Dir: dir}, "/nowhere/python"},
			{t.Context(), env.Spec{Path: "/bin/sh", Dir: filepath.Join(dir, "missing")}, "missing"},
			{t.Context(), env.Spec{Path: "python3", Dir: dir}, "absolute"},
			{ended, env.Spec{Path: "/bin/sh", Dir: dir}, "the run has ended"},
		} {
			p, err := l.Start(c.ctx, c.spec)
			if err == nil {
				t.Errorf("%+v starts: %v", c.spec, p.Wait())
			} else if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v: %v, want %q in it", c.spec, err, c.want)
			}
		}
	})
}

// If nothing isolates, Probe returns the reasons and suggestions.
func TestNothingIsolates(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = []string{hostWay + "=poor", "PATH=" + t.TempDir(), "TMPDIR=" + t.TempDir()}
	out, _ := cmd.CombinedOutput()
	for _, want := range []string{
		"nothing on this machine isolates code: namespaces: make user namespaces: ", "operation not permitted",
		"; Landlock: without namespaces it needs Landlock ABI 3 or newer, and this kernel has 0",
		"apt install bubblewrap", "--unsandboxed",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q lacks %q", out, want)
		}
	}
}

// impoverish runs Probe as on a kernel without user namespaces and Landlock.
func impoverish() error {
	runtime.LockOSThread()
	program, err := bpf.Assemble([]bpf.Instruction{
		load(number),
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SYS_LANDLOCK_CREATE_RULESET, SkipFalse: 1},
		unknown,
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SYS_CLONE3, SkipFalse: 1},
		unknown,
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SYS_CLONE, SkipFalse: 3},
		load(argument(0)),
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: unix.CLONE_NEWUSER, SkipFalse: 1},
		refuse,
		pass,
	})
	if err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if err := loadFilter(program); err != nil {
		return err
	}
	return unix.Exec("/proc/self/exe", os.Args, []string{hostWay + "=none", "PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir()})
}

// Paths are the same inside, even through symbolic links.
func TestView(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, folder := range []string{"real/bin", "real/lib", "session/in", "data"} {
		if err := os.MkdirAll(at(folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"link": "real", "real/bin/python": "../../data", "loop": "loop"} {
		if err := os.Symlink(target, at(name)); err != nil {
			t.Fatal(err)
		}
	}
	got := see(env.Spec{
		Path: at("link/bin/python"), Dir: at("session"),
		Read: []string{at("link/lib"), at("real"), at("session/in"), at("loop"), at("missing")},
	})
	inDir := func(path string) bool { return !strings.HasPrefix(path, dir+"/") }
	got.Binds = slices.DeleteFunc(got.Binds, inDir)
	got.Links = slices.DeleteFunc(got.Links, func(l link) bool { return inDir(l.Path) })
	want := view{
		Session: at("session"),
		Binds:   []string{at("data"), at("real"), at("session"), at("session/in")},
		Links:   []link{{at("link"), "real"}, {at("loop"), "loop"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the view differs (-want +got):\n%s", diff)
	}
}

// The filter allows only the listed calls, whatever the arguments are. In particular, no
// argument is mistaken for the number of a call.
func TestFilter(t *testing.T) {
	const pid = 4711
	for _, private := range []bool{false, true} {
		raw, err := filter(pid, private)
		if err != nil {
			t.Fatal(err)
		}
		program, ok := bpf.Disassemble(raw)
		if !ok {
			t.Fatal("the program does not disassemble")
		}
		vm, err := bpf.NewVM(program)
		if err != nil {
			t.Fatal(err)
		}
		free := slices.Concat(allowed, allowedOld)
		if private {
			free = slices.Concat(free, metadata, metadataOld)
		}
		values := []uint32{0, 1, 2, pid, 0xffffffff, unix.CLONE_THREAD, unix.CLONE_THREAD | unix.CLONE_NEWUSER}
		list := rules(pid)
		for _, r := range list {
			values = append(values, r.call)
			for _, tests := range r.cases {
				for _, c := range tests {
					values = append(values, c.value)
				}
			}
		}
		slices.Sort(values)
		values = slices.Compact(values)
		verdict := func(arch, call uint32, args ...uint32) uint32 {
			data := make([]byte, 64)
			for i, w := range append([]uint32{call, arch, 0, 0}, args...) {
				binary.BigEndian.PutUint32(data[4*i:], w) // the byte order of x/net/bpf's virtual machine
			}
			n, err := vm.Run(data)
			if err != nil {
				t.Fatal(err)
			}
			return uint32(n)
		}
		for call := range uint32(600) {
			at := slices.IndexFunc(list, func(r rule) bool { return r.call == call })
			second, upper := values, []uint32{0, 1}
			if at < 0 {
				second, upper = values[:1], upper[:1] // only the first could be mistaken for a number
			}
			for _, a := range values {
				for _, b := range second {
					for _, high := range upper {
						want := slices.Contains(free, call) || at >= 0 && holds(list[at], []uint32{a, 0, b, high})
						if got := verdict(auditArch, call, a, 0, b, high) == pass.Val; got != want {
							t.Fatalf("call %d of %#x and %#x (%d): allowed is %v", call, a, b, high, got)
						}
					}
				}
			}
		}
		for _, c := range []struct{ arch, call, want uint32 }{
			{auditArch, unix.SYS_CLONE3, unknown.Val},
			{auditArch, 0x40000000 | unix.SYS_READ, unknown.Val},
			{auditArch ^ 1, unix.SYS_READ, unknown.Val},
			{auditArch, unix.SYS_SOCKET, refuse.Val},
			{auditArch, unix.SYS_CLONE, refuse.Val},
		} {
			if got := verdict(c.arch, c.call, 0); got != c.want {
				t.Errorf("call %d of architecture %#x: %#x, want %#x", c.call, c.arch, got, c.want)
			}
		}
	}
}

// holds evaluates a rule for the words of the first two arguments.
func holds(r rule, words []uint32) bool {
	return slices.ContainsFunc(r.cases, func(tests []test) bool {
		return !slices.ContainsFunc(tests, func(c test) bool {
			w := words[(c.word-16)/4]
			switch c.cond {
			case bpf.JumpBitsSet:
				return w&c.value == 0
			case bpf.JumpBitsNotSet:
				return w&c.value != 0
			}
			return w != c.value
		})
	})
}

func TestReport(t *testing.T) {
	r := Report{Holds: []string{"namespaces", "Landlock ABI 7", "seccomp", "rlimits"}, Lacks: []string{"cgroup", "/proc"}}
	if got, want := r.String(), "sandbox: namespaces, Landlock ABI 7, seccomp, rlimits; no cgroup, no /proc"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A launcher without an order reports an error.
func TestLauncherAlone(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "0")
	cmd.Args[0] = launcherName
	out, err := cmd.CombinedOutput()
	if err == nil || !bytes.HasPrefix(out, []byte(failed)) {
		t.Errorf("%q, %v", out, err)
	}
}
