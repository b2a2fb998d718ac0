// Package demo plays a turn of an agent on three wires, for people who have only wirectl: its
// editor, a streaming model, and an MCP server, real ones on loopback, with relays in between.
// Captions explain them. Steps wait for events rather than the clock, so the play is the same at
// any pace and on a busy machine.
package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
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
	"github.com/wirectl/wirectl/protocol"
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
    mock:
      latency: %s
      delay: %s
      turns:
      - {text: "I look for the places first, and at the index that you have.", tool_calls: [{name: search, arguments: {text: cancel}}, {name: read_file, arguments: {path: README.md}}]}
      - {text: "Nothing has looked at src since the last change. I index it again.", tool_calls: [{name: index, arguments: {path: src}}]}
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
	wires   int
	late    chan struct{} // closed when the cancelled tool has answered
	esc     func()        // presses Esc
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
	tools, err := s.openWire("files", jsonrpc.MCP, func(conn transport.Conn) error { return (&files{stage: s, conn: conn}).serveLines() })
	if err != nil {
		return err
	}
	editor, err := s.openWire("agent", jsonrpc.ACP, func(conn transport.Conn) error {
		return (&agent{stage: s, conn: conn, api: api, tools: tools}).serveLines()
	})
	if err != nil {
		return err
	}
	return s.script(editor)
}

const anyPort = "tcp://127.0.0.1:0"

// openModel starts a broker, and returns the address of a relay in front of it.
func (s *stage) openModel() (base string, stop func(), err error) {
	text := fmt.Appendf(nil, models, s.after(400*time.Millisecond), s.after(90*time.Millisecond))
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
		_, err := httpproxy.Serve(s.ctx, httpproxy.Config{Listener: l, Target: target, Sink: s.wire("model")})
		return err
	})
	return "http://" + listening.Host, stop, nil
}

// openWire starts a server, and returns the client's end of a relay in front of it.
func (s *stage) openWire(name string, p protocol.Protocol, serve func(transport.Conn) error) (transport.Conn, error) {
	client, above, err := s.pair()
	if err != nil {
		return nil, err
	}
	below, server, err := s.pair()
	if err != nil {
		return nil, err
	}
	s.wires += 100 // the connections of the model are fewer
	conn := s.wires
	s.relays.Go(func() error { return serve(server) })
	s.relays.Go(func() error {
		_, err := relay.Run(s.ctx, relay.Config{
			Controller: above, Unit: below, Sink: s.wire(name), Conn: conn, Name: name, Framing: frame.Line, Protocol: p,
		})
		return err
	})
	return client, nil
}

// wire returns where a relay sends what it sees of a wire, which gets its name as those of a run do.
func (s *stage) wire(name string) *relay.Fan {
	return relay.NewFan(func(string) {}, named{s.seen, name})
}

type named struct {
	seen *relay.Fan
	wire string
}

func (n named) Write(r *capture.Record) error {
	if r.Kind == capture.Opened {
		r.Text = fmt.Appendf(nil, "%s: %s", n.wire, r.Text)
	}
	n.seen.Write(r)
	return nil
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
		in.Joins = true
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

// script is the play of the user, with captions.
func (s *stage) script(conn transport.Conn) error {
	s.caption("An editor starts an agent, and its user asks something: a turn. wirectl sees all three wires: to the editor, the model and the tools.")
	c, err := client.DialRPC(s.ctx, conn, client.ACP, client.NewWatch(jsonrpc.ACP, nil), client.RPCOptions{Version: "demo", Dir: "/project"})
	if err != nil {
		conn.Close()
		return err
	}
	defer c.Close()
	if _, err = c.NewSession(s.ctx); err != nil {
		return err
	}
	turn, esc := context.WithCancel(s.ctx)
	defer esc()
	s.esc = func() {
		s.caption("The user presses Esc. The cancel goes from wire to wire ...")
		esc()
	}
	if err = c.Prompt("Why is the index stale?")(turn, ignore); s.ctx.Err() != nil || turn.Err() == nil {
		return err
	}
	s.caption("... but the tool goes on, and answers all the same: the finding late-result (press 3).")
	select {
	case <-s.late:
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
	if err = s.pause(3 * time.Second); err == nil {
		s.caption(Last)
	}
	return err
}

// Last is the last caption.
const Last = "That was one turn. wirectl run shows those of your own agent so, and wirectl why tells what went wrong."

func ignore(client.Part) {}
