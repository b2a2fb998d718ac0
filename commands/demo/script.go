package demo

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/wirectl/wirectl/peer/client"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/transport"
)

// Next says what to try after the demonstration.
const Next = "Try next: wirectl wrap (puts this in front of your MCP servers), wirectl calls fixture:mcp-cancel, wirectl help"

const answer = "The index is stale because the tool kept running after its cancel. Stop the work when the client says so, and discard the result."

// script is the play of the client, with captions.
func (s *stage) script(conn transport.Conn, api string) error {
	s.caption("An MCP client connects to a server through wirectl relay, and asks which tools it has.")
	c, err := client.DialRPC(s.ctx, conn, client.MCP, client.NewWatch(jsonrpc.MCP, nil), client.RPCOptions{Version: "demo"})
	if err != nil {
		conn.Close()
		return err
	}
	defer c.Close()
	err = s.steps(
		func() error { return c.Call("tools/list", []byte(`{}`))(s.ctx, ignore) },
		func() error { return s.pause(2 * time.Second) },
		func() error {
			s.caption("It calls two tools at once. Each call is a row; a tick in its lane is a progress report.")
			return s.bothTools(c)
		},
		func() error { return s.pause(time.Second) },
		func() error {
			s.caption("Meanwhile the agent asks a model. The answer streams: each tick is a piece of text.")
			return s.askModel(api)
		},
		func() error { return s.pause(time.Second) },
		func() error {
			s.caption("A slow tool runs. Its user presses Esc, and the client cancels the call ...")
			return s.interrupt(c)
		},
		func() error { return s.pause(3 * time.Second) },
	)
	if err == nil {
		s.caption(Next)
	}
	return err
}

func (s *stage) steps(list ...func() error) error {
	for _, step := range list {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func ignore(client.Part) {}

func call(tool, args string) []byte {
	return fmt.Appendf(nil, `{"name":%q,"arguments":{%s},"_meta":{"progressToken":%q}}`, tool, args, tool)
}

func (s *stage) bothTools(c *client.RPC) error {
	g, ctx := errgroup.WithContext(s.ctx)
	g.Go(func() error { return c.Call("tools/call", call("search", `"text":"cancel"`))(ctx, ignore) })
	g.Go(func() error {
		if err := s.pause(600 * time.Millisecond); err != nil {
			return err
		}
		return c.Call("tools/call", call("read_file", `"path":"README.md"`))(ctx, ignore)
	})
	return g.Wait()
}

// askModel asks the model for a streamed answer.
func (s *stage) askModel(api string) error {
	body := `{"model":"small","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"Why is the index stale?"}]}`
	r, err := http.NewRequestWithContext(s.ctx, http.MethodPost, api+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	t := &http.Transport{}
	defer t.CloseIdleConnections()
	resp, err := t.RoundTrip(r)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return cmp.Or(err, resp.Body.Close())
}

// interrupt cancels a call after some reports, and waits for the answer that should not come.
func (s *stage) interrupt(c *client.RPC) error {
	ctx, esc := context.WithCancel(s.ctx)
	defer esc()
	reports := 0
	err := c.Call("tools/call", call("index", `"path":"src"`))(ctx, func(client.Part) {
		if reports++; reports == 4 {
			esc()
		}
	})
	if s.ctx.Err() != nil || ctx.Err() == nil {
		return err
	}
	s.caption("... but the tool goes on, and answers all the same: the finding late-result (press 3).")
	select {
	case <-s.late:
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}
