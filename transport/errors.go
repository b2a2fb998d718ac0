package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"net"
	"net/url"
	"os"
	"slices"
	"syscall"
	"time"
)

// An Error is a failure to reach an endpoint.
type Error struct {
	Endpoint string
	Err      error
	Hint     string // what to try next, or ""
}

func (e *Error) Error() string {
	if e.Hint == "" {
		return e.Endpoint + ": " + e.Err.Error()
	}
	return e.Endpoint + ": " + e.Err.Error() + ": " + e.Hint
}

func (e *Error) Unwrap() error { return e.Err }

// An AddressError means that the options do not allow to listen at an address, or that it
// is invalid.
type AddressError struct{ err error }

func (e *AddressError) Error() string { return e.err.Error() }
func (e *AddressError) Unwrap() error { return e.err }

// Explain adds the endpoint and a hint to the error of reaching it. It removes the
// addresses that the libraries add, because the endpoint is shown as it was typed.
func Explain(endpoint string, err error) error {
	if is[*Error](err) || is[*StartError](err) {
		return err
	}
	hint := hintFor(err)
	err = cause(err)
	if op, ok := errors.AsType[*net.OpError](err); ok {
		call, failed := errors.AsType[*os.SyscallError](err)
		if err = op.Err; failed {
			err = call.Err
		}
	}
	return &Error{endpoint, err, hint}
}

// is reports whether there is an error of a type in the chain of err.
func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// cause removes the address that net/url and net/http add to an error.
func cause(err error) error {
	if ue, ok := errors.AsType[*url.Error](err); ok {
		return ue.Err
	}
	return err
}

func hintFor(err error) string {
	dns, isDNS := errors.AsType[*net.DNSError](err)
	timeout, isTimeout := errors.AsType[net.Error](err)
	otherHost, isOtherHost := errors.AsType[x509.HostnameError](err)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there; start the peer, or check the address"
	case errors.Is(err, fs.ErrNotExist):
		return "start the peer, or check the path"
	case is[*RefusedError](err):
		return "check the path"
	case isDNS && dns.IsNotFound:
		return "check the name"
	case errors.Is(err, syscall.EADDRINUSE):
		return "stop the program that listens there, or use another address (port 0 lets the system choose)"
	case is[x509.UnknownAuthorityError](err):
		return "trust it with --tls-ca FILE or --tls-pin FINGERPRINT; --insecure would trust anyone"
	case isOtherHost && len(otherHost.Certificate.DNSNames)+len(otherHost.Certificate.IPAddresses) == 0:
		return "the certificate has no names: trust it with --tls-pin FINGERPRINT"
	case isOtherHost:
		return "use a name that the certificate has"
	case is[tls.RecordHeaderError](err):
		return "the peer does not speak TLS there"
	case errors.Is(err, fs.ErrPermission):
		return "check who may use it"
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH),
		isTimeout && timeout.Timeout() && !errors.Is(err, context.Canceled):
		return "check the network and the address"
	}
	return ""
}

// IsAbsent reports whether an endpoint was not reached because nobody listened there, so
// that a retry may succeed.
func IsAbsent(err error) bool {
	if is[*fs.PathError](err) || is[*StartError](err) || errors.Is(err, context.Canceled) {
		return false
	}
	absent := []error{
		syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.ENETUNREACH, syscall.EHOSTUNREACH,
		fs.ErrNotExist, // of a Unix socket
	}
	timeout, isTimeout := errors.AsType[net.Error](err)
	return slices.ContainsFunc(absent, func(e error) bool { return errors.Is(err, e) }) ||
		is[*net.DNSError](err) || isTimeout && timeout.Timeout()
}

// A StartError means that a program did not start, or that one that leads to it, such
// as ssh, failed.
type StartError struct {
	Program string
	// Status is the status of a shell: 127 for a program that was not found, 126 for
	// one that cannot be run; else the program's own.
	Status int
	Err    error
	Hint   string
}

func (e *StartError) Error() string {
	text := quoteWord(e.Program) + ": " + e.Err.Error()
	if e.Hint != "" {
		text += ": " + e.Hint
	}
	return text
}

func (e *StartError) Unwrap() error { return e.Err }

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
