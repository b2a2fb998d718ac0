package client_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/peer/client"
	"github.com/wirectl/wirectl/protocol/nexus"
)

// A refusal of HTTP is told as such, also where its body is JSON.
func TestNexusNotFound(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"detail":"Not Found"}`))
	}))
	defer server.Close()
	defer http.DefaultClient.CloseIdleConnections()
	n := client.NewNexus(server.URL, client.NewWatch(nexus.Protocol, nil), client.HTTPOptions{})
	err := n.Call("get_tokens", nil)(t.Context(), func(client.Part) {})
	if err == nil || !strings.Contains(err.Error(), "HTTP 404 Not Found") {
		t.Errorf("the error is %v", err)
	}
}
