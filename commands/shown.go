package commands

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/transport"
)

// A shown endpoint is one whose program, if it is one, has its standard error read,
// and shown on ours: nobody else does, and a program that says much would wait.
type shown struct {
	transport.Endpoint
	stderr io.Writer
	// ended, if not nil, is told how each program ended, before Close returns.
	ended func(transport.Exit, error)
	// lingers, if not nil, is called when Close waits for a program to end.
	lingers func()
}

// atOnce is how long a program may take to end before that is told.
const atOnce = 300 * time.Millisecond

// lingers tells, once, that a program is waited for; nil if nobody wants to know, or
// it is over soon.
func (inv *invocation) lingers(c *cli.Context) func() {
	grace := c.Duration("grace")
	if c.Bool("quiet") || grace <= atOnce {
		return nil
	}
	return sync.OnceFunc(func() {
		fmt.Fprintf(inv.Stderr, "wirectl: waiting for the program to end, now that its input has: after %v (--grace) it is told to\n", grace)
	})
}

// Dial reaches the endpoint.
func (e shown) Dial(ctx context.Context) (transport.Conn, error) {
	conn, err := e.Endpoint.Dial(ctx)
	process, ok := conn.(transport.Process)
	if err != nil || !ok {
		return conn, err
	}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = io.Copy(e.stderr, process.Stderr()) // it ends with the process; nothing to be done about what is lost
	}()
	return &shownProcess{process, e, copied}, nil
}

// A shownProcess is a process whose standard error is being shown.
type shownProcess struct {
	transport.Process
	endpoint shown
	copied   chan struct{}
}

// Close ends the process, and waits until all of its standard error is shown.
func (p *shownProcess) Close() error {
	err := p.end()
	<-p.copied
	if p.endpoint.ended != nil {
		p.endpoint.ended(p.Wait())
	}
	return err
}

// end ends the process, and tells of it if that takes long.
func (p *shownProcess) end() error {
	if p.endpoint.lingers == nil {
		return p.Process.Close()
	}
	closed := make(chan error, 1)
	go func() { closed <- p.Process.Close() }()
	late := time.NewTimer(atOnce)
	defer late.Stop()
	select {
	case err := <-closed:
		return err
	case <-late.C:
		p.endpoint.lingers()
		return <-closed
	}
}
