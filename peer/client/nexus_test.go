package client_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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

// A send is cancelled by a request of its own, which names it.
func TestNexusCancel(t *testing.T) {
	for params, name := range map[string]string{`{"content":"a poem"}`: "", `{"content":"a poem","request_id":7}`: "7"} {
		cancelled, named := make(chan string, 1), make(chan string, 1)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var m struct {
				ID     json.RawMessage
				Method string
				Params struct {
					RequestID json.RawMessage `json:"request_id"`
				}
			}
			if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
				t.Error(err)
			}
			result := `{"cancelled":true}`
			if id := string(m.Params.RequestID); m.Method == "cancel" {
				cancelled <- id
			} else {
				named <- id
				result = fmt.Sprintf(`{"content":"O wire","request_id":%s,"cancelled":true}`, <-cancelled)
			}
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
		}))
		watch := client.NewWatch(nexus.Protocol, nil)
		var parts []client.Part
		err := client.NewNexus(server.URL, watch, client.HTTPOptions{}).SendFor(time.Millisecond, []byte(params))(t.Context(),
			func(p client.Part) { parts = append(parts, p) })
		if err != nil || len(parts) != 2 || parts[0].Text != "O wire" || parts[1].Name != "cancelled" {
			t.Errorf("%s: %v, %v", params, parts, err)
		}
		if id := <-named; id == "" || name != "" && id != name {
			t.Errorf("%s: the send was called %s", params, id)
		}
		if found, own := watch.Findings(); len(found)+len(own) > 0 {
			t.Errorf("%s: findings %v, %v", params, found, own)
		}
		server.Close()
		http.DefaultClient.CloseIdleConnections()
	}
}

// A send that was cancelled before it had an answer has no content.
func TestNexusCancelledAtOnce(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"cancelled":true}}`)
	}))
	defer http.DefaultClient.CloseIdleConnections()
	defer server.Close()
	var parts []client.Part
	err := client.NewNexus(server.URL, client.NewWatch(nexus.Protocol, nil), client.HTTPOptions{}).Call("send", []byte(`{"content":"a poem"}`))(t.Context(),
		func(p client.Part) { parts = append(parts, p) })
	if err != nil || len(parts) != 1 || parts[0].Name != "cancelled" || !parts[0].Aside {
		t.Errorf("%v, %v", parts, err)
	}
}

// A server that leaves a cancel, or what it cancelled, without an answer is not waited for.
func TestNexusCancelUnheard(t *testing.T) {
	for _, answered := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			h := client.HTTPOptions{Client: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				body, _ := io.ReadAll(r.Body)
				if answered && strings.Contains(string(body), `"cancel"`) {
					return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(`{"jsonrpc":"2.0","id":2,"result":{"cancelled":true}}`))}, nil
				}
				<-r.Context().Done()
				return nil, r.Context().Err()
			})}}
			err := client.NewNexus("http://nowhere", client.NewWatch(nexus.Protocol, nil), h).SendFor(time.Second, []byte("{}"))(t.Context(), func(client.Part) {})
			if _, ok := errors.AsType[*client.FaultError](err); !ok {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
