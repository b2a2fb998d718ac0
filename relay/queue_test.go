package relay_test

import (
	"io"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/relay"
	"github.com/wirectl/wirectl/transport"
)

// A silent end sends nothing until it is closed.
type silent struct{ closed chan struct{} }

func (s silent) Read([]byte) (int, error)    { <-s.closed; return 0, io.EOF }
func (s silent) Write(p []byte) (int, error) { return len(p), nil }
func (s silent) CloseWrite() error           { return nil }
func (s silent) Close() error                { return nil }

// A grumbler is a process that writes to its standard error as long as somebody reads it.
type grumbler struct {
	silent
	said atomic.Int64
	most int64 // bytes after which it writes nothing more
}

func (g *grumbler) Stderr() io.Reader                 { return (*grumble)(g) }
func (g *grumbler) Pid() int                          { return 0 }
func (g *grumbler) Signal(os.Signal) error            { return nil }
func (g *grumbler) Forward(os.Signal) error           { return nil }
func (g *grumbler) CloseRead() error                  { return nil }
func (g *grumbler) Outlived() bool                    { return false }
func (g *grumbler) Wait() (e transport.Exit, _ error) { <-g.closed; return e, nil }

type grumble grumbler

func (g *grumble) Read(p []byte) (int, error) {
	if g.said.Add(int64(len(p))) > g.most {
		<-g.closed
		return 0, io.EOF
	}
	return len(p), nil
}

// A stuck sink blocks until it is released.
type stuck chan struct{}

func (s stuck) Write(*capture.Record) error { <-s; return nil }

// Standard error is blocked like all other traffic when the sink is far behind.
func TestStderrWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const behind = 2 << 20
		closed, sink, done := make(chan struct{}), make(stuck), make(chan struct{})
		unit := &grumbler{silent: silent{closed}, most: 4 * behind}
		go func() {
			defer close(done)
			_, _ = relay.Run(t.Context(), relay.Config{
				Controller: silent{closed}, Unit: unit, Stderr: io.Discard, Sink: relay.NewFan(nil, sink),
			})
		}()
		synctest.Wait()
		if n := unit.said.Load(); n < behind || n > behind+behind/4 {
			t.Errorf("%d bytes were taken", n)
		}
		close(closed)
		close(sink)
		<-done
	})
}
