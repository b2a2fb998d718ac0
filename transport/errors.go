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
)

// An Error says why an endpoint was not reached.
type Error struct {
	Endpoint string
	Err      error
	// Hint is what to try next; "" if nothing comes to mind.
	Hint string
}

func (e *Error) Error() string {
	if e.Hint == "" {
		return e.Endpoint + ": " + e.Err.Error()
	}
	return e.Endpoint + ": " + e.Err.Error() + ": " + e.Hint
}

func (e *Error) Unwrap() error { return e.Err }

// An AddressError says that an address is none that can be listened at, or not as
// the options are.
type AddressError struct{ err error }

func (e *AddressError) Error() string { return e.err.Error() }
func (e *AddressError) Unwrap() error { return e.err }

// Explain adds to the error of reaching an endpoint which one it is, and what to
// try next, and takes away how the libraries say where: the endpoint says it as it
// was typed.
func Explain(endpoint string, err error) error {
	if e := (*Error)(nil); errors.As(err, &e) {
		return err
	}
	if e := (*StartError)(nil); errors.As(err, &e) {
		return err
	}
	hint := hintFor(err)
	err = cause(err)
	var op *net.OpError
	var call *os.SyscallError
	switch {
	case errors.As(err, &call) && errors.As(err, &op):
		err = call.Err
	case errors.As(err, &op):
		err = op.Err
	}
	return &Error{endpoint, err, hint}
}

// cause takes away what net/url and net/http repeat of an address around the cause of an
// error.
func cause(err error) error {
	var ue *url.Error
	if errors.As(err, &ue) {
		return ue.Err
	}
	return err
}

func hintFor(err error) string {
	var dns *net.DNSError
	var timeout net.Error
	var unknownCA x509.UnknownAuthorityError
	var otherHost x509.HostnameError
	var noTLS tls.RecordHeaderError
	var refused *RefusedError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there; start the peer, or check the address"
	case errors.Is(err, fs.ErrNotExist):
		return "start the peer, or check the path"
	case errors.As(err, &refused):
		return "check the path"
	case errors.As(err, &dns) && dns.IsNotFound:
		return "check the name"
	case errors.Is(err, syscall.EADDRINUSE):
		return "end the program that listens there, or take another address (port 0 lets the system choose)"
	case errors.As(err, &unknownCA):
		return "trust it by --tls-ca FILE or --tls-pin FINGERPRINT; --insecure would trust anybody"
	case errors.As(err, &otherHost) && len(otherHost.Certificate.DNSNames)+len(otherHost.Certificate.IPAddresses) == 0:
		return "the certificate has no names: trust it by --tls-pin FINGERPRINT"
	case errors.As(err, &otherHost):
		return "use a name that the certificate has"
	case errors.As(err, &noTLS):
		return "the peer does not speak TLS there"
	case errors.Is(err, fs.ErrPermission):
		return "check who may use it"
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH),
		errors.As(err, &timeout) && timeout.Timeout() && !errors.Is(err, context.Canceled):
		return "check the network and the address"
	}
	return ""
}

// IsAbsent reports whether an endpoint was not reached because nobody was there,
// so that it may be reached later: not because of what the peer said, or of what
// was asked for.
func IsAbsent(err error) bool {
	var file *fs.PathError
	var start *StartError
	if errors.As(err, &file) || errors.As(err, &start) || errors.Is(err, context.Canceled) {
		return false
	}
	absent := []error{
		syscall.ECONNREFUSED, syscall.ECONNRESET, syscall.ENETUNREACH, syscall.EHOSTUNREACH,
		fs.ErrNotExist, // of a Unix socket
	}
	var dns *net.DNSError
	var timeout net.Error
	return slices.ContainsFunc(absent, func(e error) bool { return errors.Is(err, e) }) ||
		errors.As(err, &dns) || errors.As(err, &timeout) && timeout.Timeout()
}

// A StartError says why a program did not start, or how one that leads to it, such
// as ssh, failed.
type StartError struct {
	Program string
	// Status is what a shell gives for it: 127 for a program that was not found,
	// 126 for one that cannot be run; else the program's own.
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
