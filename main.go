// Wirectl reads the wire protocols that AI agents speak.
package main

import (
	"context"
	"os"
	"os/signal"
	"time"

	"github.com/wirectl/wirectl/commands"
)

func main() { os.Exit(run()) }

// grace is how long a command may take to end once it was interrupted. What
// keeps it longer is a system call that nothing else interrupts, such as a write
// to a pipe that nobody reads.
const grace = time.Second

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	defer context.AfterFunc(ctx, func() {
		time.Sleep(grace)
		os.Exit(commands.StatusInterrupted)
	})()
	return commands.Run(ctx, commands.OSEnv(), os.Args)
}
