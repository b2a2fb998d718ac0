package relay_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/relay"
)

// between starts a relay of lines between two pairs of pipes, recording to m. It returns their
// far ends, and a channel for the relay's result.
func between(t *testing.T, m *memory) (controller, unit *pipes, done <-chan error) {
	t.Helper()
	controller, near := piped(t)
	unit, far := piped(t)
	outcome := make(chan error, 1)
	go func() {
		_, err := relay.Run(t.Context(), relay.Config{Controller: near, Unit: far, Framing: frame.Line, Sink: m.sink()})
		outcome <- err
	}()
	return controller, unit, outcome
}

// Frames that a side does not read are recorded too, as far as the relay has read them.
func TestStalledFramesAreSeen(t *testing.T) {
	m := &memory{}
	controller, unit, done := between(t, m)
	line := append(bytes.Repeat([]byte("x"), 99), '\n')
	go func() {
		for range 2 << 20 / len(line) {
			_, _ = controller.Write(line) // until the other end is gone
		}
		_ = controller.CloseWrite()
	}()
	for wait := time.Now(); len(m.raw(frame.C2U)) <= waiting(t, unit.in); time.Sleep(time.Millisecond) {
		if time.Since(wait) > 10*time.Second {
			t.Fatal("only what was written is seen")
		}
	}
	go func() { _, _ = io.Copy(io.Discard, unit.in) }()
	_ = unit.CloseWrite()
	ended(t, controller)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// waiting returns how many bytes wait in a pipe.
func waiting(t *testing.T, pipe *os.File) (n int) {
	t.Helper()
	c, err := pipe.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if e := c.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) }); e != nil || err != nil {
		t.Fatal(e, err)
	}
	return n
}

// lent is longer than a quiet way may keep a thread.
const lent = 30 * time.Millisecond

// Large transfers in both directions at once arrive and are recorded unchanged, also with small
// ones in between.
func TestBothWaysAtOnce(t *testing.T) {
	m := &memory{}
	controller, unit, done := between(t, m)
	var echoing sync.WaitGroup
	echoing.Go(func() {
		_, _ = io.Copy(unit, unit)
		_ = unit.CloseWrite()
	})
	var want bytes.Buffer
	exchange := func(text []byte) {
		t.Helper()
		var writing sync.WaitGroup
		writing.Go(func() { _, _ = controller.Write(text) })
		got := make([]byte, len(text))
		if _, err := io.ReadFull(controller, got); err != nil || !bytes.Equal(got, text) {
			t.Errorf("%d bytes came back otherwise: %v", len(text), err)
		}
		writing.Wait()
		want.Write(text)
	}
	line := append(bytes.Repeat([]byte("x"), 999), '\n')
	for range 2 {
		exchange(bytes.Repeat(line, 4<<10))
		for begun := time.Now(); time.Since(begun) < lent; {
			exchange(line)
		}
	}
	_ = controller.CloseWrite()
	ended(t, controller)
	echoing.Wait()
	if err := <-done; err != nil {
		t.Error(err)
	}
	for _, dir := range []frame.Dir{frame.C2U, frame.U2C} {
		if !bytes.Equal(m.raw(dir), want.Bytes()) {
			t.Errorf("the records of direction %v are of other bytes", dir)
		}
	}
}

// A controller whose output is /dev/null, where nothing waits or is read, works as usual.
func TestToNothing(t *testing.T) {
	m := &memory{}
	_, near := piped(t)
	unit, far := piped(t)
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	near.out.Close()
	near.out = null
	sent := bytes.Repeat(append(bytes.Repeat([]byte("x"), 999), '\n'), 1<<10)
	go func() {
		_, _ = unit.Write(sent)
		_ = unit.CloseWrite()
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	go func() {
		for len(m.raw(frame.U2C)) < len(sent) && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		cancel() // the controller does not end by itself
	}()
	result, err := relay.Run(ctx, relay.Config{Controller: near, Unit: far, Framing: frame.Line, Sink: m.sink()})
	if !errors.Is(err, context.Canceled) || result.ToController.Bytes != int64(len(sent)) || !bytes.Equal(m.raw(frame.U2C), sent) {
		t.Errorf("%d bytes of %d, and %v", result.ToController.Bytes, len(sent), err)
	}
}

// Bytes that a unit has written reach its controller, even if the relay is stopped before it
// got any processor time.
func TestLastWordsAreMoved(t *testing.T) {
	controller, near := piped(t)
	unit, far := piped(t)
	words := bytes.Repeat([]byte("last words\n"), 5000) // more than one read
	if _, err := unit.Write(words); err != nil {
		t.Fatal(err)
	}
	if err := relay.RunStopped(near, far); err != nil {
		t.Fatal(err)
	}
	_ = near.Close()
	if got, err := io.ReadAll(controller); err != nil || !bytes.Equal(got, words) {
		t.Errorf("%d of %d bytes, %v", len(got), len(words), err)
	}
}
