package interop

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// sshd serves ssh on loopback with keys made for the test, and extra lines of
// configuration. It returns the words of an ENDPOINT that reaches it. A remote command is
// appended to them.
func sshd(t *testing.T, more ...string) []string {
	t.Helper()
	need(t, "ssh")
	server, err := exec.LookPath("sshd")
	if err != nil {
		server = need(t, "/usr/sbin/sshd") // it may be missing in PATH
	}
	if os.Getuid() == 0 {
		check(t, os.MkdirAll("/run/sshd", 0o755)) // for privilege separation
	}
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		check(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	host, mine := key(t, dir, "host"), key(t, dir, "mine")
	public, err := os.ReadFile(mine + ".pub")
	check(t, err)
	config := file("sshd_config", strings.Join(append([]string{
		"HostKey " + host,
		"AuthorizedKeysFile " + file("authorized_keys", string(public)),
		"StrictModes no", // the folder of the test may belong to any user
		"PasswordAuthentication no",
		"KbdInteractiveAuthentication no",
	}, more...), "\n")+"\n")
	port := serveSSH(t, server, config)
	me, err := user.Current()
	check(t, err)
	return []string{
		"ssh", "-F", "none", "-i", mine, "-p", port, "-o", "BatchMode=yes", "-o", "LogLevel=ERROR", "-o", "IdentitiesOnly=yes",
		"-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=" + filepath.Join(dir, "known_hosts"), me.Username + "@127.0.0.1",
	}
}

// key makes a key pair.
func key(t *testing.T, dir, name string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	keygen := exec.CommandContext(t.Context(), need(t, "ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f", path)
	if out, err := keygen.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// serveSSH starts an sshd for each connection, as inetd does, so that no free port must be
// guessed.
func serveSSH(t *testing.T, server, config string) (port string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	var servers sync.WaitGroup
	servers.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			servers.Go(func() {
				defer c.Close()
				socket, err := c.(*net.TCPConn).File()
				if err != nil {
					return
				}
				defer socket.Close()
				cmd := exec.CommandContext(ctx, server, "-i", "-f", config)
				cmd.Stdin, cmd.Stdout = socket, socket
				_ = cmd.Run() // the client reports the outcome
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		cancel()
		servers.Wait()
	})
	_, port, err = net.SplitHostPort(l.Addr().String())
	check(t, err)
	return port
}

// relayThrough runs a relay to its end, and returns its output and status.
func relayThrough(t *testing.T, stdin []byte, args ...string) (stdout []byte, stderr string, status int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out, diagnostics bytes.Buffer
	cmd := exec.CommandContext(ctx, wirectl, append([]string{"relay", "--no-tap", "--quiet"}, args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &out, &diagnostics
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.Bytes(), diagnostics.String(), cmd.ProcessState.ExitCode()
}

// A real ssh passes bytes unchanged, in both directions at once, and the half-close of each
// direction.
func TestRelaySSHBytes(t *testing.T) {
	sent := make([]byte, 4<<20)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(sent)
	got, stderr, status := relayThrough(t, sent, append(sshd(t), "cat")...)
	if status != 0 || !bytes.Equal(got, sent) {
		t.Errorf("status %d, %d of %d bytes\n%s", status, len(got), len(sent), stderr)
	}
}

// The relay has the exit status of the remote command, or that of ssh itself, which prints
// the reason.
func TestRelaySSHStatus(t *testing.T) {
	to := sshd(t)
	if _, stderr, status := relayThrough(t, nil, append(to, "echo oops >&2; exit 7")...); status != 7 || !strings.Contains(stderr, "oops") {
		t.Errorf("status %d\n%s", status, stderr)
	}
	if _, stderr, status := relayThrough(t, nil, append(to, "no-such-program")...); status != 127 {
		t.Errorf("status %d\n%s", status, stderr)
	}
	stranger := append([]string{to[0], to[1], to[2], "-i", key(t, t.TempDir(), "stranger")}, to[5:]...)
	if _, stderr, status := relayThrough(t, nil, append(stranger, "true")...); status != 255 ||
		!strings.Contains(stderr, "Permission denied") || !strings.Contains(stderr, "ssh: failed itself (status 255)") {
		t.Errorf("a stranger: status %d\n%s", status, stderr)
	}
}

// The remote shell splits the joined words, unless they are quoted.
func TestRelaySSHQuote(t *testing.T) {
	to := append(sshd(t), "printf", "%s,", "a  b", "$HOME", "it's")
	if got, stderr, status := relayThrough(t, nil, append([]string{"--quote"}, to...)...); string(got) != "a  b,$HOME,it's," {
		t.Errorf("quoted: status %d, %q\n%s", status, got, stderr)
	}
	if got, stderr, status := relayThrough(t, nil, to[:len(to)-2]...); string(got) != "a,b," {
		t.Errorf("joined: status %d, %q\n%s", status, got, stderr)
	}
}

// A unit reached by ssh answers like a local one.
func TestSendSSH(t *testing.T) {
	to := append(sshd(t), wirectl, "unit")
	got, stderr := command(t, nil, append([]string{"send", "--prompt", "through ssh", "latis"}, to...)...)
	if want := "Echo: through ssh\n"; string(got) != want {
		t.Errorf("%q\n%s", got, stderr)
	}
}

// When the relay ends, a unit started over ssh has ended, too.
func TestRelaySSHLeavesNobody(t *testing.T) {
	pipe, w := io.Pipe()
	cmd := exec.CommandContext(t.Context(), wirectl, append(append([]string{"relay", "--no-tap", "-q"}, sshd(t)...), "echo $$; exec cat")...)
	cmd.Stdout = w
	stdin, err := cmd.StdinPipe()
	check(t, err)
	check(t, cmd.Start())
	pid := make([]byte, 32)
	n, err := pipe.Read(pid)
	check(t, err)
	check(t, stdin.Close())
	check(t, cmd.Wait())
	if err := exec.CommandContext(t.Context(), "kill", "-0", strings.TrimSpace(string(pid[:n]))).Run(); err == nil {
		t.Errorf("process %s is still there", pid[:n])
	}
}
