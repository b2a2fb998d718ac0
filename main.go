// Wirectl reads the wire protocols that AI agents speak.
package main

import (
	"context"
	"os"
	"os/signal"
	"sync/atomic"
	"time"

	"github.com/wirectl/wirectl/commands"
)

func main() { os.Exit(run()) }

// grace is how long a command may take to end once it was interrupted, unless it
// asks for more. What keeps it longer is a system call that nothing else interrupts, such as a write
// to a pipe that nobody reads.
const grace = time.Second

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var linger atomic.Int64
	linger.Store(int64(grace))
	env := commands.OSEnv()
	env.Linger = func(d time.Duration) { linger.Store(int64(d)) }
	defer context.AfterFunc(ctx, func() {
		stop() // a second interrupt ends the process
		time.Sleep(time.Duration(linger.Load()))
		os.Exit(commands.StatusInterrupted)
	})()
	return commands.Run(ctx, env, os.Args)
}
