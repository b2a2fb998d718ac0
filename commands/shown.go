package commands

import (
	"context"
	"io"

	"github.com/wirectl/wirectl/transport"
)

// A shown endpoint is one whose program, if it is one, has its standard error read,
// and shown on ours: nobody else does, and a program that says much would wait.
type shown struct {
	transport.Endpoint
	stderr io.Writer
	// ended, if not nil, is told how each program ended, before Close returns.
	ended func(transport.Exit, error)
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
	err := p.Process.Close()
	<-p.copied
	if p.endpoint.ended != nil {
		p.endpoint.ended(p.Wait())
	}
	return err
}
