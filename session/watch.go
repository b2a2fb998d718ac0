package session

// A Watcher is told what its tracker learns, as it learns it, so that a view
// which draws while a session goes on need not look through all of it. What it
// is given is valid during the call, in which it must not call the tracker.
type Watcher interface {
	// Changed says that the frame of that number, which is 0 if no frame did
	// it, belongs to e or changed what became of it.
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
