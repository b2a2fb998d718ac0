package carrier

import (
	"bytes"
	"errors"
	"strings"

	"github.com/wirectl/wirectl/frame"
)

// http1 is one direction of HTTP/1.1.
type http1 struct {
	bare    bool // a WebSocket may begin without an upgrade
	state   http1State
	delim   Delimiter
	number  int64 // of the request, or of the response
	head    *frame.Head
	body    body
	upgrade bool   // an upgrade was requested in this direction
	method  string // of the last request
	blank   int    // empty lines since then
}

type http1State uint8

const (
	inHead http1State = iota
	inBody
	inTunnel
)

// maxAsked bounds the requests that are remembered for their responses.
const maxAsked = 10_000

func (p *http1) parseNext(h *half) bool {
	if len(h.rest()) == 0 {
		return false
	}
	switch p.state {
	case inHead:
		return p.readHead(h)
	case inBody:
		return p.data(h)
	default:
		h.advance(len(h.rest()))
		return false
	}
}

func (p *http1) endInput(h *half) (bool, string) {
	switch p.state {
	case inHead:
		return len(h.rest()) == 0, "the head of a request or response"
	case inTunnel:
		return true, ""
	}
	defer p.body.drop(h)
	events := p.body.kind == eventBody
	switch {
	case events && p.body.inside(h):
		return false, "a body"
	case p.delim.state == untilClose:
		p.done(h)
		return true, ""
	}
	// Either side may end an event stream, which is not a fault.
	return events, "a body"
}

// readHead reads a head, or detects that something else begins.
func (p *http1) readHead(h *half) bool {
	if h.c.tunnel {
		p.state = inTunnel
		return true
	}
	data := h.rest()
	if done, more := p.switches(h, data); done || more {
		return done
	}
	if data[0] == '\r' || data[0] == '\n' { // RFC 9112 2.2: ignore an empty line
		h.advance(1)
		p.blank++
		return true
	}
	n := HeadEnd(data)
	switch {
	case !maybeHead(data[:min(len(data), MaxHead)], h.dir):
		return h.loseRest(frame.ErrMalformed, "neither a request nor a response of HTTP/1.1")
	case n == 0 && len(data) <= MaxHead:
		return false
	case n == 0 || n > MaxHead:
		return h.loseRest(frame.ErrTooLarge, "the head of a request or response is over %d bytes", MaxHead)
	}
	head := ParseHead(data[:n])
	p.body.flaw = Rejected(data[:n], h.dir)
	if p.blank > 4 || p.blank > 0 && p.method != "POST" && h.dir == frame.C2U {
		p.body.flaw = rejectedf("empty lines before a request")
	}
	h.pos += n
	p.head, p.blank, p.method = head, 0, head.Method()
	if h.dir == frame.U2C || head.Status() != "" {
		return p.response(h, head)
	}
	return p.request(h, head)
}

// maybeHead reports whether data may begin a head. Data whose first bytes rule that out is
// also ruled out by its first line.
func maybeHead(data []byte, dir frame.Dir) bool {
	if bytes.IndexByte(data, '\n') >= 0 && !isHead(data, dir) {
		return false
	}
	if dir == frame.U2C {
		return bytes.HasPrefix(data, []byte(response)[:min(len(data), len(response))])
	}
	for _, c := range data[:min(len(data), 3)] {
		if !isUpper(c&^0x20) && c != '-' {
			return false
		}
	}
	return true
}

// isHead reports whether the first line of data is one of HTTP/1.
func isHead(data []byte, dir frame.Dir) bool {
	line, _, _ := bytes.Cut(data, []byte("\n"))
	line = bytes.TrimSuffix(line, []byte("\r"))
	if dir == frame.U2C {
		rest, ok := bytes.CutPrefix(line, []byte(response))
		return ok && len(rest) >= 5 && rest[1] == ' '
	}
	i := bytes.LastIndexByte(line, ' ')
	return i > 0 && bytes.HasPrefix(line[i+1:], []byte(response)) && bytes.IndexByte(line[:i], ' ') > 0
}

// switches reports whether an upgrade begins instead of a head; more means that it needs
// more bytes.
func (p *http1) switches(h *half, data []byte) (done, more bool) {
	if h.c.upgraded != Auto && (h.dir != frame.U2C || !beginsHTTP(data, h.dir)) {
		return h.become(h.c.upgraded), false
	}
	if h.dir != frame.U2C {
		if bytes.HasPrefix([]byte(preface), data[:min(len(data), len(preface))]) && len(data) > 1 {
			if len(data) < len(preface) {
				return false, !h.eof
			}
			h.c.upgraded = H2
			h.wake()
			return h.become(h.c.upgraded), false
		}
		if len(data) < 2 && data[0] == 'P' && p.number == 0 {
			return false, !h.eof
		}
	}
	// The client's first frames may arrive before the server's response.
	if !p.upgrade && (!p.bare || p.number > 0) {
		return false, false
	}
	switch {
	case p.bare && beginsHTTP(data, h.dir):
		return false, false
	case len(data) < 2:
		return false, !h.eof
	case isUpper(data[0]) && data[1] < 0x80 && !p.bare:
		return false, false
	}
	return h.become(WS), false
}

// beginsHTTP reports whether data may be the beginning of HTTP.
func beginsHTTP(data []byte, dir frame.Dir) bool {
	if dir == frame.U2C {
		return bytes.HasPrefix(data, []byte(response)[:min(len(data), len(response))])
	}
	return isUpper(data[0]) && (len(data) < 2 || isUpper(data[1]))
}

func isUpper(c byte) bool { return 'A' <= c && c <= 'Z' }

// become switches the direction to WebSocket or HTTP/2.
func (h *half) become(k Kind) bool {
	h.c.kind = k
	switch k {
	case WS:
		h.parser = &ws{}
	case H2:
		h.parser = newH2()
	}
	return true
}

// wake makes the other direction parse the bytes that it has kept back.
func (h *half) wake() {
	for d := range h.c.halves {
		if other := &h.c.halves[d]; other != h {
			other.waits = true
		}
	}
}

func (p *http1) request(h *half, head *frame.Head) bool {
	p.number++
	p.upgrade = p.upgrade || lists(head, "Connection", "upgrade") && lists(head, "Upgrade", "websocket")
	if len(h.c.asked) == maxAsked {
		h.c.asked = h.c.asked[1:]
	}
	h.c.asked = append(h.c.asked, head.Method())
	size, ok := SizeOf(head)
	switch {
	case !ok:
		return h.loseRest(frame.ErrMalformed, "Content-Length: %.40q is not a length", head.Get("Content-Length"))
	case !size.Chunked:
		size.Length = max(size.Length, 0)
	}
	p.enter(h, frame.Request, size)
	return true
}

func (p *http1) response(h *half, head *frame.Head) bool {
	status := head.Status()
	var method string
	if len(h.c.asked) > 0 {
		method = h.c.asked[0]
	}
	if status == "101" {
		p.number++
		h.give(p.number, frame.Meta{Framing: frame.HTTP, Signal: frame.Response, Head: head})
		h.c.upgraded = upgradeOf(head)
		h.c.tunnel = h.c.upgraded == Auto
		h.wake()
		return true
	}
	if strings.HasPrefix(status, "1") {
		h.give(p.number+1, frame.Meta{Framing: frame.HTTP, Signal: frame.Response, Head: head})
		return true
	}
	p.number++
	if len(h.c.asked) > 0 {
		h.c.asked = h.c.asked[1:]
	}
	size, ok := SizeOf(head)
	switch {
	case method == "CONNECT" && strings.HasPrefix(status, "2"):
		h.give(p.number, frame.Meta{Framing: frame.HTTP, Signal: frame.Response, Head: head})
		h.c.tunnel = true
	case method == "HEAD", status == "204", status == "304":
		p.enter(h, frame.Response, BodySize{})
	case !ok:
		return h.loseRest(frame.ErrMalformed, "Content-Length: %.40q is not a length", head.Get("Content-Length"))
	default:
		p.enter(h, frame.Response, size)
	}
	return true
}

// upgradeOf returns the protocol that a response switches to; Auto if it is unknown.
func upgradeOf(head *frame.Head) Kind {
	switch {
	case lists(head, "Upgrade", "websocket"):
		return WS
	case lists(head, "Upgrade", "h2c"):
		return H2
	}
	return Auto
}

// enter begins a body.
func (p *http1) enter(h *half, what frame.Signal, size BodySize) {
	p.state = inBody
	p.delim.Begin(size)
	p.body.beginBody(h, p.number, what, p.head)
	if size.Length > int64(h.c.limit) && p.body.kind == wholeBody {
		p.body.tooLarge(h, uint64(size.Length))
	}
	if p.delim.Ended() {
		p.done(h)
	}
}

// done ends a body.
func (p *http1) done(h *half) {
	if p.body.flaw == nil {
		p.body.flaw = p.delim.Flaw
	}
	p.body.endBody(h)
	p.state, p.head = inHead, nil
}

// data parses the available bytes of a body.
func (p *http1) data(h *half) bool {
	n, content, err := p.delim.Next(h.rest())
	switch {
	case err != nil:
		_, detail, _ := strings.Cut(err.Error(), ": ")
		return h.loseRest(errors.Unwrap(err), "%s", detail)
	case n == 0:
		return false
	case content:
		p.body.takeBytes(h, n)
	default:
		h.advance(n)
	}
	if p.delim.Ended() {
		p.done(h)
	}
	return true
}
