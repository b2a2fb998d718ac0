package transport

import (
	"net"
	"net/http"
	"strings"
)

// LocalHost reports whether a Host header names this machine, or an address, which DNS
// rebinding cannot use.
func LocalHost(host string) bool {
	name := Hostname(host)
	return name == "" || name == "localhost" || net.ParseIP(name) != nil
}

// Hostname returns a Host header without its port and brackets.
func Hostname(host string) string {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.Contains(host[i:], "]") {
		host = host[:i]
	}
	return strings.Trim(host, "[]")
}

// IsLoopback reports whether a host is loopback, without asking a resolver.
func IsLoopback(host string) bool { return host == "localhost" || net.ParseIP(host).IsLoopback() }

// AdmitHost reports whether a request is for this machine or an address, and refuses it
// otherwise. This prevents DNS rebinding by pages of other sites.
func AdmitHost(w http.ResponseWriter, r *http.Request) bool {
	if LocalHost(r.Host) {
		return true
	}
	http.Error(w, ForeignHost, http.StatusForbidden)
	return false
}

// ForeignHost is the error for a client whose Host is not a [LocalHost].
const ForeignHost = "the host is neither an IP address nor localhost: add --remote"
