package client

import (
	"errors"
	"fmt"
	"strings"

	"github.com/wirectl/wirectl/session"
)

// Outcome is what came of a session that ended with err: a [*FaultError] if the peer broke
// its protocol. It tells what else was found wrong. Who gave up, or was interrupted, does
// not know what would have come.
func (w *Watch) Outcome(err error, gaveUp, interrupted bool, tell func(text string)) error {
	if werr := w.Err(); err == nil {
		err = werr
	}
	worst := w.worst(gaveUp, tell)
	if fault, ok := errors.AsType[*FaultError](err); ok {
		return fault
	}
	if worst != nil && !interrupted && (err == nil || worst.Name != "unanswered") {
		if err != nil {
			tell(err.Error())
		}
		return faultf("%s: %s", worst.Name, worst.Message)
	}
	if answered, ok := errors.AsType[*PeerError](err); ok {
		hint := ""
		if strings.HasPrefix(answered.Code, "HTTP 404") || strings.HasPrefix(answered.Code, "HTTP 405") {
			hint = ": check the path in the address (that of MCP is often /mcp)"
		}
		return fmt.Errorf("the peer answered an error: %w%s", answered, hint)
	}
	return err
}

// worst returns the first error among what was found of the peer, nil if there is none,
// and tells the rest.
func (w *Watch) worst(gaveUp bool, tell func(text string)) (worst *session.Finding) {
	found, own := w.Findings()
	for _, f := range own {
		if f.Severity >= session.Warning {
			tell(fmt.Sprintf("what was sent breaks a rule: %s: %s", f.Name, f.Message))
		}
	}
	for _, f := range found {
		switch {
		case gaveUp && f.Name == "no-final":
		case f.Severity == session.Error && worst == nil:
			worst = &f
		case f.Severity >= session.Warning:
			tell(fmt.Sprintf("%v: %s: %s", f.Severity, f.Name, f.Message))
		}
	}
	return worst
}
