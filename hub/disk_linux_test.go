package hub_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wirectl/wirectl/hub"
	"github.com/wirectl/wirectl/hub/server"
)

func init() { runDisk = runOnDisk }

// runOnDisk runs hubs one after another on a small disk, which is enlarged before each but
// the first.
func runOnDisk(n *node) error {
	if err := unix.Mount("tmpfs", n.Dir, "tmpfs", 0, "size=512k"); err != nil {
		return err
	}
	in := bufio.NewReader(os.Stdin)
	o := server.Options{Dir: n.Dir, Listen: fmt.Sprintf("127.0.0.1:%d", n.Port), MaxBytes: 1 << 30, MaxAge: time.Hour, Warn: func(string) {}}
	fmt.Println("ready")
	err := server.Run(context.Background(), o, os.Stderr)
	fmt.Println(err)
	if _, err := in.ReadString('\n'); err != nil {
		return err
	}
	if err := unix.Mount("", n.Dir, "", unix.MS_REMOUNT, "size=64m"); err != nil {
		return err
	}
	return server.Run(context.Background(), o, os.Stderr)
}

// noise returns the text of a frame that compresses badly.
func noise(n int64) []byte {
	random := rand.New(rand.NewPCG(uint64(n), 1))
	text := make([]byte, 8<<10)
	for i := range text {
		text[i] = "0123456789abcdefghijklmnopqrstuvwxyz"[random.IntN(36)]
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"result":"%s"}`+"\n", n, text)
}

// A hub whose disk is full reports that and ends. A lossless session loses nothing: it is
// complete once a hub with more room runs, and reports the interruption.
func TestDiskIsFull(t *testing.T) {
	t.Parallel()
	n := &node{Dir: t.TempDir(), Port: port(t), Disk: true}
	n.prepare(t)
	n.cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	if err := exec.Command("unshare", "-Urm", "mount", "-t", "tmpfs", "none", "/tmp").Run(); err != nil {
		t.Skip("this system does not allow mounting a disk: ", err)
	}
	n.launch(t)
	t.Cleanup(n.kill)

	f := send(t, n.address(), lossless)
	const many = 200 // more than fit on the disk
	for i := range int64(many) {
		f.write(noise(i + 1))
	}
	said, err := n.stdout.ReadString('\n')
	check(t, err)
	if !strings.Contains(said, "free space in") {
		t.Errorf("the hub says %q", said)
	}
	f.warned.await(t, "accepts nothing")
	_, err = n.stdin.Write([]byte("\n"))
	check(t, err)
	f.warned.await(t, "accepts the session again")
	f.end()

	a, err := hub.ParseAddress(n.address())
	check(t, err)
	c, err := hub.Dial(a)
	check(t, err)
	defer c.Close()
	frames, notes := read(t, c, f.sender.Info().ID)
	if len(frames) != many {
		t.Fatalf("%d frames", len(frames))
	}
	for i, r := range frames {
		if string(r.Raw) != string(noise(int64(i)+1)) {
			t.Errorf("frame %d is not what was sent", i+1)
		}
	}
	if len(notes) == 0 || !strings.Contains(strings.Join(notes, "\n"), "could not be reached") {
		t.Errorf("notes: %q", notes)
	}
}
