package replay

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/protocol/opaque"
	"github.com/wirectl/wirectl/session/jsondiff"
)

// A recorder turns the frames of recorded exchanges into steps.
type recorder struct {
	web
	side      frame.Dir // ours
	script    *Script
	exchanges map[line]*recorded
	last      int64  // the number of exchanges
	home      string // the path of the endpoint
	apis      all.APIs
}

// A recorded exchange is a request and the state of its answer.
type recorded struct {
	opener *part  // the request, until its step is added
	record Record // of the request
	common part   // what all parts have
	events bool
	ended  bool

	*callShape     // of gRPC
	sent       int // messages
}

// webScript returns the script of everything over HTTP, or of all gRPC calls.
func (s *Session) webScript(w web, side frame.Dir) *Script {
	var shapes map[line]*callShape
	if w.grpc != nil {
		shapes = w.grpc.survey(s.carried)
	}
	records := slices.DeleteFunc(slices.Clone(s.carried), func(r Record) bool {
		switch f := r.Frame; {
		case w.grpc != nil:
			return f.Gap || shapes[line{f.Conn, f.Stream}] == nil || f.Meta.Signal == frame.Damaged
		case f.Gap:
			return f.Dir != frame.U2C
		default:
			return f.Meta.Framing != frame.HTTP
		}
	})
	t := recorder{web: w, side: side, exchanges: make(map[line]*recorded)}
	first := records[slices.IndexFunc(records, func(r Record) bool { return !r.Frame.Gap })]
	t.script = &Script{Conn: first.Frame.Conn, Framing: frame.Line, ignore: slices.Clone(webIgnored)}
	switch {
	case w.grpc != nil:
		t.script.ignore = append(t.script.ignore, jsondiff.Path{"last"})
	case w.isRPC:
		t.script.ignore = append(t.script.ignore, jsondiff.Path{"event"}) // message is the default
		t.script.undigested = undigested
		t.home, t.script.refused = homeOf(records), unplayable(records)
	}
	for _, r := range records {
		t.addRecord(r, shapes)
	}
	if t.api != nil && w.Protocol == opaque.JSON {
		t.Protocol = t.api.Protocol
		t.script.undigested = []jsondiff.Path{{"body", "message", "messageId"}}
	} else {
		t.api = nil
	}
	t.script.Protocol = t.web
	return t.script
}

// unplayable returns an error if the HTTP part of the recording cannot be played.
func unplayable(records []Record) error {
	for _, r := range records {
		switch meta := r.Frame.Meta; {
		case r.Frame.Gap:
		case meta.Event == "endpoint":
			return fmt.Errorf("frame %d is of the HTTP+SSE transport of MCP 2024-11-05, which replay does not speak: record the session over Streamable HTTP, or play it against a program", r.Seq)
		case meta.Head.Get("Last-Event-Id") != "":
			return fmt.Errorf("frame %d resumes a stream after an event (Last-Event-ID) that a live server has not sent: record the session without the break", r.Seq)
		}
	}
	return nil
}

// homeOf returns the path to which requests of JSON-RPC are posted.
func homeOf(records []Record) string {
	for _, r := range records {
		if r.Frame.Gap {
			continue
		}
		if h := r.Frame.Meta.Head; h.Method() == http.MethodPost {
			p := part{}
			p.setTarget(h.Target())
			return p.path()
		}
	}
	return ""
}

func (t *recorder) addRecord(r Record, shapes map[line]*callShape) {
	f := r.Frame
	at := line{f.Conn, f.Stream}
	if f.Gap {
		t.leaveAt(r)
		return
	}
	head, signal := f.Meta.Head, f.Meta.Signal
	if head.Method() != "" {
		p := &part{Method: head.Method()}
		p.setTarget(head.Target())
		p.atHome(t.home)
		p.setHead(head)
		if call := t.apis.Call(f); !t.isRPC && call != nil && call.Spec.API.Named != nil && call.GRPC == (t.grpc != nil) {
			p.setCall(call)
			t.api = call.Spec
		}
		e := &recorded{opener: p, record: r, common: part{Call: p.Call, Version: p.Version}, callShape: shapes[at]}
		t.exchanges[at] = e
		switch {
		case t.grpc != nil:
			if e.method.streams {
				p.Last = e.messages == 0
				t.addRequest(e, nil)
			}
		case signal == frame.NoSignal || !strings.Contains(head.Start, "HTTP/2"):
			t.addRequest(e, f)
		}
		return
	}
	e := t.exchanges[at]
	switch {
	case e == nil || e.ended || strings.HasPrefix(head.Status(), "1"):
		return
	case t.grpc != nil && f.Dir == frame.C2U && signal == frame.NoSignal:
		t.addMessage(e, r)
		return
	case t.grpc != nil && e.opener != nil: // it ended before its message
		e.ended = true
		return
	case f.Dir == frame.C2U && signal != frame.Reset:
		t.addRequest(e, f)
		return
	}
	switch t.addRequest(e, nil); {
	case f.Dir == frame.C2U:
		t.leave(e, r)
	case t.grpc != nil:
		t.addFrame(e, r)
	default:
		t.addAnswer(e, r)
	}
}

func (t *recorder) leave(e *recorded, r Record) {
	e.ended = true
	t.add(r, frame.C2U, &part{Leaves: e.common.ID})
}

// leaveAt handles a connection of HTTP/1.1 that ends inside a stream: its client has left.
func (t *recorder) leaveAt(r Record) {
	for at, e := range t.exchanges {
		if (t.isRPC || e.common.Call != "") && at.conn == r.Frame.Conn && e.events && !e.ended {
			t.leave(e, r)
			return
		}
	}
}

// addRequest adds the step of a request, whose body may be in a frame, unless it was added.
func (t *recorder) addRequest(e *recorded, body *frame.Frame) {
	p := e.opener
	if p == nil {
		return
	}
	if body != nil && body.Meta.Signal == frame.NoSignal {
		p.setContent(body.Payload(), frame.C2U, t.isRPC)
	}
	t.last++
	e.common.ID, p.ID, e.opener = t.last, t.last, nil
	t.add(e.record, frame.C2U, p)
}

// addMessage adds a message of a gRPC client. The half-close, which the recording does not show,
// follows the last one, unless the client cancelled a stream.
func (t *recorder) addMessage(e *recorded, r Record) {
	p := e.opener
	if p == nil {
		p = &part{ID: e.common.ID, More: true}
	}
	e.sent++
	p.setMessage(e.method.request, r.Frame.Payload(), frame.C2U, t.side)
	p.Last = e.sent == e.messages && !(e.left && e.method.streams)
	if e.record = r; e.opener != nil {
		t.addRequest(e, nil)
		return
	}
	t.add(r, frame.C2U, p)
}

// addFrame adds a frame of a gRPC server.
func (t *recorder) addFrame(e *recorded, r Record) {
	f, p := r.Frame, e.common
	switch f.Meta.Signal {
	case frame.NoSignal:
		p.Event = new(string)
		p.setMessage(e.method.answer, f.Payload(), frame.U2C, t.side)
	case frame.Reset:
		p.End, e.ended = endCut, true
	default:
		p.setHead(f.Meta.Head)
		p.setStatus(f.Meta.Head.Status())
		e.ended = p.End != ""
	}
	t.add(r, frame.U2C, &p)
}

// addAnswer adds a frame of an HTTP server.
func (t *recorder) addAnswer(e *recorded, r Record) {
	f, p := r.Frame, e.common
	status := f.Meta.Head.Status()
	p.Status, _ = strconv.Atoi(status)
	switch signal := f.Meta.Signal; {
	case signal == frame.Reset && e.events:
		p.End, e.ended = endCut, true
	case signal == frame.Reset:
		return // there was no answer
	case signal == frame.End || signal == frame.Trailers:
		if !e.events {
			return
		}
		p.End, e.ended = endWhole, true
	case status != "" && carrier.HasEvents(f.Meta.Head) && signal == frame.Response:
		p.setHead(f.Meta.Head)
		p.Events, e.events = true, true
	case e.events && t.isRPC && len(f.Payload()) == 0:
		return // an event with only an id
	case e.events:
		p.Event = &f.Meta.Event
		p.setContent(f.Payload(), frame.U2C, t.isRPC)
	default:
		if status != "" {
			p.setHead(f.Meta.Head)
		}
		p.setContent(f.Payload(), frame.U2C, t.isRPC)
		e.ended = true
	}
	t.add(r, frame.U2C, &p)
}

// add adds a step.
func (t *recorder) add(r Record, dir frame.Dir, p *part) {
	raw := append(p.form(), '\n')
	t.script.steps = append(t.script.steps, &step{
		index: len(t.script.steps), seq: r.Seq, time: r.Time, dir: dir,
		frame: frame.Frame{Raw: raw, End: len(raw) - 1, Conn: r.Frame.Conn, Dir: dir},
	})
}
