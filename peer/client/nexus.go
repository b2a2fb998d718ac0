package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// A Nexus is a client of a Nexus server or agent.
type Nexus struct{ httpRPC }

// NewNexus returns a client of the server, or of the agent, at a URL.
func NewNexus(url string, w *Watch, h HTTPOptions) *Nexus {
	return &Nexus{httpRPC{url: url, watch: w, http: h}}
}

// Call calls a method. The params are a JSON object; nil omits them.
func (c *Nexus) Call(method string, params []byte) Call {
	return func(ctx context.Context, out func(Part)) error {
		return c.post(ctx, method, params, nil, func(result []byte) { nexusResult(method, result, out) })
	}
}

// SendFor calls send with params, a JSON object, and cancels it after d. The cancel refers
// to the request_id of params, which is generated if missing.
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
		err := asked(limited, func(Part) {}) // the answer of the send shows the outcome
		if err == nil {
			select {
			case err := <-ended:
				return err
			case <-limited.Done():
			}
		}
		leave()
		<-ended //nolint:errcheck // it was cancelled
		return cmp.Or(context.Cause(limited), err)
	})
}

// nexusResult outputs a result. That of a send is text, which a cancelled one may lack; any
// other result is shown as JSON.
func nexusResult(method string, result []byte, out func(Part)) {
	var send struct {
		Content   *string `json:"content"`
		Cancelled bool    `json:"cancelled"`
	}
	err := json.Unmarshal(result, &send)
	if method != "send" || err != nil || send.Content == nil && !send.Cancelled {
		out(Part{JSON: result})
		return
	}
	if send.Content != nil {
		out(Part{Text: *send.Content})
	}
	if send.Cancelled {
		out(Part{Aside: true, Name: "cancelled"})
	}
}

// NexusToken returns the token for the server at that URL: from the environment, or from
// the file that the server writes to the home folder, for its port or for all ports. It is
// "" if there is none, as for older servers.
func NexusToken(server *url.URL, getenv func(string) string) (string, error) {
	if key := getenv("NEXUS3_API_KEY"); key != "" {
		return key, nil
	}
	home := cmp.Or(getenv("HOME"), getenv("USERPROFILE")) // the latter on Windows
	if host := server.Hostname(); home == "" || host != "127.0.0.1" && host != "localhost" && host != "::1" {
		return "", nil // the files belong to servers of this machine
	}
	port := cmp.Or(server.Port(), "8765")
	for _, name := range []string{"rpc-" + port + ".token", "rpc.token"} {
		path := filepath.Join(home, ".nexus3", name)
		token, err := readToken(path)
		if err == nil {
			return strings.TrimSpace(string(token)), nil
		}
		if !os.IsNotExist(err) {
			return "", fmt.Errorf("cannot read the token of the server: %w", err)
		}
	}
	return "", nil
}

// readToken reads a file that only its owner may read. Windows has no such modes.
func readToken(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); runtime.GOOS != "windows" && mode&0o077 != 0 {
		return nil, fmt.Errorf("%s can be read by others (mode %04o): try chmod 600 %[1]s", path, mode)
	}
	return os.ReadFile(path)
}
