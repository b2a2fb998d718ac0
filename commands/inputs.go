package commands

import (
	"context"
	"errors"
	"fmt"

	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/source"
	"github.com/wirectl/wirectl/hub"
	"github.com/wirectl/wirectl/internal/render"
)

// sources returns the operands that name inputs: standard input if there are
// none.
func (inv *invocation) sources() ([]string, error) {
	if len(inv.Operands) > 0 {
		return inv.Operands, nil
	}
	if inv.IsTerminal(inv.Stdin) {
		return nil, usagef("nothing to read: name a FILE, a fixture:NAME, a tap:NAME or a hub:SESSION, or redirect standard input")
	}
	return []string{"-"}, nil
}

// opener returns the opener of inputs. It shows a progress bar if no other output disturbs that.
func (inv *invocation) opener() *source.Opener {
	o := &source.Opener{Stdin: inv.Stdin, Getenv: inv.Getenv, Waiting: inv.say, Hub: hub.Source(inv.Getenv)}
	if inv.IsTerminal(inv.Stderr) && (inv.reportsAtEnd || !inv.IsTerminal(inv.Stdout)) {
		o.Meter = inv.Stderr
	}
	return o
}

// open opens an input of bytes.
func (inv *invocation) open(ctx context.Context, name string) (*source.Source, error) {
	src, err := inv.opener().Open(ctx, name)
	return src, misnamed(err)
}

// openSession opens an input of frames.
func (inv *invocation) openSession(ctx context.Context, name string, cfg decode.Config, follow bool) (*source.Session, error) {
	src, err := inv.opener().Session(ctx, name, cfg, follow)
	return src, unopened(name, err)
}

// misnamed makes an error a usage error if the command line is to blame.
func misnamed(err error) error {
	if errors.Is(err, source.ErrFolder) {
		return &source.Error{Err: usagef("%w", err)}
	}
	return err
}

// unopened adds the input to an error, and marks a fault of the input.
func unopened(name string, err error) error {
	if err == nil || is[*source.Error](err) {
		return misnamed(err)
	}
	if fault := located(name, nil, err); fault != err {
		return fault
	}
	return &source.Error{Err: fmt.Errorf("%s: %w", label(name), err)}
}

// label is the name of an input in messages.
func label(name string) string { return source.Label(name) }

// each calls f for every input in turn. It reports an input that cannot be read or has a fault at
// once, goes on with the others, and returns an error at the end. It stops at any other error.
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
		return &source.Error{Err: err}
	case faulty > 0:
		return &faultError{err}
	}
	return nil
}

// isOfInput reports whether an error is about one input, and not about the whole run.
func isOfInput(err error) bool {
	return isUnread(err) || is[*faultError](err)
}

// isUnread reports whether an input could not be read, or not to its end, for a reason outside of
// its content.
func isUnread(err error) bool {
	return is[*source.Error](err) && !errors.Is(err, context.Canceled)
}
