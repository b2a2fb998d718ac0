package transport

import (
	"net"
	"time"
)

// An Aborter is a Conn that can tell the far side that it has failed: by a reset,
// a close code, a status.
type Aborter interface {
	Conn
	// Abort closes the connection as one that failed, for the reason why. What was
	// written before has a moment to arrive.
	Abort(why error) error
}

// Abort closes a connection because something failed: the far side does not take
// it for a clean end, where the transport can tell the two apart.
func Abort(c Conn, why error) error {
	if a, ok := c.(Aborter); ok {
		return a.Abort(why)
	}
	return c.Close()
}

// Guard has the system reset the sockets of connections if the program is killed
// before it closes them: else that would look like a clean end.
func Guard(conns ...Conn) {
	for _, c := range conns {
		if g, ok := c.(interface{ lowest() net.Conn }); ok {
			linger(g.lowest(), 0)
		}
	}
}

// linger sets whether closing a TCP socket, also below TLS, resets it (0) or ends
// it (-1). Other sockets have no reset.
func linger(c net.Conn, seconds int) {
	if over, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = over.NetConn()
	}
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(seconds) // fails when it is closed
	}
}

// reset resets a socket, once what was written has arrived, or could have.
func reset(c net.Conn) error {
	if over, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = over.NetConn()
	}
	if t, ok := c.(*net.TCPConn); ok {
		const pace = time.Millisecond
		for waited := time.Duration(0); waited < goodbye && unsent(t) > 0; waited += pace {
			time.Sleep(pace)
		}
		linger(t, 0)
	}
	return c.Close()
}
