package transport

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"
)

// A Shown endpoint is one whose program, if it is one, has its standard error read,
// and shown on ours: nobody else does, and a program that says much would wait.
type Shown struct {
	Endpoint
	Stderr io.Writer
	// Ended, if not nil, is told how each program ended, before Close returns.
	Ended func(Exit, error)
	// Lingers, if not nil, is called when Close waits for a program to end.
	Lingers func()
}

// AtOnce is how long a program may take to end before that is told.
const AtOnce = 300 * time.Millisecond

// Dial reaches the endpoint.
func (e Shown) Dial(ctx context.Context) (Conn, error) {
	conn, err := e.Endpoint.Dial(ctx)
	process, ok := conn.(Process)
	if err != nil || !ok {
		return conn, err
	}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = io.Copy(e.Stderr, process.Stderr()) // it ends with the process; nothing to be done about what is lost
	}()
	return &shownProcess{process, e, copied}, nil
}

// A shownProcess is a process whose standard error is being shown.
type shownProcess struct {
	Process
	endpoint Shown
	copied   chan struct{}
}

// Close ends the process, and waits until all of its standard error is shown.
func (p *shownProcess) Close() error {
	err := p.end()
	<-p.copied
	if p.endpoint.Ended != nil {
		p.endpoint.Ended(p.Wait())
	}
	return err
}

// end ends the process, and tells of it if that takes long.
func (p *shownProcess) end() error {
	if p.endpoint.Lingers == nil {
		return p.Process.Close()
	}
	closed := make(chan error, 1)
	go func() { closed <- p.Process.Close() }()
	late := time.NewTimer(AtOnce)
	defer late.Stop()
	select {
	case err := <-closed:
		return err
	case <-late.C:
		p.endpoint.Lingers()
		return <-closed
	}
}

// Exits are how the programs that were asked ended.
type Exits struct {
	mu    sync.Mutex
	first error // that failed by itself; nil if none did
}

// Add takes one in. The error is that of a program that leads to the peer.
func (e *Exits) Add(x Exit, err error) {
	if err == nil && !x.Told && x.Code() != 0 {
		err = errors.New("the program " + x.String())
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.first == nil {
		e.first = err
	}
}

// Failed returns how the first program ended that failed by itself; nil if none did.
func (e *Exits) Failed() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.first
}
