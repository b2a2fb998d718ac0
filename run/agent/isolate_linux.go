package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// insideWord is the hidden command that begins an isolated agent: it opens the doors in its network, hands them
// to the run, and becomes the agent:
//
//	wirectl run-inside PORT,… PROGRAM ARGV…
const insideWord = "run-inside"

// doorsFile is the number of the socket by which they are handed over.
const doorsFile = 3

// An isolation is the network of an agent that is about to start.
type isolation struct {
	doors        []door
	ours, theirs *os.File
}

// isolate makes a command start in a network of its own, in which only the doors can be reached.
func isolate(cmd *exec.Cmd, doors []door) (*isolation, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	i := &isolation{doors: doors, ours: os.NewFile(uintptr(pair[0]), "doors"), theirs: os.NewFile(uintptr(pair[1]), "doors")}
	var ports []string
	for _, d := range doors {
		ports = append(ports, strconv.Itoa(d.port))
	}
	cmd.Args = slices.Concat([]string{"wirectl", insideWord, strings.Join(ports, ","), cmd.Path}, cmd.Args)
	cmd.Path, cmd.ExtraFiles = program, []*os.File{i.theirs}
	a := cmd.SysProcAttr
	a.Cloneflags = syscall.CLONE_NEWNET
	if os.Geteuid() != 0 { // who needs a namespace of users to be allowed to
		a.Cloneflags |= syscall.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
		a.AmbientCaps = []uintptr{unix.CAP_NET_ADMIN} // to bring up the loopback
	}
	return i, nil
}

// takeDoors takes over the doors from a command that was started, and lets it become the agent. A nil isolation does nothing.
func (i *isolation) takeDoors() error {
	if i == nil {
		return nil
	}
	defer i.ours.Close()
	i.theirs.Close()
	b, rights := make([]byte, 1<<10), make([]byte, unix.CmsgSpace(4))
	for _, d := range i.doors {
		n, m, _, _, err := unix.Recvmsg(int(i.ours.Fd()), b, rights, unix.MSG_CMSG_CLOEXEC)
		if err == nil && (n == 0 || m == 0) {
			err = errors.New(strings.TrimSpace(string(b[:n])))
		}
		var l net.Listener
		if err == nil {
			l, err = doorOf(rights[:m])
		}
		if err != nil {
			return &isolationError{err}
		}
		d.serve(l)
	}
	_, err := i.ours.Write([]byte{0})
	return err
}

func doorOf(rights []byte) (net.Listener, error) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil || len(messages) != 1 {
		return nil, errors.Join(err, errors.New("no socket was handed over"))
	}
	files, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(files[0]), "door")
	defer f.Close()
	return net.FileListener(f)
}

// Main becomes an isolated agent, and does not return, if this process is to begin one.
func Main() {
	if len(os.Args) < 5 || os.Args[1] != insideWord {
		return
	}
	runtime.LockOSThread()
	if err := openDoors(strings.Split(os.Args[2], ",")); err != nil {
		_, _ = unix.Write(doorsFile, []byte(err.Error()))
		os.Exit(1) //nolint:forbidigo // it is a separate process
	}
	_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	err := syscall.Exec(os.Args[3], os.Args[4:], os.Environ())
	fmt.Fprintf(os.Stderr, "wirectl: %s: %v\n", os.Args[3], err) //nolint:forbidigo // as above
	os.Exit(126)                                                 //nolint:forbidigo // as above
}

func openDoors(ports []string) error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	request, _ := unix.NewIfreq("lo")
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, request); err != nil {
		return fmt.Errorf("bring up its loopback: %w", err)
	}
	unix.Close(s)
	for _, port := range ports {
		l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:"+port)
		if err != nil {
			return err
		}
		f, err := l.(*net.TCPListener).File()
		if err == nil {
			err = unix.Sendmsg(doorsFile, []byte("door"), unix.UnixRights(int(f.Fd())), nil, 0)
		}
		if err != nil {
			return err
		}
	}
	if n, err := unix.Read(doorsFile, make([]byte, 1)); err != nil || n == 0 {
		return errors.Join(err, errors.New("the run has ended"))
	}
	return unix.Close(doorsFile)
}
