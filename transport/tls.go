package transport

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// TLS configures trust and our own certificate.
type TLS struct {
	// CA, Cert and Key are PEM files: the authorities to trust instead of the
	// system's, and our own certificate with its key. A listener with a CA accepts
	// only clients with a certificate of that CA.
	CA, Cert, Key string
	// Pin is the SHA-256 fingerprint of a certificate to trust, whoever signed it.
	Pin string
	// Insecure trusts any certificate.
	Insecure bool
}

// ClientTLS returns the settings of a client of host.
func (o *Options) ClientTLS(host string) (*tls.Config, error) {
	cfg, err := o.TLS.config()
	if err != nil {
		return nil, err
	}
	cfg.ServerName = host
	switch {
	case o.TLS.Insecure:
		o.notice("the certificate of " + host + " is not verified")
		cfg.InsecureSkipVerify = true
	case o.TLS.Pin != "":
		// The pin replaces the library's verification.
		cfg.InsecureSkipVerify = true
		cfg.VerifyConnection = o.TLS.verifyPin
	}
	return cfg, nil
}

// HTTPClient returns a client for requests to an address.
func (o *Options) HTTPClient(address string) (*http.Client, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "wss" {
		return http.DefaultClient, err
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig, err = o.ClientTLS(u.Hostname())
	return &http.Client{Transport: t}, err
}

// ClientTLSAt returns the HOST:PORT of an address to connect to, and the settings of
// its client.
func (o *Options) ClientTLSAt(address string) (hostPort string, cfg *tls.Config, err error) {
	if hostPort, err = HostPort(address); err != nil {
		return "", nil, err
	}
	host, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		return "", nil, err
	}
	cfg, err = o.ClientTLS(host)
	return hostPort, cfg, err
}

// ServerTLSAt returns the HOST:PORT to listen on for an address, and the settings of
// its listener.
func (o *Options) ServerTLSAt(address string) (hostPort string, cfg *tls.Config, err error) {
	if hostPort, err = o.listenAt(address); err != nil {
		return "", nil, err
	}
	host, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		return "", nil, err
	}
	cfg, err = o.serverTLS(host)
	return hostPort, cfg, err
}

// serverTLS returns the settings of a listener at host. Without a certificate it
// makes one for loopback, and reports its fingerprint to Notice.
func (o *Options) serverTLS(host string) (*tls.Config, error) {
	cfg, err := o.TLS.config()
	if err != nil {
		return nil, err
	}
	if cfg.RootCAs != nil {
		cfg.ClientCAs, cfg.ClientAuth = cfg.RootCAs, tls.RequireAndVerifyClientCert
	}
	if len(cfg.Certificates) > 0 {
		return cfg, nil
	}
	if !IsLoopback(host) {
		return nil, &AddressError{errors.New("a listener for other machines needs a certificate: give --tls-cert and --tls-key")}
	}
	cert, err := selfSigned(time.Now())
	if err != nil {
		return nil, err
	}
	cfg.Certificates = []tls.Certificate{cert}
	o.notice("a certificate was made for this run; clients trust it with --tls-pin " + fingerprint(cert.Certificate[0]))
	return cfg, nil
}

func (t *TLS) config() (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.CA != "" {
		pem, err := os.ReadFile(t.CA)
		if err != nil {
			return nil, err
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: no certificate in it: want PEM, as in -----BEGIN CERTIFICATE-----", t.CA)
		}
	}
	if t.Cert != "" {
		cert, err := tls.LoadX509KeyPair(t.Cert, t.Key)
		if err != nil {
			return nil, fmt.Errorf("certificate %s with key %s: %w", t.Cert, t.Key, err)
		}
		cfg.Certificates = []tls.Certificate{cert}
	}
	return cfg, nil
}

func (t *TLS) verifyPin(state tls.ConnectionState) error {
	pin := strings.ToLower(strings.ReplaceAll(t.Pin, ":", ""))
	if got := fingerprint(state.PeerCertificates[0].Raw); got != pin {
		return fmt.Errorf("the peer's certificate has the fingerprint %s, not %q", got, t.Pin)
	}
	return nil
}

func fingerprint(der []byte) string {
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}

// selfSigned makes a self-signed certificate for this machine.
func selfSigned(now time.Time) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	const days = 30
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		Subject:      pkix.Name{CommonName: "wirectl"},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.AddDate(0, 0, days),
		KeyUsage:     x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:     []string{"localhost"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		// Also an authority, so that it can be given as --tls-ca.
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// A tlsConn is a Conn over TLS. Its CloseWrite sends close_notify, which only ends our
// direction.
type tlsConn struct {
	*tls.Conn
	below *below
}

// below is the connection under TLS. It remembers whether it has ended.
type below struct {
	net.Conn
	ended atomic.Bool
}

func (b *below) Read(p []byte) (int, error) {
	n, err := b.Conn.Read(p)
	if err == io.EOF {
		b.ended.Store(true)
	}
	return n, err
}

// Read returns an error if the peer ends without close_notify: the library treats that as
// a clean end.
func (c tlsConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err == io.EOF && c.below.ended.Load() {
		err = errNoGoodbye
	}
	return n, err
}

// errNoGoodbye is the error if the peer was killed, or somebody in between interferes.
var errNoGoodbye = fmt.Errorf("the connection ended without a TLS close_notify: %w", io.ErrUnexpectedEOF)

func (c tlsConn) lowest() net.Conn { return c.below.Conn }

// Abort resets the socket without close_notify.
func (c tlsConn) Abort(error) error { return closed(reset(c.below.Conn)) }

// Close may be called again.
func (c tlsConn) Close() error {
	linger(c.below.Conn, -1)
	return closed(c.Conn.Close())
}

func dialTLS(ctx context.Context, address string, opts Options) (Conn, error) {
	hostPort, cfg, err := opts.ClientTLSAt(address)
	if err != nil {
		return nil, err
	}
	cfg.NextProtos = opts.Subprotocols
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", hostPort)
	if err != nil {
		return nil, err
	}
	c := tlsConn{below: &below{Conn: raw}}
	c.Conn = tls.Client(c.below, cfg)
	if err := c.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, err
	}
	return c, nil
}

// A tlsListener does each handshake in a goroutine of its own, so that a slow client
// blocks no other.
type tlsListener struct {
	net      *net.TCPListener
	config   *tls.Config
	notice   func(string)
	inbox    *Inbox[Conn]
	greeters sync.WaitGroup
	stop     context.CancelFunc
}

func listenTLS(ctx context.Context, address string, opts Options) (Listener, error) {
	l, cfg, err := listenStreamTLS(ctx, address, opts)
	if err != nil {
		return nil, err
	}
	cfg.NextProtos = opts.Subprotocols
	tl := &tlsListener{net: l, config: cfg, notice: opts.notice, inbox: NewInbox[Conn]()}
	ctx, tl.stop = context.WithCancel(context.WithoutCancel(ctx))
	tl.greeters.Go(func() { tl.acceptConns(ctx) })
	return tl, nil
}

func listenStreamTLS(ctx context.Context, address string, opts Options) (*net.TCPListener, *tls.Config, error) {
	hostPort, cfg, err := opts.ServerTLSAt(address)
	if err != nil {
		return nil, nil, err
	}
	l, err := listenHostPort(ctx, hostPort)
	return l, cfg, err
}

func (l *tlsListener) Addr() string { return "tls://" + l.net.Addr().String() }

func (l *tlsListener) Accept(ctx context.Context) (Conn, error) { return l.inbox.Accept(ctx) }

func (l *tlsListener) Close() error {
	l.stop()
	l.inbox.Close()
	err := l.net.Close()
	l.greeters.Wait()
	return err
}

func (l *tlsListener) acceptConns(ctx context.Context) {
	defer l.inbox.Close()
	for {
		raw, err := accept(ctx, l.net)
		if err != nil {
			return
		}
		l.greeters.Go(func() { l.greet(ctx, raw) })
	}
}

// greeting bounds the handshake of a client.
const greeting = 10 * time.Second

func (l *tlsListener) greet(ctx context.Context, raw net.Conn) {
	b := &below{Conn: raw}
	c := tls.Server(b, l.config)
	handshake, cancel := context.WithTimeout(ctx, greeting)
	defer cancel()
	err := c.HandshakeContext(handshake)
	if err != nil && ctx.Err() == nil {
		l.notice(fmt.Sprintf("%s: TLS with %s failed: %v", l.Addr(), raw.RemoteAddr(), err))
	}
	if err != nil || !l.inbox.Put(ctx, tlsConn{c, b}) {
		raw.Close()
	}
}

// Bind listens at the address of a server over gRPC or HTTP. The configuration is that of TLS, or
// nil without it.
func (o *Options) Bind(ctx context.Context, address string) (l net.Listener, cfg *tls.Config, scheme string, err error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, nil, "", err
	}
	var hostPort string
	if u.Scheme == "grpcs" {
		hostPort, cfg, err = o.ServerTLSAt(address)
	} else {
		hostPort, err = o.ListenOn(u.Host)
	}
	if err != nil {
		return nil, nil, "", err
	}
	l, err = new(net.ListenConfig).Listen(ctx, "tcp", hostPort)
	return l, cfg, u.Scheme, err
}
