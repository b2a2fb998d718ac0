package web

import (
	"cmp"
	"crypto/subtle"
	"net"
	"net/http"
	"strings"

	"github.com/wirectl/wirectl/transport"
)

// An Access says who is let in. Without a token, web pages from elsewhere are not:
// a browser would send what they like to any door of this machine.
type Access struct {
	// Token is what clients have to show, as a bearer token, as X-Api-Key or as
	// Gemini's clients do; ""
	// lets in all.
	Token string
	// Clients are the names of clients that have tokens of their own, by those.
	Clients map[string]string
	// Prefix, unless it is "", is a secret that the path of each request begins with.
	Prefix string
	// AnyHost accepts requests that name a host other than this machine. Left
	// false, pages of a browser cannot reach the door by a name of their own.
	AnyHost bool
	// Containers accepts the names by which containers call this machine, from peers
	// that [ContainerHost] admits.
	Containers bool
	// MaxBody, unless it is 0, bounds bodies instead of the door's own limit.
	MaxBody int64
}

// NeedsToken reports whether clients have to show a token.
func (a *Access) NeedsToken() bool { return a.Token != "" || len(a.Clients) > 0 }

// admit says why a request may not come in, or else which client's it is. It looks at
// nothing of the body.
func (c *Config) admit(r *http.Request, w *Response) (account string, fault *Fault) {
	origin := r.Header.Get("Origin")
	if origin != "" && c.Pages {
		w.Set("Access-Control-Allow-Origin", "*")
	}
	account, known := c.whose(r)
	switch {
	case !c.hasPrefix(r.URL.Path):
		return "", &Fault{http.StatusNotFound, "Not found"}
	case !c.AnyHost && !transport.LocalHost(r.Host) && !(c.Containers && isContainer(r)):
		return "", &Fault{http.StatusForbidden, "Forbidden host: ask this machine by an address, or as localhost"}
	case !c.NeedsToken() && foreign(origin):
		return "", &Fault{http.StatusForbidden, "Forbidden origin: web pages of other machines may not ask a broker without a token"}
	case c.NeedsToken() && !c.isPreflight(r) && !known:
		return "", &Fault{http.StatusUnauthorized, "Unauthorized: show the broker's token as Authorization: Bearer TOKEN"}
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return "", &Fault{http.StatusUnsupportedMediaType, "Content-Encoding is not supported: send the body as it is"}
	}
	return account, nil
}

// hasPrefix reports whether a path is below the secret prefix. The time tells nothing of it.
func (a *Access) hasPrefix(path string) bool {
	return len(path) >= len(a.Prefix) && subtle.ConstantTimeCompare([]byte(path[:len(a.Prefix)]), []byte(a.Prefix)) == 1
}

// isContainer reports whether a container asks by its name for this machine.
func isContainer(r *http.Request) bool {
	peer, err := net.ResolveTCPAddr("tcp", r.RemoteAddr)
	return err == nil && ContainerHost(r.Host, peer)
}

// whose says which client a request is of, by the token that it shows, and whether that is
// one that there is. All are compared, so that the time tells nothing.
func (c *Config) whose(r *http.Request) (account string, known bool) {
	shown, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok { // clients of Anthropic's show theirs so, and those of Gemini's
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

// isPreflight reports whether a browser asks if a page may ask. It shows no token.
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

// foreign reports whether an Origin header is that of a web page which is not of
// this machine, or hides where it is from. Programs send none, or one with a
// scheme of their own.
func foreign(origin string) bool {
	scheme, host, _ := strings.Cut(origin, "://")
	switch scheme {
	case "null":
		return true
	case "http", "https":
		name := transport.Hostname(host)
		return name != "localhost" && !net.ParseIP(name).IsLoopback()
	}
	return false
}
