package protocol

// Rules is how a protocol's sessions differ from those of the others: what its
// specification demands of messages taken together. It is a literal value
// beside each parser, and [Message] and Rules are all that package session
// knows of a protocol. The zero Rules demand nothing.
type Rules struct {
	// UniqueIDs forbids opening an exchange under an id that is still open
	// from the same side. Where it is false, equal ids are answered first in,
	// first out.
	UniqueIDs bool
	// Sequenced parts are numbered from 0, without gap or repeat.
	Sequenced bool
	// Counted answers carry as many results as the request has prompts.
	Counted bool
	// Opening are the kinds of which the controller's first message on a
	// connection must be one; nil allows any.
	Opening []string
	// Ack is the kind of the first answer to everything opened, which is no
	// part of the answer proper; "" where there is none.
	Ack string
	// Final says that what ends an exchange is required even where the
	// connection ends first: its absence is "no-final".
	Final bool
	// MayLeave allows a side to go away while its requests are open: that they
	// are unanswered then is worth a note, not an error.
	MayLeave bool
	// MayHangUp allows the side that asks to hang up while it waits: that its requests
	// are unanswered then is worth a note. It is an error if the side that was to answer
	// is known to have ended the connection first.
	MayHangUp bool
	// LeavingCancels says that the side which ends its direction of a connection
	// first cancels with that what it has asked and is not answered.
	LeavingCancels bool
	// Subscribe is the kind that opens an exchange without end. In it messages
	// of the kind Update are parts, though they close other exchanges, and any
	// other close ends all subscriptions of the connection.
	Subscribe, Update string
	// LooseRefs allows references to things that no message of the session
	// has opened or that have ended: sessions, progress of the server's own.
	LooseRefs bool
	// Streamed says that an exchange is a stream in both directions: what its
	// opener sends under its id, without a phase, is more of the request. Of
	// one that was open before the session began nothing is missed.
	Streamed bool
	// Reset is the kind by which a carrier breaks an exchange off. It may follow the
	// end, of which it takes nothing back.
	Reset string
	// SharedRuns says that tokens of SpaceRun name exchanges of all
	// connections, so that one connection can cancel what another opened.
	SharedRuns bool
	// Session returns the id of the session that an answer to a request of the
	// kind opened has made, as tokens of SpaceSession have it; nil for none. It
	// may be nil.
	Session func(opened string, answer *Message, payload []byte) []byte
	// Cancels says what has to follow a cancel, by its kind; the entry with no
	// kind stands for the kinds without one.
	Cancels []CancelRule
	// Sources are pairs: a finding, and the sentence of this protocol that it says
	// is broken, where that is not the sentence that all protocols share.
	Sources [][2]string
}

// A CancelRule is what has to follow a cancel.
type CancelRule struct {
	// Kind is the kind of the cancel, or "" for every other kind.
	Kind string
	// Target is how the exchange that is to be ended must be answered.
	Target Duty
	// Own is how a cancel with an id of its own must be answered.
	Own Duty
}

// Cancel returns the rule for cancels of that kind.
func (r *Rules) Cancel(kind string) CancelRule {
	var other CancelRule
	for _, c := range r.Cancels {
		switch c.Kind {
		case kind:
			return c
		case "":
			other = c
		}
	}
	return other
}

// Duty is what a protocol demands of an answer.
type Duty uint8

const (
	MayAnswer     Duty = iota // an answer may come or not
	MustAnswer                // an answer must come, whichever
	MustConfirm               // an answer must come, and say that it was cancelled
	MustNotAnswer             // no answer may come
)

// Source returns the sentence for a finding; "" if there is none of this protocol.
func (r *Rules) Source(finding string) string {
	for _, s := range r.Sources {
		if s[0] == finding {
			return s[1]
		}
	}
	return ""
}
