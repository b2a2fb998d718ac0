package theory

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"syscall"
	"time"
)

// newClient returns the HTTP client for fetching and storing. It connects only to the addresses
// that admit allows, even after redirects.
func (f *Files) newClient() *http.Client {
	return &http.Client{
		Transport: guarded{&http.Transport{
			DialContext:         (&net.Dialer{Timeout: fetchTime, Control: f.control}).DialContext,
			ForceAttemptHTTP2:   true,
			TLSHandshakeTimeout: 10 * time.Second,
			IdleConnTimeout:     90 * time.Second,
		}},
		CheckRedirect: f.checkRedirect,
	}
}

// A guarded transport checks the addresses that it connects to. If the environment names a
// proxy, the proxy makes and controls the connections.
type guarded struct{ *http.Transport }

func (g guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	if proxy, err := http.ProxyFromEnvironment(r); proxy != nil || err != nil {
		return http.DefaultTransport.RoundTrip(r)
	}
	return g.Transport.RoundTrip(r)
}

// checkRedirect only allows redirects to URLs that a Request could contain.
func (f *Files) checkRedirect(req *http.Request, via []*http.Request) error {
	switch to := req.URL; {
	case to.Scheme != "https" && !f.isPlain(to.String()):
		return fmt.Errorf("it redirects to %s://%s, which is not https", to.Scheme, to.Host)
	case len(via) >= maxRedirects:
		return errors.New("it redirects too often")
	}
	return nil
}

// control refuses an address before the connection is made, so that open and closed ports take
// the same time.
func (f *Files) control(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	return f.admit(to.Addr().Unmap())
}

// carrierGrade are the addresses that providers share among customers.
var carrierGrade = netip.MustParsePrefix("100.64.0.0/10")

// admit returns an error if runs may not connect to an address.
func (f *Files) admit(ip netip.Addr) error {
	switch {
	case isThisMachine(ip):
		if !f.PlainHTTP {
			return fmt.Errorf("%s is this machine: give --plain-http if runs may connect to it", ip)
		}
	case !ip.IsGlobalUnicast() || ip.IsPrivate() || carrierGrade.Contains(ip):
		if !f.PrivateNetwork {
			return fmt.Errorf("%s is a private address: give --private-network if runs may connect to it", ip)
		}
	}
	return nil
}

func isThisMachine(ip netip.Addr) bool {
	if ip.IsLoopback() || ip.IsUnspecified() {
		return true
	}
	own, _ := net.InterfaceAddrs() // without them, only loopback is known
	return slices.ContainsFunc(own, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.Equal(ip.WithZone("").AsSlice())
	})
}
