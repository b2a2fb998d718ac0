package again

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/source"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
	"github.com/wirectl/wirectl/protocol/all"
)

// A record is what the agent of a run has asked, and how that was answered.
type record struct {
	run     history.Run
	calls   []*call
	sockets []*socket
	hosts   map[string]bool // HOST:PORT, as far as it is known
	servers map[string][]string
	tools   []string // that were spoken with in no protocol of servers
	notes   []string // what is damaged
}

// A call is a request over HTTP, or a message over WebSocket, with its answer.
type call struct {
	seq    int64 // the number of its first frame
	wire   string
	host   string // HOST:PORT
	method string
	target string
	body   []byte
	at     time.Time
	socket *socket // nil for HTTP

	status int // 0 if there was no answer
	head   *frame.Head
	events bool
	pieces []piece
	end    ending
	// dropped means that the server ended the connection without an answer.
	dropped bool

	question
	asked int // how often it was played
}

// A piece is a part of an answer.
type piece struct {
	after          time.Duration // the request
	event, eventID string
	data           []byte
	opcode         frame.Opcode
}

// An ending is how an answer ended.
type ending uint8

const (
	cut   ending = iota // by its server, or the end of the record
	whole               // as it should
	left                // its client has left
)

// A socket is a connection over WebSocket: what its server said first, and what it answered to each message.
type socket struct {
	upgrade *call
	first   []piece
	calls   []*call
}

// errLive is the error for a run that goes on.
var errLive = errors.New("the run goes on: play it when it has ended")

// read reads the record in the folder of a run.
func read(ctx context.Context, folder string) (*record, error) {
	cfg := decode.Config{Workers: 1, Resync: true}
	run, err := source.OpenRun(ctx, folder, cfg, false)
	if err != nil {
		return nil, err
	}
	defer run.Close()
	about := cmp.Or(run.ID, folder)
	switch {
	case run.Live:
		return nil, fmt.Errorf("%s: %w", about, errLive)
	case run.Session().Outlined || run.Level == history.Metadata:
		return nil, fmt.Errorf("%s has no texts, so there is nothing to play: it was recorded with --record metadata; record it again without that flag", about)
	}
	b := &builder{record: &record{run: run.Run, hosts: map[string]bool{}, servers: map[string][]string{}}, wire: run.Wire, open: map[place]*call{}, names: map[int]string{}, upgraded: map[int]*socket{}, plain: map[string]bool{}}
	cfg.Event = b.addEvent
	_, err = decode.Run(ctx, decode.Stored(run), io.Discard, cfg, func() decode.View { return b.view })
	if err != nil && !errors.Is(err, capture.ErrCut) && len(b.calls) == 0 && len(b.plain) == 0 {
		return nil, err
	}
	if err != nil {
		b.notes = append(b.notes, err.Error())
	}
	for _, c := range b.open {
		if c.events && c.method == http.MethodGet { // it was to be read until the agent ends
			c.end = left
		}
	}
	for _, file := range source.Wires(folder) {
		name := source.WireOf(file)
		if isServer, isPlain := b.plain[name]; isServer {
			b.servers[name] = append(b.servers[name], file)
		} else if isPlain && !slices.Contains(b.tools, name) {
			b.tools = append(b.tools, name)
		}
	}
	if len(b.calls)+len(b.servers)+len(b.sockets)+len(b.tools) == 0 {
		return nil, fmt.Errorf("%s has nothing to play: neither a call over HTTP nor a server", about)
	}
	return b.record, ctx.Err()
}

// A builder makes a record of frames.
type builder struct {
	*record
	wire     func(conn int) string
	open     map[place]*call
	names    map[int]string // of connections
	upgraded map[int]*socket
	plain    map[string]bool // servers over stdio
}

type place struct {
	conn   int
	stream int64
}

func (b *builder) addEvent(rec *capture.Record) {
	switch rec.Kind {
	case capture.Opened:
		b.names[rec.Conn] = string(rec.Text)
	case capture.HalfClosed:
		for at := range b.open {
			if at.conn == rec.Conn {
				b.stop(at, rec.Dir, rec.Time)
			}
		}
	}
}

// stop ends a call whose answer is not whole. A side has ended it.
func (b *builder) stop(at place, by frame.Dir, when time.Time) {
	c := b.open[at]
	if c.end = cut; by == frame.C2U {
		c.end = left
	} else if c.head.Method() != "" { // no answer had begun
		c.dropped, c.pieces = true, []piece{{after: when.Sub(c.at)}}
	}
	delete(b.open, at)
}

func (b *builder) view(dst []byte, it *decode.Item) ([]byte, error) {
	f := it.Frame
	wire := b.wire(f.Conn)
	switch {
	case wire == "agent" || wire == "events" || f.Gap:
	case f.Meta == nil:
		if wire != "model" {
			b.plain[wire] = b.plain[wire] || all.IsRPC(it.Protocol)
		}
	case f.Meta.Framing == frame.WS || f.Meta.Opcode != frame.NoOpcode:
		b.message(it)
	case f.Meta.Framing == frame.HTTP:
		b.http(it, wire)
	}
	return dst, nil
}

func (b *builder) http(it *decode.Item, wire string) {
	f, head := it.Frame, it.Frame.Meta.Head
	at := place{f.Conn, f.Stream}
	if head != nil && head.Method() != "" {
		c := &call{seq: it.Seq, wire: wire, host: hostOf(b.names[f.Conn], head), method: head.Method(), target: targetOf(head.Target()), at: it.Time, head: head}
		if c.method == "CONNECT" || head.IsAbsent() {
			return
		}
		b.hosts[c.host] = true
		if f.Meta.Signal == frame.NoSignal {
			c.body = bytes.Clone(f.Payload())
		}
		b.open[at] = c
		b.calls = append(b.calls, c)
		return
	}
	c := b.open[at]
	if c == nil {
		return
	}
	signal := f.Meta.Signal
	switch {
	case signal == frame.Reset:
		b.stop(at, f.Dir, it.Time)
	case f.Dir == frame.C2U:
		if signal == frame.NoSignal { // the body of HTTP/2
			c.body, c.at = bytes.Clone(f.Payload()), it.Time
		}
	case signal == frame.End || signal == frame.Trailers:
		c.end = whole
		delete(b.open, at)
	case head != nil && strings.HasPrefix(head.Status(), "1") && head.Status() != "101":
	case head != nil && head.Status() != "" && signal == frame.Response && carrier.HasEvents(head):
		c.status, c.head, c.events = statusOf(head), head, true
	case head != nil && head.Status() == "101":
		c.status, c.head, c.end = 101, head, whole
		s := &socket{upgrade: c}
		b.upgraded[f.Conn] = s
		b.sockets = append(b.sockets, s)
		delete(b.open, at)
	case c.events:
		c.pieces = append(c.pieces, piece{after: it.Time.Sub(c.at), event: f.Meta.Event, eventID: f.Meta.EventID, data: bytes.Clone(f.Payload())})
	default:
		if head != nil && head.Status() != "" {
			c.status, c.head = statusOf(head), head
		}
		c.pieces = append(c.pieces, piece{after: it.Time.Sub(c.at), data: bytes.Clone(f.Payload())})
		if c.end = whole; f.Flaw != nil || signal == frame.Damaged {
			c.end = cut
		}
		delete(b.open, at)
	}
}

// statusOf returns the status of an answer; 0 if it is none that can be played.
func statusOf(head *frame.Head) int {
	const least, most = 200, 999
	if n, err := strconv.Atoi(head.Status()); err == nil && n >= least && n <= most {
		return n
	}
	return 0
}

// message adds a message over WebSocket.
func (b *builder) message(it *decode.Item) {
	f := it.Frame
	s := b.upgraded[f.Conn]
	if s == nil || f.Meta.Signal != frame.NoSignal {
		return
	}
	if f.Dir == frame.C2U {
		c := &call{seq: it.Seq, wire: b.wire(f.Conn), host: s.upgrade.host, method: "message", target: s.upgrade.target, body: bytes.Clone(f.Payload()), at: it.Time, socket: s, status: 200, end: whole}
		s.calls = append(s.calls, c)
		b.calls = append(b.calls, c)
		return
	}
	p := piece{data: bytes.Clone(f.Payload()), opcode: f.Meta.Opcode}
	if n := len(s.calls); n > 0 {
		p.after = it.Time.Sub(s.calls[n-1].at)
		s.calls[n-1].pieces = append(s.calls[n-1].pieces, p)
	} else {
		p.after = it.Time.Sub(s.upgrade.at)
		s.first = append(s.first, p)
	}
}

// hostOf returns where a request went, as HOST:PORT, by the name of its connection or its head.
func hostOf(name string, head *frame.Head) string {
	if _, after, ok := strings.Cut(name, " → "); ok {
		name = after
	}
	if !strings.Contains(name, "://") {
		name = "https://" + cmp.Or(name, head.Get("Host"), head.Get(":authority"))
	}
	u, err := url.Parse(name)
	if err != nil || u.Host == "" {
		return ""
	}
	return strings.ToLower(net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])))
}

// targetOf returns the path and query of what a request asks for.
func targetOf(target string) string {
	if u, err := url.Parse(target); err == nil && u.Host != "" {
		return u.RequestURI()
	}
	return target
}
