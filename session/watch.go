package session

// A Watcher is told everything that its tracker learns, as it learns it, so that a view
// that draws a session in progress need not search all of it. Its arguments are valid
// during the call, in which it must not call the tracker.
type Watcher interface {
	// Changed says that the frame of that number, 0 for none, belongs to e or changed its
	// state.
	Changed(e *Exchange, seq int64)
	// Asked says that c was entered into the ledger, or that its class is known
	// now.
	Asked(c *Cancel)
	// Found says that a rule was broken.
	Found(f Finding)
}

func (t *Tracker) changed(e *Exchange, seq int64) {
	if t.watch != nil {
		t.watch.Changed(e, seq)
	}
}

func (t *Tracker) asked(c *Cancel) {
	if t.watch != nil {
		t.watch.Asked(c)
	}
}
