package track

// Kept returns how many wires the follower keeps something of, and how many connections
// of a carrier.
func (f *Follower) Kept() (wires, conns int) { return max(len(f.wires), len(f.order)), len(f.conns) }

// KeptOfUnits returns how many bytes of standard error the follower keeps.
func (f *Follower) KeptOfUnits() (n int) {
	for _, u := range f.units {
		n += cap(u.stderr)
	}
	return n
}
