package commands

import (
	"errors"
	"fmt"

	"github.com/wirectl/wirectl/render"
)

// each calls f for every input in turn. A fault of one is said at once and does
// not keep the others from being read: each returns it in the end, so that the
// status tells of it. Any other error ends the round.
func (inv *invocation) each(names []string, f func(i int, name string) error) error {
	faulty := 0
	for i, name := range names {
		err := f(i, name)
		var fault *faultError
		switch {
		case err == nil:
		case i == len(names)-1 || !errors.As(err, &fault):
			return err
		default:
			report(inv.Stderr, err)
			faulty++
		}
	}
	if faulty > 0 {
		return &faultError{fmt.Errorf("%s of %d could not be read to the end", render.Count(int64(faulty), "input"), len(names))}
	}
	return nil
}
