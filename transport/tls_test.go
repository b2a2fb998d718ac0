package transport_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wirectl/wirectl/test/kit/transporttest"
	"github.com/wirectl/wirectl/transport"
)

// An authority signs certificates for the tests.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string // its own certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	a.file, _ = a.issue(t, "authority")
	return a
}

// issue signs a certificate, and returns the files that it and its key are in.
// The first one is the authority's own.
func (a *authority) issue(t *testing.T, name string) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		template.IsCA, template.BasicConstraintsValid = true, true
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	check(t, err)
	if a.cert == nil {
		a.cert, err = x509.ParseCertificate(der)
		check(t, err)
		a.key = key
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	check(t, err)
	certFile, keyFile = filepath.Join(a.dir, name+".pem"), filepath.Join(a.dir, name+".key")
	check(t, os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	check(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), 0o600))
	return certFile, keyFile
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// echoed says what came of sending a word to an echo behind TLS.
func echoed(t *testing.T, scheme string, theirs, ours transport.Options) error {
	t.Helper()
	l := listen(t, scheme+"://127.0.0.1:0", theirs)
	ctx := bounded(t)
	served := make(chan struct{})
	go func() {
		defer close(served)
		if c, err := l.Accept(ctx); err == nil {
			_ = transporttest.Act(transporttest.Echoes, c, c, c.CloseWrite)
			c.Close()
		}
	}()
	defer func() { <-served }()
	defer l.Close()
	e, err := transport.Parse([]string{l.Addr()}, ours)
	check(t, err)
	c, err := e.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Write([]byte("word")); err != nil {
		return err
	}
	_, err = io.ReadFull(c, make([]byte, 4))
	return err
}

// Verification is never skipped in silence: a certificate is trusted because of
// an authority, a pin, or because somebody said that any will do.
func TestTrust(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	cert, key := ca.issue(t, "server")
	clientCert, clientKey := ca.issue(t, "client")
	strangerCert, strangerKey := other.issue(t, "stranger")

	server := transport.Options{TLS: transport.TLS{Cert: cert, Key: key}}
	mutual := transport.Options{TLS: transport.TLS{Cert: cert, Key: key, CA: ca.file}}
	var told []string
	insecure := transport.Options{TLS: transport.TLS{Insecure: true}, Notice: func(text string) { told = append(told, text) }}

	for _, tt := range []struct {
		name         string
		theirs, ours transport.Options
		want         string // "" if it is trusted
	}{
		{"nobody vouches", server, transport.Options{}, "certificate signed by unknown authority: trust it with --tls-ca FILE or --tls-pin FINGERPRINT"},
		{"its authority is given", server, transport.Options{TLS: transport.TLS{CA: ca.file}}, ""},
		{"another authority is given", server, transport.Options{TLS: transport.TLS{CA: other.file}}, "unknown authority"},
		{"a wrong pin", server, transport.Options{TLS: transport.TLS{Pin: "00:AA"}}, `not "00:AA"`},
		{"anybody is trusted", server, insecure, ""},
		{"a client without a certificate", mutual, transport.Options{TLS: transport.TLS{CA: ca.file}}, "certificate required"},
		{"a client of the authority", mutual, transport.Options{TLS: transport.TLS{CA: ca.file, Cert: clientCert, Key: clientKey}}, ""},
		{"a client of another authority", mutual, transport.Options{TLS: transport.TLS{CA: ca.file, Cert: strangerCert, Key: strangerKey}}, "tls: "},
		{"a missing file", server, transport.Options{TLS: transport.TLS{CA: "missing.pem"}}, "missing.pem: no such file"},
		{"a file without certificates", server, transport.Options{TLS: transport.TLS{CA: key}}, "no certificate in it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := echoed(t, "tls", tt.theirs, tt.ours)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
	if len(told) != 1 || told[0] != "the certificate of 127.0.0.1 is not verified" {
		t.Errorf("of an unverified certificate is told %q", told)
	}
	if err := echoed(t, "wss", mutual, transport.Options{TLS: transport.TLS{CA: ca.file}}); err == nil {
		t.Error("wss took a client without a certificate")
	}
	if err := echoed(t, "wss", mutual, transport.Options{TLS: transport.TLS{CA: ca.file, Cert: clientCert, Key: clientKey}}); err != nil {
		t.Errorf("wss: %v", err)
	}
}

func TestTLSToAPlainPeer(t *testing.T) {
	l := listen(t, "tcp://127.0.0.1:0", transport.Options{})
	go func() {
		if c, err := l.Accept(t.Context()); err == nil {
			_, _ = c.Write([]byte("220 hello\r\n"))
			c.Close()
		}
	}()
	err := tryDial(t, bounded(t), strings.Replace(l.Addr(), "tcp", "tls", 1), transport.Options{})
	if err == nil || !strings.Contains(err.Error(), "the peer does not speak TLS there") {
		t.Error(err)
	}
}

// ALPN agrees on a subprotocol, or the connection fails.
func TestALPN(t *testing.T) {
	with := func(names ...string) transport.Options {
		return transport.Options{Subprotocols: names, TLS: transport.TLS{Insecure: true}}
	}
	if err := echoed(t, "tls", with("h2"), with("http/1.1", "h2")); err != nil {
		t.Error(err)
	}
	if err := echoed(t, "tls", with("h2"), with("other")); err == nil || !strings.Contains(err.Error(), "no application protocol") {
		t.Error(err)
	}
}

// Whoever lets other machines in is told so once.
func TestRemoteIsToldOnce(t *testing.T) {
	cert, key := newAuthority(t).issue(t, "server")
	for _, address := range []string{"tcp://0.0.0.0:0", "tls://0.0.0.0:0", "ws://0.0.0.0:0", "wss://0.0.0.0:0"} {
		var told []string
		l := listen(t, address, transport.Options{
			Remote: true, TLS: transport.TLS{Cert: cert, Key: key},
			Notice: func(text string) { told = append(told, text) },
		})
		l.Close()
		if len(told) != 1 {
			t.Errorf("%s: %q", address, told)
		}
	}
}
