package replay

import (
	"context"
	"sync"

	"github.com/wirectl/wirectl/transport"
)

// A Player plays one side on a connection: a [Script] or a [Repeater].
type Player interface {
	Run(ctx context.Context, conn transport.Conn, o Options) (Result, error)
}

// Serve plays the recorded unit for each client of a listener, concurrently, until ctx
// ends or, if clients is positive, for that many clients. The clients get the players in
// turn. Serve calls done with each result, one at a time, and returns when all have ended.
func Serve(ctx context.Context, l transport.Listener, players []Player, o Options, clients int, done func(client int, r Result, err error)) error {
	var running sync.WaitGroup
	defer running.Wait()
	var one sync.Mutex
	for n := 1; clients <= 0 || n <= clients; n++ {
		conn, err := l.Accept(ctx)
		if err != nil {
			return err
		}
		running.Go(func() {
			r, err := players[(n-1)%len(players)].Run(ctx, conn, o)
			one.Lock()
			defer one.Unlock()
			done(n, r, err)
		})
	}
	return nil
}
