package transport

import (
	"net"
	"time"
)

// An Aborter is a Conn that can signal a failure to the far side: by a reset, a close
// code, a status.
type Aborter interface {
	Conn
	// Abort closes the connection as failed. Bytes written before have a moment to
	// arrive.
	Abort(why error) error
}

// Abort closes a connection as failed, if the transport can express that.
func Abort(c Conn, why error) error {
	if a, ok := c.(Aborter); ok {
		return a.Abort(why)
	}
	return c.Close()
}

// Guard makes the system reset the sockets of connections if the program is killed before
// it closes them, which would otherwise look like a clean end.
func Guard(conns ...Conn) {
	for _, c := range conns {
		if g, ok := c.(interface{ lowest() net.Conn }); ok {
			linger(g.lowest(), 0)
		}
	}
}

// linger sets whether closing a TCP socket, also below TLS, resets it (0) or ends it
// cleanly (-1). Other sockets have no reset.
func linger(c net.Conn, seconds int) {
	if over, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = over.NetConn()
	}
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(seconds) // fails when it is closed
	}
}

// reset resets a socket after the written bytes have had time to arrive.
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
