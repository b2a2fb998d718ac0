package commands

import (
	"context"
	"errors"
	"fmt"

	"github.com/wirectl/wirectl/internal/render"
)

// An inputError says that an input is not there or cannot be read, whatever is in it.
type inputError struct{ err error }

func (e *inputError) Error() string { return e.err.Error() }
func (e *inputError) Unwrap() error { return e.err }

// each calls f for every input in turn. That one cannot be read, or has a fault, is said
// at once and does not keep the others from being read: each returns it in the end, so
// that the status tells of it. Any other error ends the round.
func (inv *invocation) each(names []string, f func(i int, name string) error) error {
	unread, faulty := 0, 0
	for i, name := range names {
		err := f(i, name)
		switch {
		case err == nil:
			continue
		case !isOfInput(err), len(names) == 1:
			return err
		case isUnread(err):
			unread++
		case i == len(names)-1 && unread == 0:
			return err
		default:
			faulty++
		}
		report(inv.Stderr, err)
	}
	err := fmt.Errorf("%s of %d could not be read to the end", render.Count(int64(unread+faulty), "input"), len(names))
	switch {
	case unread > 0:
		return &inputError{err}
	case faulty > 0:
		return &faultError{err}
	}
	return nil
}

// isOfInput reports whether an error is about one input, and not about all of the run.
func isOfInput(err error) bool {
	var fault *faultError
	return isUnread(err) || errors.As(err, &fault)
}

// isUnread reports whether an input could not be read at all, or not to its end, for no
// reason that lies in what was read.
func isUnread(err error) bool {
	var unread *inputError
	return errors.As(err, &unread) && !errors.Is(err, context.Canceled)
}
