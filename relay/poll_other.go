//go:build !linux

package relay

// poll moves bytes by the descriptors on systems where that is faster. This is not one of them.
func (r *relay) poll() bool { return false }
