package relay

import (
	"errors"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/transport"
)

// RunStopped runs a poller that is stopped before it starts.
func RunStopped(controller, unit transport.Conn) error {
	from, isFrom := controller.(transport.Descriptors)
	to, isTo := unit.(transport.Descriptors)
	if !isFrom || !isTo {
		return errors.ErrUnsupported
	}
	r := newRelay(Config{Controller: controller, Unit: unit})
	p := &poller{relay: r, done: make(chan struct{})}
	p.ways[0].way, p.ways[1].way = r.ways[frame.C2U], r.ways[frame.U2C]
	if err := p.takeDescriptors(from, to); err != nil {
		return err
	}
	defer p.wake.Close()
	if _, err := p.wake.Write([]byte{1, 0, 0, 0, 0, 0, 0, 0}); err != nil {
		return err
	}
	p.ended.Store(true)
	pollers.Add(1)
	p.run()
	return nil
}
