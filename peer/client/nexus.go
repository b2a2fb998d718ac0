package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol/jsonscan"
	"github.com/wirectl/wirectl/transport/mcphttp"
)

// A Nexus asks a server that speaks JSON-RPC over HTTP.
type Nexus struct {
	url   string
	watch *Watch
	http  HTTPOptions
	last  atomic.Int64
}

// NewNexus returns a client of the server, or of the agent, at a URL.
func NewNexus(url string, w *Watch, h HTTPOptions) *Nexus { return &Nexus{url: url, watch: w, http: h} }

// Call is the call of a method. The params are a JSON object, or nil for none.
func (c *Nexus) Call(method string, params []byte) Call {
	return func(ctx context.Context, out func(Part)) error {
		n := int(c.last.Add(1))
		body := rpcRequest(strconv.Itoa(n), method, params)
		if _, err := c.watch.see(n, frame.C2U, frame.Line.Name(), asLine(body)); err != nil {
			return err
		}
		defer c.watch.endConn(n)
		answer, err := c.post(ctx, body)
		if err != nil {
			return err
		}
		if _, err := c.watch.see(n, frame.U2C, frame.Line.Name(), asLine(answer)); err != nil {
			return &FaultError{err}
		}
		return nexusResult(method, answer, out)
	}
}

// SendFor is the call of send with params, a JSON object, that is cancelled after d.
// A cancel names what it is about by its request_id, which is made where params have
// none.
func (c *Nexus) SendFor(d time.Duration, params []byte) Call {
	return settled(func(ctx context.Context, out func(Part)) error {
		named := map[string]json.RawMessage{}
		if err := json.Unmarshal(params, &named); err != nil {
			return fmt.Errorf("a send that is to be cancelled: want an object of params: %w", err)
		}
		if isNull(named["request_id"]) {
			named["request_id"] = jsonscan.MustMarshal(rand.Text())
		}
		sending, leave := context.WithCancel(ctx)
		defer leave()
		ended := make(chan error, 1)
		go func() { ended <- c.Call("send", jsonscan.MustMarshal(named))(sending, out) }()
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case err := <-ended:
			return err
		case <-timer.C:
		}
		limited, cancel := context.WithTimeoutCause(ctx, confirmation, errUnconfirmed)
		defer cancel()
		asked := c.Call("cancel", jsonscan.MustMarshal(object{"request_id": named["request_id"]}))
		err := asked(limited, func(Part) {}) // whose answer says no more than the send's own
		if err == nil {
			select {
			case err := <-ended:
				return err
			case <-limited.Done():
			}
		}
		leave()
		<-ended //nolint:errcheck // it was given up
		return cmp.Or(context.Cause(limited), err)
	})
}

// post returns the body of the answer: an error of JSON-RPC may come with any
// status.
func (c *Nexus) post(ctx context.Context, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, c.http.Header)
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := mcphttp.AnswerOf(resp).Body()
	if err != nil {
		return nil, ofHTTP(err)
	}
	if resp.StatusCode >= 400 && !answers(answer) {
		return nil, &PeerError{Code: "HTTP " + resp.Status, Message: strings.TrimSpace(string(answer[:min(len(answer), 512)]))}
	}
	return answer, nil
}

// answers reports whether a body has what an answer of JSON-RPC has.
func answers(body []byte) bool {
	var m struct{ Result, Error json.RawMessage }
	return json.Unmarshal(body, &m) == nil && (m.Result != nil || m.Error != nil)
}

// nexusResult hands out what is in an answer. That of a send is text, of which a
// cancelled one may have none.
func nexusResult(method string, answer []byte, out func(Part)) error {
	var m struct {
		Result json.RawMessage `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(answer, &m); err != nil {
		return &FaultError{err}
	}
	switch {
	case !isNull(m.Error):
		return peerError(m.Error)
	case m.Result == nil:
		return faultf("the answer has neither a result nor an error: %s", answer)
	}
	var send struct {
		Content   *string `json:"content"`
		Cancelled bool    `json:"cancelled"`
	}
	err := json.Unmarshal(m.Result, &send)
	if method != "send" || err != nil || send.Content == nil && !send.Cancelled {
		out(Part{JSON: m.Result})
		return nil //nolint:nilerr // a result of another form is shown as it is
	}
	if send.Content != nil {
		out(Part{Text: *send.Content})
	}
	if send.Cancelled {
		out(Part{Aside: true, Name: "cancelled"})
	}
	return nil
}

// NexusToken returns the token that newer servers at that URL want: that of the
// environment, or what the server has written into the home folder for its port,
// or for all. It is "" if there is none.
func NexusToken(server *url.URL, getenv func(string) string) (string, error) {
	if key := getenv("NEXUS3_API_KEY"); key != "" {
		return key, nil
	}
	home := cmp.Or(getenv("HOME"), getenv("USERPROFILE")) // as Windows calls it
	if home == "" || !isLoopback(server.Hostname()) {
		return "", nil // the files are those of the servers of this machine
	}
	port := server.Port()
	if port == "" {
		port = "8765"
	}
	for _, name := range []string{"rpc-" + port + ".token", "rpc.token"} {
		path := filepath.Join(home, ".nexus3", name)
		token, err := readToken(path)
		if err == nil {
			return strings.TrimSpace(string(token)), nil
		}
		if !os.IsNotExist(err) {
			return "", fmt.Errorf("the token of the server cannot be read: %w", err)
		}
	}
	return "", nil
}

// readToken reads a file that its owner alone may read. Windows has no such modes.
func readToken(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); runtime.GOOS != "windows" && mode&0o077 != 0 {
		return nil, fmt.Errorf("%s may be read by others (mode %04o): try chmod 600 %[1]s", path, mode)
	}
	return os.ReadFile(path)
}

func isLoopback(host string) bool { return host == "127.0.0.1" || host == "localhost" || host == "::1" }
