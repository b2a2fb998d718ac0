package theory

import "net/netip"

// Admit returns an error if runs may not connect to an address.
func (f *Files) Admit(ip netip.Addr) error { return f.admit(ip) }

// ReadArtifact reads the file of a run's place below root.
func ReadArtifact(root, runID, place string) ([]byte, error) {
	f := Files{Root: root}
	return f.readArtifact(runID, place, fileLimit)
}
