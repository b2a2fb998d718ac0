package web

import (
	"cmp"
	"crypto/subtle"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/transport"
)

// An Access says which requests are admitted. Without a token, web pages of other machines
// are not: a browser would send their requests to any door of this machine.
type Access struct {
	// Token is the token that clients must send, as a bearer token, as X-Api-Key or as
	// Gemini's clients do; "" admits all.
	Token string
	// Clients are the names of clients with tokens of their own, by token.
	Clients map[string]string
	// Prefix is a secret at the start of each request's path; "" is none.
	Prefix string
	// AnyHost accepts requests for any host. If false, web pages cannot reach the door by
	// a name that resolves to this machine.
	AnyHost bool
	// Containers accepts the names by which containers call this machine, from peers
	// that [ContainerHost] admits.
	Containers bool
	// MaxBody replaces the door's own limit of bodies, unless it is 0.
	MaxBody int64
}

// NeedsToken reports whether clients must send a token.
func (a *Access) NeedsToken() bool { return a.Token != "" || len(a.Clients) > 0 }

// admit returns the client of a request, or a fault if the request is not admitted. It does
// not look at the body.
func (c *Config) admit(r *http.Request, w *Response) (account string, fault *Fault) {
	if len(r.Header["Origin"]) > 0 && c.Pages && !isForeign(r) {
		w.Set("Access-Control-Allow-Origin", "*")
	}
	account, known := c.whose(r)
	switch {
	case !c.hasPrefix(r.URL.Path):
		return "", &Fault{http.StatusNotFound, "Not found"}
	case !c.AnyHost && !transport.LocalHost(r.Host) && !(c.Containers && isContainer(r)):
		return "", &Fault{http.StatusForbidden, "Forbidden host: ask this machine by an address, or as localhost"}
	case isForeign(r):
		return "", &Fault{http.StatusForbidden, "Forbidden origin: web pages of other machines may not ask a broker"}
	case c.NeedsToken() && !c.isPreflight(r) && !known:
		return "", &Fault{http.StatusUnauthorized, "Unauthorized: show the broker's token as Authorization: Bearer TOKEN"}
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return "", &Fault{http.StatusUnsupportedMediaType, "Content-Encoding is not supported: send the body as it is"}
	}
	return account, nil
}

// hasPrefix reports whether a path begins with the secret prefix, in constant time.
func (a *Access) hasPrefix(path string) bool {
	return len(path) >= len(a.Prefix) && subtle.ConstantTimeCompare([]byte(path[:len(a.Prefix)]), []byte(a.Prefix)) == 1
}

// isContainer reports whether a request comes from a container, by its name for this machine.
func isContainer(r *http.Request) bool {
	peer, err := net.ResolveTCPAddr("tcp", r.RemoteAddr)
	return err == nil && ContainerHost(r.Host, peer)
}

// whose returns the client whose token a request has, and whether the token is known. All
// tokens are compared, so that the time reveals nothing.
func (c *Config) whose(r *http.Request) (account string, known bool) {
	scheme, shown, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if shown = strings.TrimSpace(shown); !strings.EqualFold(scheme, "Bearer") { // as clients of Anthropic's and Gemini's APIs send it
		shown = cmp.Or(r.Header.Get("X-Api-Key"), r.Header.Get("X-Goog-Api-Key"), r.URL.Query().Get("key"))
	}
	if c.Token != "" {
		known = subtle.ConstantTimeCompare([]byte(shown), []byte(c.Token)) == 1
	}
	for token, name := range c.Clients {
		if subtle.ConstantTimeCompare([]byte(shown), []byte(token)) == 1 {
			account, known = name, true
		}
	}
	return account, known
}

// isPreflight reports whether a request is a browser's preflight request, which has no token.
func (c *Config) isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && c.Pages && r.Header.Get("Access-Control-Request-Method") != ""
}

// allow answers a preflight request.
func allow(w *Response) {
	w.Set("Access-Control-Allow-Methods", "GET, POST")
	w.Set("Access-Control-Allow-Headers", "Authorization, *")
	w.Set("Access-Control-Max-Age", "600")
	w.Send(http.StatusOK, "text/plain", nil)
}

// isForeign reports whether a request is that of a web page of another machine, or of an unknown
// one. Programs send no origin, or one with a scheme of their own, which no page has.
func isForeign(r *http.Request) bool {
	return slices.ContainsFunc(r.Header["Origin"], func(origin string) bool {
		scheme, _, ok := strings.Cut(origin, "://")
		isPrograms := ok && !slices.Contains([]string{"http", "https", "file"}, scheme) && !strings.HasSuffix(scheme, "-extension")
		return origin != "" && !isPrograms && !transport.OwnPage(origin, r.Host)
	})
}
