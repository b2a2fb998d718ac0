package commands

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/relay/wrap"
	"github.com/wirectl/wirectl/transport"
	"github.com/wirectl/wirectl/transport/mcphttp"
)

// bridge returns the unit that speaks in lines to a server of MCP over HTTP. Its headers
// are those of --header, and those in the environment, which no list of processes shows.
func (v *relaying) bridge(unit transport.HTTP) (transport.Endpoint, error) {
	opts, err := v.unitOptions(v.c)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(v.Getenv(wrap.HeadersVariable)) {
		line = strings.TrimRight(line, "\r\n")
		name, value, ok := strings.Cut(line, ":")
		switch {
		case line == "":
		case !ok || name == "":
			return nil, usagef("invalid %s: want lines of NAME: VALUE", wrap.HeadersVariable)
		default:
			opts.Header.Add(name, strings.TrimSpace(value))
		}
	}
	client, err := httpClient(&opts, unit.String())
	if err != nil {
		return nil, err
	}
	return &mcphttp.Endpoint{
		URL: unit.URL(), Options: mcphttp.Options{Client: client, Header: opts.Header},
		Notice: func(text string) {
			v.server.Note(text)
			v.options.Warn(render.Safe(text))
		},
	}, nil
}

// httpClient returns what makes requests to an address, and trusts whom the flags say.
func httpClient(opts *transport.Options, address string) (*http.Client, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "wss" {
		return http.DefaultClient, err
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.TLSClientConfig, err = opts.ClientTLS(u.Hostname())
	return &http.Client{Transport: t}, err
}
