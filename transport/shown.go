package transport

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"
)

// A Shown endpoint copies the standard error of its program, if it is one, to Stderr.
// Otherwise nobody would read it, and the program would block.
type Shown struct {
	Endpoint
	Stderr io.Writer
	// Ended, if not nil, is called with the end of each program, before Close returns.
	Ended func(Exit, error)
	// Lingers, if not nil, is called if Close waits long for a program to end.
	Lingers func()
}

// AtOnce is how long a program may take to end before Lingers is called.
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
		_, _ = io.Copy(e.Stderr, process.Stderr()) // best effort; it ends with the process
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
	if p.endpoint.Lingers != nil {
		defer time.AfterFunc(AtOnce, p.endpoint.Lingers).Stop()
	}
	err := p.Process.Close()
	<-p.copied
	if p.endpoint.Ended != nil {
		p.endpoint.Ended(p.Wait())
	}
	return err
}

// Exits collects the ends of programs.
type Exits struct {
	mu    sync.Mutex
	first error // of a program that failed by itself
}

// Add adds an end. The error is that of a program that leads to the peer.
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

// Failed returns the error of the first program that failed by itself; nil if none did.
func (e *Exits) Failed() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.first
}
