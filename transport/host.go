package transport

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
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

// OwnPage reports whether an Origin header is that of a page of this machine, or of the
// host that it asks. Browsers send null for pages whose origin is hidden.
func OwnPage(origin, host string) bool {
	u, err := url.Parse(origin)
	isPage := err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
	return isPage && (IsLoopback(u.Hostname()) || strings.EqualFold(u.Host, host))
}

// ParseOrigin returns an origin as browsers send it.
func ParseOrigin(text string) (string, error) {
	u, err := url.Parse(strings.TrimSuffix(text, "/"))
	if text != "null" && (err != nil || u.Host == "" || *u != url.URL{Scheme: u.Scheme, Host: u.Host}) {
		return "", fmt.Errorf("%q: want an origin such as https://app.example, or null", text)
	}
	if port := map[string]string{"http": ":80", "https": ":443"}[u.Scheme]; port != "" {
		u.Host = strings.TrimSuffix(u.Host, port)
	}
	return strings.ToLower(u.String()), nil
}

// Refusal returns why an HTTP listener refuses a request; "" if it admits it. It refuses what
// pages of other sites can make a browser send, by DNS rebinding or from their own origin.
func (o *Options) Refusal(host string, origins []string) string {
	if !o.Remote && !LocalHost(host) {
		return fmt.Sprintf("the host %.200q is neither an IP address nor localhost: add --remote", host)
	}
	for _, origin := range origins {
		if origin != "" && !OwnPage(origin, host) && !slices.Contains(o.Origins, strings.ToLower(origin)) {
			return fmt.Sprintf("web pages of %.200q may not use this: allow them with --allow-origin", origin)
		}
	}
	return ""
}

// Admit reports whether a listener admits a request, and answers it otherwise.
func (o *Options) Admit(w http.ResponseWriter, r *http.Request) bool {
	refusal := o.Refusal(r.Host, r.Header["Origin"])
	if refusal != "" {
		http.Error(w, refusal, http.StatusForbidden)
	}
	return refusal == ""
}
