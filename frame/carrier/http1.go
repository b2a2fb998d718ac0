package carrier

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

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
	if len(h.c.pendingMethods) == maxAsked {
		h.c.pendingMethods = h.c.pendingMethods[1:]
	}
	h.c.pendingMethods = append(h.c.pendingMethods, head.Method())
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
	if len(h.c.pendingMethods) > 0 {
		method = h.c.pendingMethods[0]
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
	if len(h.c.pendingMethods) > 0 {
		h.c.pendingMethods = h.c.pendingMethods[1:]
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

// MaxHead bounds the head of a request or a response, in bytes.
const MaxHead = 64 << 10

// HeadEnd returns the length of the head at the beginning of data, with its empty line; 0
// if it is incomplete.
func HeadEnd(data []byte) int {
	for i := 0; i < len(data); {
		n := bytes.IndexByte(data[i:], '\n')
		if n < 0 {
			return 0
		}
		line := data[i : i+n]
		i += n + 1
		if len(line) == 0 || len(line) == 1 && line[0] == '\r' {
			return i
		}
	}
	return 0
}

// ParseHead parses a head leniently.
func ParseHead(text []byte) *frame.Head {
	lines := strings.Split(string(text), "\n")
	h := &frame.Head{Start: strings.TrimSuffix(lines[0], "\r")}
	lines = lines[1:]
	for _, line := range lines {
		line = strings.TrimSuffix(line, "\r")
		switch n := len(h.Fields); {
		case line == "":
		case (line[0] == ' ' || line[0] == '\t') && n > 0:
			h.Fields[n-1].Value += " " + strings.Trim(line, " \t")
		default:
			name, value, _ := strings.Cut(line, ":")
			h.Fields = append(h.Fields, frame.Field{Name: name, Value: strings.Trim(value, " \t")})
		}
	}
	return h
}

// A BodySize is the size of a body, as far as the head states it.
type BodySize struct {
	Chunked bool
	// Length is -1 if it is unknown.
	Length int64
}

// SizeOf returns the size of the body after a head. It is false if the head is
// contradictory.
func SizeOf(h *frame.Head) (BodySize, bool) {
	// HTTP/1.0 has no chunks, whatever the head says.
	old := strings.HasPrefix(h.Start, "HTTP/1.0") || strings.HasSuffix(h.Start, " HTTP/1.0")
	if !old && lists(h, "Transfer-Encoding", "chunked") {
		return BodySize{Chunked: true, Length: -1}, true
	}
	n, ok := contentLength(h)
	return BodySize{Length: n}, ok
}

// lists reports whether a field of that name contains the token.
func lists(h *frame.Head, name, token string) bool {
	return httpguts.HeaderValuesContainsToken(h.Values(name), token)
}

// contentLength returns the Content-Length of a head; -1 without one. It is false if the
// value is invalid.
func contentLength(h *frame.Head) (int64, bool) {
	length := int64(-1)
	for _, value := range h.Values("Content-Length") {
		for item := range strings.SplitSeq(value, ",") {
			n, err := strconv.ParseUint(strings.TrimSpace(item), 10, 63)
			if err != nil || length >= 0 && length != int64(n) {
				return -1, false
			}
			length = int64(n)
		}
	}
	return length, true
}

// IsGRPC reports whether the body after a head of HTTP/2 consists of gRPC messages. A body
// of gRPC-Web, which contains its trailers, is one piece.
func IsGRPC(h *frame.Head) bool {
	media := MediaType(h)
	return media == "application/grpc" || strings.HasPrefix(media, "application/grpc+")
}

// LeavesBody reports whether a body may follow the head of a response, whatever the request
// was.
func LeavesBody(h *frame.Head) bool {
	status := h.Status()
	return !strings.HasPrefix(status, "1") && status != "204" && status != "304" && h.Get("Content-Length") != "0"
}

// encodingOf returns the compression of a body, in lower case; "" if there is none.
func encodingOf(h *frame.Head) string {
	encoding := strings.ToLower(strings.TrimSpace(h.Get("Content-Encoding")))
	if encoding == "identity" {
		return ""
	}
	return encoding
}

// MediaType returns the content type without its parameters, in lower case.
func MediaType(h *frame.Head) string {
	t, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(t))
}

// Rejected returns why net/http would reject the head of a request or a response; nil if
// it would not. The carrier reads such a head nevertheless.
func Rejected(head []byte, dir frame.Dir) error {
	var fields http.Header
	var err error
	r := bufio.NewReaderSize(bytes.NewReader(head), len(head))
	if dir == frame.U2C || bytes.HasPrefix(head, []byte(response)) {
		var resp *http.Response
		if resp, err = http.ReadResponse(r, nil); err == nil { //nolint:bodyclose // only the head is there
			fields = resp.Header
		}
	} else {
		var req *http.Request
		if req, err = http.ReadRequest(r); err == nil {
			fields, err = req.Header, rejectedHost(head, req)
		}
	}
	if err != nil {
		return rejectedf("%s", strings.TrimPrefix(err.Error(), "net/http: "))
	}
	for name, values := range fields {
		for _, value := range values {
			if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
				return rejectedf("invalid header %.60q", name+": "+value)
			}
		}
	}
	return nil
}

// rejectedHost checks Host like a server of net/http does after parsing.
func rejectedHost(head []byte, r *http.Request) error {
	hosts := len(ParseHead(head).Values("Host"))
	switch {
	case hosts == 0 && r.ProtoAtLeast(1, 1) && r.Method != http.MethodConnect:
		return errors.New("missing required Host header")
	case hosts > 0 && !httpguts.ValidHostHeader(r.Host):
		return fmt.Errorf("malformed Host header %.60q", r.Host)
	}
	return nil
}

func rejectedf(format string, args ...any) error {
	return fmt.Errorf("a strict HTTP peer rejects this: "+format, args...)
}
