package rlm

import (
	"context"
	"io"
	"syscall"
	"time"

	"github.com/wirectl/wirectl/transport"
)

// grace is how long a program may take to end.
const grace = time.Second

// Ask starts a program, writes text to it, and reads its output by read. Standard error is
// copied to stderr. The program has ended when Ask returns, also because ctx has ended.
func Ask(ctx context.Context, args []string, text []byte, stderr io.Writer, read func(io.Reader) ([]byte, error)) (transport.Process, []byte, error) {
	p, err := transport.Start(ctx, args, transport.Options{Grace: grace})
	if err != nil {
		return nil, nil, err
	}
	done := make(chan struct{}, 2)
	go func() {
		_, _ = io.Copy(stderr, p.Stderr())
		done <- struct{}{}
	}()
	go func() {
		_, _ = p.Write(text) // a program need not read it
		_ = p.CloseWrite()
		done <- struct{}{}
	}()
	killed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = p.Signal(syscall.SIGTERM)
		_ = p.Close()
		close(killed)
	})
	output, err := read(p)
	if !stop() {
		<-killed
	}
	_ = p.Close()
	<-done
	<-done
	return p, output, err
}
