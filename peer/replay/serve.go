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

// Serve plays the recorded unit for each client that comes to a listener, any
// number of them at a time, until ctx ends or, if clients is positive, so many
// have come. The first client gets the first player, the next one the next, and
// so on in a circle. Serve calls done with the result of each, one after the
// other, and returns when all have ended.
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
