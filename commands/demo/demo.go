// Package demo plays some seconds of agents at work, for people who have only wirectl: an MCP
// client and server, and a streaming model, real ones on loopback, with relays in between.
// Captions explain them. Steps wait for events rather than the clock, so the play is the same at
// any pace and on a busy machine.
package demo

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/config"
	"github.com/wirectl/wirectl/broker/door/openai"
	"github.com/wirectl/wirectl/broker/door/web"
	"github.com/wirectl/wirectl/broker/host"
	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/pcapng"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/wait"
	"github.com/wirectl/wirectl/peer/client"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/relay"
	"github.com/wirectl/wirectl/relay/httpproxy"
	"github.com/wirectl/wirectl/transport"
)

// models is the broker's configuration: one slow model.
const models = `default: small
providers:
  mock:
    kind: mock
    mock: {latency: %s, delay: %s, script: [{when: "", say: %q}]}
models:
  small: {provider: mock}
`

// Run plays the demonstration. Frames go to seen, and captions to say. The pace is 1 for people;
// a smaller one is faster. It returns when the play or ctx ends.
func Run(ctx context.Context, seen *relay.Fan, pace float64, say func(caption string)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &stage{seen: seen, pace: pace, caption: say, late: make(chan struct{})}
	s.relays, s.ctx = errgroup.WithContext(ctx)
	err := s.play()
	if left := ctx.Err(); left != nil {
		err = left
	}
	cancel()
	s.relays.Wait() //nolint:errcheck // errors of relays that are cut off do not matter
	return err
}

// A stage has everything that runs for the play.
type stage struct {
	ctx     context.Context
	seen    *relay.Fan
	pace    float64
	caption func(string)
	relays  *errgroup.Group
	late    chan struct{} // closed when the cancelled tool has answered
	once    sync.Once
}

// after is a duration at the pace of the play.
func (s *stage) after(d time.Duration) time.Duration { return time.Duration(float64(d) * s.pace) }

// pause waits at the pace of the play.
func (s *stage) pause(d time.Duration) error { return wait.For(s.ctx, s.after(d)) }

func (s *stage) play() error {
	api, closeBroker, err := s.openModel()
	if err != nil {
		return err
	}
	defer closeBroker()
	files, err := s.openFiles()
	if err != nil {
		return err
	}
	return s.script(files, api)
}

const anyPort = "tcp://127.0.0.1:0"

// openModel starts a broker, and returns the address of a relay in front of it.
func (s *stage) openModel() (base string, stop func(), err error) {
	text := fmt.Appendf(nil, models, s.after(400*time.Millisecond), s.after(90*time.Millisecond), answer)
	cfg, err := config.Parse("demo", text, config.OSEnv())
	if err != nil {
		return "", nil, err
	}
	b, err := broker.New(cfg.Broker, nil)
	if err != nil {
		return "", nil, err
	}
	svc, err := host.OpenDoors(s.ctx, []host.Door{{Name: openai.Name, Addr: "127.0.0.1:0", Server: openai.New(b, nil, web.Access{})}}, false)
	if err != nil {
		return "", nil, err
	}
	svc.Start(s.ctx)
	stop = func() { svc.Shutdown(s.ctx) }
	l, err := transport.Listen(s.ctx, anyPort, transport.Options{})
	if err != nil {
		return "", stop, err
	}
	listening, err := url.Parse(l.Addr())
	if err != nil {
		return "", stop, err
	}
	target := &url.URL{Scheme: "http", Host: svc.Addr(openai.Name)}
	s.relays.Go(func() error {
		_, err := httpproxy.Serve(s.ctx, httpproxy.Config{Listener: l, Target: target, Sink: s.seen})
		return err
	})
	return "http://" + listening.Host, stop, nil
}

// openFiles starts the MCP server, and returns the client's end of a relay in front of it.
func (s *stage) openFiles() (transport.Conn, error) {
	client, above, err := s.pair()
	if err != nil {
		return nil, err
	}
	below, server, err := s.pair()
	if err != nil {
		return nil, err
	}
	s.relays.Go(func() error { return (&files{stage: s, conn: server}).serveLines() })
	s.relays.Go(func() error {
		_, err := relay.Run(s.ctx, relay.Config{
			Controller: above, Unit: below, Sink: s.seen, Conn: 100, Name: "files",
			Framing: frame.Line, Protocol: jsonrpc.MCP,
		})
		return err
	})
	return client, nil
}

// pair returns the two ends of a connection.
func (s *stage) pair() (dialled, accepted transport.Conn, err error) {
	l, err := transport.Listen(s.ctx, anyPort, transport.Options{})
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	to, err := transport.Parse([]string{l.Addr()}, transport.Options{})
	if err != nil {
		return nil, nil, err
	}
	if dialled, err = to.Dial(s.ctx); err != nil {
		return nil, nil, err
	}
	if accepted, err = l.Accept(s.ctx); err != nil {
		dialled.Close()
	}
	return dialled, accepted, err
}

// Write writes the demonstration to w as a capture. Captions go to say, or are notes if say is
// nil.
func Write(ctx context.Context, w io.Writer, pace float64, say func(caption string)) error {
	sink, err := pcapng.NewWriter(w, capture.Session{Created: time.Now(), Controller: "demo", Unit: "demo"}, nil)
	if err != nil {
		return err
	}
	fan := relay.NewFan(func(string) {}, sink)
	if say == nil {
		say = func(caption string) {
			fan.Write(&capture.Record{Kind: capture.Note, Time: time.Now(), Text: []byte(caption)})
		}
	}
	return Run(ctx, fan, pace, say)
}

// Play plays the demonstration while show shows it; show may stop it. For captions see [Write].
func Play(ctx context.Context, pace float64, say func(caption string), show func(in decode.Input, stop func()) error) error {
	ctx, cancel := context.WithCancel(ctx)
	r, w := io.Pipe()
	stop := func() { cancel(); r.Close() }
	defer stop()
	played := make(chan error, 1)
	go func() {
		err := Write(ctx, w, pace, say)
		w.CloseWithError(err)
		played <- err
	}()
	in, err := decode.Open(r, decode.Config{})
	if err == nil {
		err = show(in, stop)
	}
	stop()
	if failed := <-played; err == nil && !errors.Is(failed, context.Canceled) && !errors.Is(failed, io.ErrClosedPipe) {
		err = failed
	}
	return err
}

// files is the MCP server of the play. Its tool index ignores cancels.
type files struct {
	*stage
	conn  transport.Conn
	write sync.Mutex
	work  sync.WaitGroup

	mu        sync.Mutex
	cancelled map[string]chan struct{} // by the id of the request
}

type request struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name string `json:"name"`
		Meta struct {
			Token json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
		RequestID json.RawMessage `json:"requestId"`
	} `json:"params"`
}

// The result of tools/list.
const definitions = `{"tools":[` +
	`{"name":"read_file","description":"Read a file","inputSchema":{"type":"object"}},` +
	`{"name":"search","description":"Search for a text","inputSchema":{"type":"object"}},` +
	`{"name":"index","description":"Index a folder","inputSchema":{"type":"object"}}]}`

func (f *files) serveLines() error {
	defer f.conn.Close()
	defer f.work.Wait()
	f.cancelled = map[string]chan struct{}{}
	lines := bufio.NewScanner(f.conn)
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return err
		}
		switch r.Method {
		case "initialize":
			f.answerRequest(&r, `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"files","version":"1.0"}}`)
		case "tools/list":
			f.answerRequest(&r, definitions)
		case "tools/call":
			stop := f.openCall(string(r.ID))
			f.work.Go(func() { f.runTool(&r, stop) })
		case "notifications/cancelled":
			close(f.openCall(string(r.Params.RequestID)))
		}
	}
	return lines.Err()
}

// openCall returns the channel that is closed when a request is cancelled.
func (f *files) openCall(id string) chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cancelled[id] == nil {
		f.cancelled[id] = make(chan struct{})
	}
	return f.cancelled[id]
}

// tooLate is the least time between the cancel and the answer: lint considers less than 250 ms
// a race.
const tooLate = 400 * time.Millisecond

// runTool does the work of a tool.
func (f *files) runTool(r *request, cancelled <-chan struct{}) {
	result := "# A project"
	switch r.Params.Name {
	case "search":
		f.progress(r, 1, 6, 300*time.Millisecond)
		result = "17 matches"
	case "index":
		n := 1
		for ; !closed(cancelled) && f.ctx.Err() == nil; n++ {
			f.progress(r, n, n, 400*time.Millisecond)
		}
		f.progress(r, n, n+3, 400*time.Millisecond) // as if there had been no cancel
		_ = wait.For(f.ctx, tooLate)
		defer f.once.Do(func() { close(f.late) })
		result = "812 files"
	}
	f.answerRequest(r, fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, result))
}

// progress reports steps, with a pause before each.
func (f *files) progress(r *request, from, to int, pause time.Duration) {
	for n := from; n <= to && f.pause(pause) == nil; n++ {
		f.send(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":%d}}`, r.Params.Meta.Token, n)
	}
}

func (f *files) answerRequest(r *request, result string) {
	f.send(`{"jsonrpc":"2.0","id":%s,"result":%s}`, r.ID, result)
}

func (f *files) send(format string, args ...any) {
	f.write.Lock()
	defer f.write.Unlock()
	fmt.Fprintf(f.conn, format+"\n", args...) //nolint:errcheck // the reader notices a client that has left
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

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
