package transport_test

import (
	"crypto/x509"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/transport"
)

// No name fits a certificate that has none.
func TestHintWithoutNames(t *testing.T) {
	for want, certificate := range map[string]*x509.Certificate{
		"--tls-pin":  {},
		"use a name": {DNSNames: []string{"example.org"}},
	} {
		err := transport.Explain("tls://127.0.0.1:1", x509.HostnameError{Certificate: certificate, Host: "127.0.0.1"})
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q", err, want)
		}
	}
}
