package web

import (
	"crypto/rand"
	"crypto/subtle"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/transport"
)

// A guard admits browsers with the token. The token is in the printed address; it is exchanged
// for a cookie, and then removed from the address.
type guard struct {
	address string // HOST:PORT
	names   []string
	token   string
	cookie  string // name of the cookie, with the port, because cookies are shared by all ports
	secret  string // value of the cookie
	command string // secret for commands
}

func newGuard(addr net.Addr, host string) guard {
	_, port, _ := net.SplitHostPort(addr.String())
	g := guard{names: []string{host}, token: rand.Text(), cookie: "wirectl-" + port, secret: rand.Text(), command: rand.Text()}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host, _ = os.Hostname() // other machines may know it
		g.names = []string{host}
	}
	g.address = net.JoinHostPort(host, port)
	return g
}

// knows reports whether a Host header names this server. Other names may be part of a DNS
// rebinding attack.
func (g *guard) knows(hostPort string) bool {
	u, err := url.Parse("http://" + hostPort)
	if err != nil {
		return false
	}
	host := u.Hostname()
	return transport.IsLoopback(host) || slices.Contains(g.names, host) || !transport.IsLoopback(g.names[0]) && net.ParseIP(host) != nil
}

// isOwn reports whether a request comes from a page of this server, or from no page.
func isOwn(r *http.Request) bool {
	if slices.ContainsFunc(r.Header["Origin"], func(origin string) bool { return origin != "" && origin != "http://"+r.Host }) {
		return false
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
		return true
	}
	// Other pages may link to this one.
	return r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" && !strings.HasPrefix(r.URL.Path, "/api/")
}

// same compares secrets.
func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// admit passes admitted requests to next. Metrics, which name no session, are for any user of
// this machine: Prometheus has no cookies.
func (g *guard) admit(next, metrics http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		cookie, err := r.Cookie(g.cookie)
		token := r.URL.Query().Get("token")
		switch {
		case !g.knows(r.Host):
			http.Error(w, "the Host header does not name this server", http.StatusMisdirectedRequest)
		case !isOwn(r):
			http.Error(w, "the request comes from another page", http.StatusForbidden)
		case metrics != nil && r.Method == http.MethodGet && r.URL.Path == "/metrics" && transport.IsLoopback(g.names[0]):
			metrics.ServeHTTP(w, r)
		case r.Method == http.MethodGet && same(token, g.token):
			http.SetCookie(w, &http.Cookie{Name: g.cookie, Value: g.secret, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
			http.Redirect(w, r, pathOf(r.URL), http.StatusSeeOther)
		case err != nil || !same(cookie.Value, g.secret):
			http.Error(w, "open the address that wirectl printed: it contains the token", http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// pathOf is the path of an address on this server.
func pathOf(u *url.URL) string { return "/" + strings.TrimLeft(u.EscapedPath(), "/\\") }

// sessionPath is the link to a session.
func sessionPath(id string) string { return "/session/" + url.PathEscape(id) }
