package agent

import (
	"bytes"
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// validity is how long certificates are valid: longer than any run, and short enough for all clients.
const validity = 365 * 24 * time.Hour

// An authority signs certificates for the hosts that a run opens. Its keys are only in memory.
type authority struct {
	key     *ecdsa.PrivateKey
	cert    *x509.Certificate
	pem     []byte
	leafKey *ecdsa.PrivateKey

	mu     sync.Mutex
	leaves map[string]*tls.Certificate
}

func newAuthority() (*authority, error) {
	a := &authority{leaves: map[string]*tls.Certificate{}}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, err
	}
	if a.leafKey, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, err
	}
	template := certificate()
	template.Subject = pkix.Name{CommonName: "wirectl run, for this run only"}
	template.IsCA, template.MaxPathLenZero = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		return nil, err
	}
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	a.cert, err = x509.ParseCertificate(der)
	return a, err
}

func certificate() *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)) // it never fails
	now := time.Now()
	return &x509.Certificate{SerialNumber: serial, BasicConstraintsValid: true, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(validity)}
}

// leaf returns the certificate for a name, which may be an address.
func (a *authority) leaf(name string) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.leaves[name]; c != nil {
		return c, nil
	}
	template := certificate()
	template.KeyUsage, template.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	if ip := net.ParseIP(name); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{name}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, a.leafKey.Public(), a.key)
	if err != nil {
		return nil, err
	}
	c := &tls.Certificate{Certificate: [][]byte{der, a.cert.Raw}, PrivateKey: a.leafKey}
	a.leaves[name] = c
	return c, nil
}

// A trustVariable names a file of certificates that a client trusts: besides its own, or instead of them.
type trustVariable struct {
	name     string
	replaces bool
}

// trustVariables are those of docs/run.md.
var trustVariables = []trustVariable{
	{"NODE_EXTRA_CA_CERTS", false},
	{"SSL_CERT_FILE", true},
	{"REQUESTS_CA_BUNDLE", true},
	{"CURL_CA_BUNDLE", true},
	{"GIT_SSL_CAINFO", true},
	{"CODEX_CA_CERTIFICATE", true},
}

// rootFiles are where systems keep their roots.
var rootFiles = []string{
	"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/pki/tls/cacert.pem",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem",
}

// trust writes the files of certificates into a folder, and returns the variables that name them. A file is the
// user's own with the authority added; where the user has none, variables that replace get the system's roots.
// Without a file of these, such variables are not set, and the result names them.
func (a *authority) trust(folder string, getenv func(string) string) (set map[string]string, unset []string, err error) {
	set = map[string]string{}
	written := map[string]string{} // by what was added
	for _, v := range trustVariables {
		own := getenv(v.name)
		if v.replaces {
			own = cmp.Or(own, getenv("SSL_CERT_FILE"), systemRoots())
			if own == "" {
				unset = append(unset, v.name)
				continue
			}
		}
		if file, ok := written[own]; ok {
			set[v.name] = file
			continue
		}
		content := bytes.Clone(a.pem)
		if own != "" {
			more, err := os.ReadFile(own)
			if err != nil && v.replaces { // its clients would trust nothing
				unset = append(unset, v.name)
				continue
			}
			content = append(content, more...)
		}
		name := "roots.pem"
		switch {
		case own == "":
			name = "authority.pem"
		case own == getenv(v.name):
			name = v.name + ".pem"
		}
		file := filepath.Join(folder, name)
		if err := os.WriteFile(file, content, 0o600); err != nil {
			return nil, nil, err
		}
		written[own], set[v.name] = file, file
	}
	return set, unset, nil
}

func systemRoots() string {
	if !rootsAreAFile {
		return ""
	}
	for _, file := range rootFiles {
		if _, err := os.Stat(file); err == nil {
			return file
		}
	}
	return ""
}

// userRoots are the roots by which the user's programs would judge a server: those of the system, of
// SSL_CERT_FILE, and of the other variables.
func userRoots(getenv func(string) string) *x509.CertPool {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	for _, v := range trustVariables {
		if file := getenv(v.name); file != "" {
			if text, err := os.ReadFile(file); err == nil {
				pool.AppendCertsFromPEM(text)
			}
		}
	}
	return pool
}
