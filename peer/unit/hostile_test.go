package unit_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/peer/unit"
	"github.com/wirectl/wirectl/protocol/latis"
	"github.com/wirectl/wirectl/session"
)

// A cancel may arrive at any time, and its answer depends on the time.
func TestCancelRaces(t *testing.T) {
	t.Run("before the first part", func(t *testing.T) {
		started := make(chan struct{})
		c := connect(t, unit.New(unit.AgentFunc(func(ctx context.Context, _ *unit.Prompt, emit func(string) error) (map[string]string, error) {
			close(started)
			<-ctx.Done()
			return nil, emit("too late")
		}), unit.Options{}))
		c.send(`{"id":"1","promptSend":{"content":"x"}}`)
		<-started
		c.send(`{"id":"2","promptCancel":{"targetId":"1"}}`)
		c.expect("ACK 2", "RESPONSE_CANCELLED 1")
		c.behaves()
	})
	t.Run("in the same write as the prompt", func(t *testing.T) {
		c := connect(t, unit.New(newHeld(), unit.Options{}))
		c.send(`{"id":"1","promptSend":{"content":"x"}}`, `{"id":"2","promptCancel":{"targetId":"1"}}`)
		got := []string{c.next(), c.next()}
		if slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "RESPONSE_CHUNK") }) {
			got = append(got, c.next())
		}
		if !slices.Contains(got, "ACK 2") || !slices.Contains(got, "RESPONSE_CANCELLED 1") {
			t.Errorf("got %q", got)
		}
		c.behaves()
	})
	t.Run("after the end", func(t *testing.T) {
		c := connect(t, unit.New(unit.Echo{}, unit.Options{}))
		c.send(`{"id":"1","promptSend":{"content":"x"}}`)
		c.expect("RESPONSE_CHUNK 1 Echo: x", "RESPONSE_COMPLETE 1")
		c.send(`{"id":"2","promptCancel":{"targetId":"1"}}`)
		c.expect(`ERROR 2 UNKNOWN_TARGET no prompt "1" is being worked on`)
		c.behaves()
	})
	t.Run("twice", func(t *testing.T) {
		release := make(chan struct{})
		c := connect(t, unit.New(unit.AgentFunc(func(ctx context.Context, _ *unit.Prompt, _ func(string) error) (map[string]string, error) {
			<-release // slow to stop
			return nil, context.Cause(ctx)
		}), unit.Options{}))
		c.send(`{"id":"1","promptSend":{"content":"x"}}`, `{"id":"2","promptCancel":{"targetId":"1"}}`, `{"id":"3","promptCancel":{"targetId":"1"}}`)
		c.expect("ACK 2", "ACK 3")
		close(release)
		c.expect("RESPONSE_CANCELLED 1")
		c.send(`{"id":"4","promptCancel":{"targetId":"1"}}`)
		c.expect(`ERROR 4 UNKNOWN_TARGET no prompt "1" is being worked on`)
		c.behaves()
	})
	t.Run("of itself, and of a cancel", func(t *testing.T) {
		c := connect(t, unit.New(unit.Echo{}, unit.Options{}))
		c.send(`{"id":"1","promptCancel":{"targetId":"1"}}`)
		c.expect(`ERROR 1 UNKNOWN_TARGET no prompt "1" is being worked on`)
	})
}

// A controller that reconnects after losing its connection in the middle of an answer learns
// that it missed a part. The agent was cancelled.
func TestCutOff(t *testing.T) {
	stopped := make(chan error, 1)
	u := unit.New(unit.AgentFunc(func(ctx context.Context, p *unit.Prompt, emit func(string) error) (map[string]string, error) {
		if p.Content == "quick" {
			return nil, nil
		}
		_ = emit("some")
		<-ctx.Done()
		stopped <- context.Cause(ctx)
		return nil, context.Cause(ctx)
	}), unit.Options{SessionTTL: time.Hour})
	c := connect(t, u)
	c.send(`{"id":"1","sessionCreate":{}}`)
	id := strings.TrimPrefix(c.next(), "ACK 1 ")
	c.send(`{"id":"2","promptSend":{"content":"quick"}}`)
	c.expect("RESPONSE_COMPLETE 2")
	c.send(`{"id":"3","promptSend":{"content":"slow"}}`)
	c.expect("RESPONSE_CHUNK 3 some")
	if err := c.conn.SetLinger(0); err != nil {
		t.Fatal(err)
	}
	c.conn.Close()
	if err := <-stopped; err == nil || errors.Is(err, unit.ErrCancelled) {
		t.Errorf("the agent stopped because of %v", err)
	}
	served := <-c.served // the connection has ended
	c.served <- served

	again := connect(t, u)
	again.send(`{"id":"1","sessionResume":{"sessionId":"` + id + `"}}`)
	again.expect("ACK 1 " + id)
	if state := again.state(); state["prompts"] != "1" || state["cut_off"] != "1" {
		t.Errorf("the state is %v", state)
	}
}

// A session can be resumed until its TTL is over, counted from the end of its last connection.
func TestSessionExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := unit.New(unit.Echo{}, unit.Options{SessionTTL: 10 * time.Minute})
		connect := func() (c *controller, end func()) {
			ours, theirs := net.Pipe()
			served := make(chan error, 1)
			go func() { served <- u.Serve(t.Context(), pipe{theirs}) }()
			c = &controller{t: t, conn: pipe{ours}, scanner: frame.NewScanner(ours, frame.Len32), tracker: session.New(latis.Protocol, session.Options{})}
			return c, func() {
				_ = ours.Close()
				<-served //nolint:errcheck // a lost controller is not a failure
			}
		}
		c, end := connect()
		c.send(`{"id":"1","sessionCreate":{}}`)
		id := strings.TrimPrefix(c.next(), "ACK 1 ")
		end()
		for range 3 { // each connection restarts the TTL
			time.Sleep(9 * time.Minute)
			c, end = connect()
			c.send(`{"id":"1","sessionResume":{"sessionId":"` + id + `"}}`)
			c.expect("ACK 1 " + id)
			end()
		}
		time.Sleep(10*time.Minute + time.Second)
		c, end = connect()
		c.send(`{"id":"1","sessionResume":{"sessionId":"` + id + `"}}`)
		c.expect(fmt.Sprintf("ERROR 1 UNKNOWN_SESSION no session %q", id))
		end()
	})
}

// pipe is an end of a net.Pipe.
type pipe struct{ net.Conn }

func (pipe) CloseWrite() error   { return errors.ErrUnsupported }
func (pipe) SetLinger(int) error { return nil }

// Data that is too long to be sent back in a message is refused, dropped or split into parts:
// the unit itself never exceeds a limit.
func TestOversize(t *testing.T) {
	c := connect(t, unit.New(unit.Echo{}, unit.Options{}))
	prompt := strings.Repeat("ä", 8<<20-20) // a frame of just under 16 MiB
	c.send(`{"id":"1","promptSend":{"content":"` + prompt + `"}}`)
	var answer strings.Builder
	for part := c.next(); part != "RESPONSE_COMPLETE 1"; part = c.next() {
		answer.WriteString(strings.TrimPrefix(part, "RESPONSE_CHUNK 1 "))
		if n := len(c.scanner.Frame().Raw); n > 2<<20 {
			t.Errorf("a frame of %d bytes", n)
		}
	}
	if answer.Len() != len("Echo: ")+len(prompt) {
		t.Errorf("the answer has %d bytes", answer.Len())
	}
	long := strings.Repeat("x", 1<<20)
	c.send(`{"id":"`+long+`","ping":{}}`, `{"id":"`+long+`","stateGet":{}}`, `{"id":"2","sessionCreate":{"metadata":{"a":"`+long+`"}}}`)
	c.expect("ERROR 2 BAD_REQUEST the metadata of the session has 1048577 bytes; 65536 are allowed")
	c.send(`{"id":"3","promptCancel":{"targetId":"` + long + `"}}`)
	if got := c.next(); !strings.HasPrefix(got, "ERROR 3 UNKNOWN_TARGET") || len(got) > 1<<17 {
		t.Errorf("got %d bytes: %.40q", len(got), got)
	}
	c.write([]byte("\x01\x00\x00\x01")) // a frame over the limit
	err := <-c.served
	c.served <- err
	if !errors.Is(err, frame.ErrTooLarge) {
		t.Errorf("Serve returned %v", err)
	}
}

// A controller that keeps asking for the state without reading costs the unit only a bounded
// amount of memory. It gets the state once it reads.
func TestFlood(t *testing.T) {
	h := newHeld()
	c := connect(t, unit.New(h, unit.Options{}))
	var requests []string
	for i := range 70 {
		requests = append(requests, `{"id":"s`+strconv.Itoa(i)+`","stateSubscribe":{}}`)
	}
	c.send(requests...)
	refused := 0
	for range requests {
		if strings.HasPrefix(c.next(), "ERROR") {
			refused++
		}
	}
	if refused != 6 {
		t.Errorf("%d subscriptions are refused", refused)
	}
	wrote := make(chan int)
	go func() {
		n := 0
		gets, _ := frame.Append(nil, frame.Len32, []byte("\x0a\x011\x62\x00"))
		flood := []byte(strings.Repeat(string(gets), 1000))
		_ = c.conn.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
		for {
			m, err := c.conn.Write(flood)
			if n += m; err != nil {
				wrote <- n
				return
			}
		}
	}()
	if n := <-wrote; n > 64<<20 {
		t.Errorf("the unit has taken %d bytes, and nobody has read an answer", n)
	}
}

// Child processes of a program end when its prompt is cancelled.
func TestExecLeavesNoOrphan(t *testing.T) {
	needShell(t)
	if _, err := os.Stat("/proc/self"); err != nil {
		t.Skip("there is no /proc to look into")
	}
	file := filepath.Join(t.TempDir(), "pid")
	c := connect(t, unit.New(unit.Exec{Argv: []string{"sh", "-c", `trap "" TERM HUP; (sleep 300 & echo $! >` + file + `; wait) & sleep 0.05; echo started; wait`}}, unit.Options{}))
	c.send(`{"id":"1","promptSend":{"content":"x"}}`)
	c.expect("RESPONSE_CHUNK 1 started\n")
	c.send(`{"id":"2","promptCancel":{"targetId":"1"}}`)
	c.expect("ACK 2", "RESPONSE_CANCELLED 1")
	c.behaves()
	pid, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	proc := filepath.Join("/proc", strings.TrimSpace(string(pid)), "stat")
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		stat, err := os.ReadFile(proc)
		if err != nil || strings.Contains(string(stat), ") Z ") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the program's child still runs: %s", stat)
		}
	}
}
