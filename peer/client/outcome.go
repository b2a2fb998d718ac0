package client

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/wirectl/wirectl/session"
)

// Outcome returns the error of a session that ended with err: a [*FaultError] if the peer
// violated its protocol. It passes other findings to tell. Findings that may only be due to
// a timeout (gaveUp) or an interrupt do not count.
func (w *Watch) Outcome(err error, gaveUp, interrupted bool, tell func(text string)) error {
	err = cmp.Or(err, w.Err())
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
			hint = ": check the path in the address (MCP servers often use /mcp; A2A agents name it in /.well-known/agent-card.json)"
		}
		return fmt.Errorf("the peer answered with an error: %w%s", answered, hint)
	}
	return err
}

// worst returns the first finding about the peer that is an error, or nil, and passes the
// rest to tell.
func (w *Watch) worst(gaveUp bool, tell func(text string)) (worst *session.Finding) {
	found, own := w.Findings()
	for _, f := range own {
		if f.Severity >= session.Warning {
			tell(fmt.Sprintf("a message that was sent breaks a rule: %s: %s", f.Name, f.Message))
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
