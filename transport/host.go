package transport

import (
	"net"
	"net/http"
	"strings"
)

// LocalHost reports whether a Host header names this machine, or an address, which
// no page of another site can make its own.
func LocalHost(host string) bool {
	name := Hostname(host)
	return name == "" || name == "localhost" || net.ParseIP(name) != nil
}

// Hostname returns what stands before the port of a Host header, without brackets.
func Hostname(host string) string {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.Contains(host[i:], "]") {
		host = host[:i]
	}
	return strings.Trim(host, "[]")
}

// AdmitHost reports whether a request is for this machine or an address, and refuses
// it otherwise: a page of another site whose name was made to lead here says that
// name, as its Origin too.
func AdmitHost(w http.ResponseWriter, r *http.Request) bool {
	if LocalHost(r.Host) {
		return true
	}
	http.Error(w, ForeignHost, http.StatusForbidden)
	return false
}

// ForeignHost is what a client is told whose Host is not [LocalHost].
const ForeignHost = "the host is neither an address nor localhost: that takes --remote"
