package wrap

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/wirectl/wirectl/transport/mcphttp"
)

// answerTime is how long a server may take to show whether it requires a login.
const answerTime = 10 * time.Second

// reasonNot returns the reason not to bridge a server; "" if there is none.
func reasonNot(ctx context.Context, remote *RemoteError) string {
	u, err := url.Parse(remote.URL)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return "its address is not an HTTP URL"
	case shown(remote.URL) != remote.URL:
		return "its address may hold a secret, which a list of processes would show"
	}
	for _, values := range remote.Header {
		if strings.Contains(strings.Join(values, ""), "${") { // only the client knows it
			return ""
		}
	}
	c := mcphttp.NewClient(mcphttp.Config{URL: remote.URL, Options: mcphttp.Options{Header: remote.Header}})
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	answer, err := c.Post(ctx, []byte(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"wirectl","version":"0"}}}`), nil)
	refused, isRefused := errors.AsType[*mcphttp.StatusError](err)
	switch {
	case isRefused && refused.Code == http.StatusUnauthorized:
		return "it requires a login (HTTP 401), which the client does"
	case err != nil && !isRefused:
		return "it did not answer: " + cmp.Or(errors.Unwrap(err), err).Error()
	case err == nil:
		answer.Close()
	}
	_ = c.Close() // best effort
	return ""
}
