package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/wirectl/wirectl/frame"
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
		defer c.watch.end(n)
		answer, err := c.post(ctx, body)
		if err != nil {
			return err
		}
		if _, err := c.watch.see(n, frame.U2C, frame.Line.Name(), asLine(answer)); err != nil {
			return &FaultError{err}
		}
		result, err := nexusResult(method, answer)
		if err == nil {
			out(result)
		}
		return err
	}
}

// post returns the body of the answer: an error of JSON-RPC may come with any
// status.
func (c *Nexus) post(ctx context.Context, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for k, v := range c.http.Header {
		req.Header[k] = v
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.do(req)
	if err != nil {
		return nil, err
	}
	answer, err := readBody(resp.Body)
	if err = cmp.Or(err, resp.Body.Close()); err != nil {
		return nil, err
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

// nexusResult reads an answer. That of a send is text.
func nexusResult(method string, answer []byte) (Part, error) {
	var m struct {
		Result json.RawMessage `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(answer, &m); err != nil {
		return Part{}, &FaultError{err}
	}
	switch {
	case !isNull(m.Error):
		return Part{}, peerError(m.Error)
	case m.Result == nil:
		return Part{}, faultf("the answer has neither a result nor an error: %s", answer)
	}
	var send struct {
		Content *string `json:"content"`
	}
	if method == "send" && json.Unmarshal(m.Result, &send) == nil && send.Content != nil {
		return Part{Text: *send.Content}, nil
	}
	return Part{JSON: m.Result}, nil
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
