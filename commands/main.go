package commands

import (
	"context"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/wirectl/wirectl/rlm/env/starlark"
	"github.com/wirectl/wirectl/rlm/sandbox"
)

// grace is how long a command may take to end once it was interrupted, unless it
// asks for more. What keeps it longer is a system call that nothing else interrupts, such as a write
// to a pipe that nobody reads.
const grace = time.Second

// Main runs the program with the arguments, streams and signals of the process
// and returns its exit status.
func Main() int {
	sandbox.Main()  // does not return where we are the launcher
	starlark.Main() // nor where we are the worker
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	interrupts := make(chan os.Signal, 1)
	var linger atomic.Int64
	linger.Store(int64(grace))
	var atKill atomic.Pointer[func()]
	var interrupted atomic.Int32
	interrupted.Store(StatusInterrupted)
	if !Brief(os.Args) {
		signal.Notify(interrupts, os.Interrupt)
		go func() {
			if s, ok := (<-interrupts).(syscall.Signal); ok {
				interrupted.Store(128 + int32(s))
			}
			stop()
			select {
			case <-interrupts:
			case <-time.After(time.Duration(linger.Load())):
			}
			if f := atKill.Load(); f != nil {
				(*f)()
			}
			os.Exit(int(interrupted.Load()))
		}()
	}
	env := OSEnv()
	env.Linger = func(d time.Duration) { linger.Store(int64(d)) }
	env.AtKill = func(f func()) {
		atKill.Store(&f)
		if !signal.Ignored(syscall.SIGHUP) {
			signal.Notify(interrupts, syscall.SIGHUP)
		}
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // makes writes to a closed pipe fail instead
	}
	env.Signals = func() (<-chan os.Signal, func()) {
		c := make(chan os.Signal, 8)
		signal.Notify(c, passedOn()...)
		signal.Stop(interrupts)
		return c, func() { signal.Stop(c) }
	}
	env.Terminable = func() { signal.Notify(interrupts, syscall.SIGTERM) }
	status := Run(ctx, env, os.Args)
	if ctx.Err() != nil {
		return int(interrupted.Load())
	}
	return status
}
