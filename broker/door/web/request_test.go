package web_test

import (
	"net/http"
	"testing"

	"github.com/wirectl/wirectl/broker/door/web"
)

// A request on a tap has no key in it.
func TestStartWithoutKey(t *testing.T) {
	for uri, want := range map[string]string{
		"/a?key=secret":                "/a?key=***",
		"/a?alt=sse&key=secret&x=1":    "/a?alt=sse&key=***&x=1",
		"/a?%6bey=secret&k%65%79=also": "/a?%6bey=***&k%65%79=***",
		"/a?monkey=1":                  "/a?monkey=1",
		"/a":                           "/a",
	} {
		r := web.Request{Request: &http.Request{Method: "GET", RequestURI: uri, Proto: "HTTP/1.1"}}
		if got := r.Start(); got != "GET "+want+" HTTP/1.1" {
			t.Errorf("%s: got %s", uri, got)
		}
	}
}
