package web

import (
	"bytes"
	"crypto/subtle"
	"net"
	"net/http"
	"strings"

	"github.com/wirectl/wirectl/transport"
)

// An Access says who is let in. Without a token, web pages from elsewhere are not:
// a browser would send what they like to any door of this machine.
type Access struct {
	// Token is what clients have to show, as a bearer token or as X-Api-Key; ""
	// lets in all.
	Token string
	// AnyHost accepts requests that name a host other than this machine. Left
	// false, pages of a browser cannot reach the door by a name of their own.
	AnyHost bool
	// MaxBody, unless it is 0, bounds bodies instead of the door's own limit.
	MaxBody int64
}

// admit says why a request may not come in.
func (s *session) admit() *Fault {
	origin := s.req.header("Origin")
	if origin != nil && s.cfg.Pages {
		s.resp.Set("Access-Control-Allow-Origin", "*")
	}
	switch {
	case !s.cfg.AnyHost && !local(s.req.header("Host")):
		return &Fault{403, "Forbidden host: ask this machine by an address, or as localhost"}
	case s.cfg.Token == "" && foreign(string(origin)):
		return &Fault{403, "Forbidden origin: web pages of other machines may not ask a broker without a token"}
	case s.cfg.Token != "" && !s.asksLeave() && !s.showsToken():
		return &Fault{401, "Unauthorized: show the broker's token as Authorization: Bearer TOKEN"}
	}
	if coding := s.req.header("Content-Encoding"); coding != nil && !bytes.EqualFold(coding, []byte("identity")) {
		return &Fault{415, "Content-Encoding is not supported: send the body as it is"}
	}
	return nil
}

func (s *session) showsToken() bool {
	shown, ok := strings.CutPrefix(s.req.Header("Authorization"), "Bearer ")
	if !ok { // clients of Anthropic's show theirs so
		shown = s.req.Header("X-Api-Key")
	}
	return subtle.ConstantTimeCompare([]byte(shown), []byte(s.cfg.Token)) == 1
}

// asksLeave reports whether a browser asks if a page may ask. It shows no token.
func (s *session) asksLeave() bool {
	return s.req.Method == http.MethodOptions && s.cfg.Pages && s.req.header("Access-Control-Request-Method") != nil
}

func (s *session) giveLeave() {
	s.resp.Set("Access-Control-Allow-Methods", "GET, POST")
	s.resp.Set("Access-Control-Allow-Headers", "Authorization, *")
	s.resp.Set("Access-Control-Max-Age", "600")
	s.resp.Send(http.StatusOK, "text/plain", nil)
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

func local(host []byte) bool {
	return string(host) == "127.0.0.1" || string(host) == "localhost" || Local(string(host))
}

// Local reports whether a Host header names this machine, or an address.
func Local(host string) bool { return transport.LocalHost(host) }
