package session

// A Watcher is notified of everything that its tracker learns, so that a live view need not
// search all of it. The arguments are only valid during the call. A Watcher must not call the
// tracker.
type Watcher interface {
	// Changed reports that frame seq (0 for none) belongs to e or changed its state.
	Changed(e *Exchange, seq int64)
	// Asked reports that c was added to the ledger, or that its class is now known.
	Asked(c *Cancel)
	// Found reports that a rule was broken.
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
