package theory

import "net/netip"

// Admit returns an error if runs may not connect to an address.
func (f *Files) Admit(ip netip.Addr) error { return f.admit(ip) }

// ReadArtifact reads what a place of a run names below root.
func ReadArtifact(root, runID, place string) ([]byte, error) {
	f := Files{Root: root}
	return f.readArtifact(runID, place, fileLimit)
}
