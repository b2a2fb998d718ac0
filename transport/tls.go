package transport

// TLS says whom to trust, and who we are.
type TLS struct {
	// CA, Cert and Key are PEM files: whom to trust instead of the system's
	// authorities, and our own certificate with its key.
	CA, Cert, Key string
	// Pin is the SHA-256 fingerprint of the peer's certificate, which is then
	// trusted whoever signed it.
	Pin string
	// Insecure trusts any certificate.
	Insecure bool
}
