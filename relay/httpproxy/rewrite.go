package httpproxy

import (
	"bytes"
	"fmt"
	"net/http"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
	"github.com/wirectl/wirectl/transport"
)

// A rewriter changes the heads of requests to the server. Everything else passes unchanged,
// and from bytes on that are not HTTP/1.1, everything. From a refused request on, nothing
// passes.
type rewriter struct {
	host, path string
	opts       *transport.Options  // say which requests are admitted
	forwards   func(method string) // is called before the head of a request is forwarded
	refusal    refusal             // of the request that is not forwarded

	state state
	body  carrier.Delimiter
	held  []byte // the beginning of a head, or of the size of a chunk
}

// A refusal is the proxy's own answer to a request.
type refusal struct {
	status int // 0 without a refusal
	text   string
}

type state uint8

const (
	inHead state = iota
	inBody
	upgrading // the next bytes show whether the server agreed
	passing
	refusing
)

// push appends the rewritten data to dst.
func (r *rewriter) push(dst, data []byte) []byte {
	if len(r.held) > 0 {
		data = append(r.held, data...)
	}
	r.held = nil
	for len(data) > 0 {
		var n int
		switch r.state {
		case inHead, upgrading:
			dst, n = r.request(dst, data)
		case inBody:
			dst, n = r.content(dst, data)
		case refusing:
			return dst
		default:
			return append(dst, data...)
		}
		if n == 0 && r.state != passing {
			r.held = bytes.Clone(data)
			return dst
		}
		data = data[n:]
	}
	return dst
}

// content passes a part of a body.
func (r *rewriter) content(dst, data []byte) ([]byte, int) {
	n, _, err := r.body.Next(data)
	switch {
	case err != nil:
		r.state = passing
	case r.body.Ended():
		r.state = inHead
	}
	return append(dst, data[:n]...), n
}

// request handles a head once it is complete.
func (r *rewriter) request(dst, data []byte) ([]byte, int) {
	blank := len(data) - len(bytes.TrimLeft(data, "\r\n"))
	switch {
	case r.state == upgrading && (data[0] < 'A' || data[0] > 'Z'):
		r.state = passing
		return dst, 0
	case blank > 0:
		return append(dst, data[:blank]...), blank
	}
	end := carrier.HeadEnd(data)
	switch {
	case end == 0 && !mayBeHead(data), end > 0 && !isHead(data[:end]):
		r.state = passing
		return dst, 0
	case end == 0 && len(data) <= carrier.MaxHead:
		return dst, 0
	}
	if end == 0 || end > carrier.MaxHead { // its Host and Origin may come later
		r.refuse(http.StatusRequestHeaderFieldsTooLarge, fmt.Sprintf("the head of a request is over %d bytes", carrier.MaxHead))
		return dst, len(data)
	}
	text := data[:end]
	head := carrier.ParseHead(text)
	if r.judge(head); r.state == refusing {
		return dst, end
	}
	r.forwards(head.Method())
	if carrier.Rejected(text, frame.C2U) != nil { // the server rejects it, too
		dst = append(dst, text...)
	} else {
		dst = r.change(dst, text)
	}
	r.enter(head)
	return dst, end
}

func (r *rewriter) refuse(status int, text string) {
	r.state, r.refusal = refusing, refusal{status, text}
}

// judge refuses a request that is not admitted.
func (r *rewriter) judge(head *frame.Head) {
	hosts := head.Values("Host")
	if len(hosts) == 0 {
		hosts = []string{""}
	}
	for _, host := range hosts {
		if text := r.opts.Refusal(host, head.Values("Origin")); text != "" {
			r.refuse(http.StatusForbidden, text)
		}
	}
}

func isHost(name []byte) bool { return bytes.EqualFold(name, []byte("host")) }

// mayBeHead reports whether the beginning of a head may become one of
// HTTP/1.1.
func mayBeHead(data []byte) bool {
	if bytes.IndexByte(data, '\n') >= 0 {
		return isHead(data)
	}
	return data[0]&^0x20 >= 'A' && data[0]&^0x20 <= 'Z'
}

// isHead reports whether the first line is a request line.
func isHead(data []byte) bool {
	line, _, _ := bytes.Cut(data, []byte("\n"))
	line = bytes.TrimSuffix(line, []byte("\r"))
	return bytes.HasSuffix(line, []byte(" HTTP/1.1")) || bytes.HasSuffix(line, []byte(" HTTP/1.0"))
}

// enter determines the state after a head.
func (r *rewriter) enter(head *frame.Head) {
	size, ok := carrier.SizeOf(head)
	if !size.Chunked {
		size.Length = max(size.Length, 0)
	}
	r.body.Begin(size)
	switch {
	case !ok:
		r.state = passing
	case !r.body.Ended():
		r.state = inBody
	case head.Get("Upgrade") != "":
		r.state = upgrading
	case head.Method() == "CONNECT":
		r.state = passing
	default:
		r.state = inHead
	}
}

// change appends a head with the server's name for Host, and its path for "/". Every other
// byte stays.
func (r *rewriter) change(dst, head []byte) []byte {
	for first := true; len(head) > 0; {
		n := bytes.IndexByte(head, '\n') + 1
		line := head[:n]
		head = head[n:]
		name, rest, isField := bytes.Cut(line, []byte(":"))
		switch {
		case first && len(bytes.TrimRight(line, "\r\n")) > 0:
			first = false
			dst = r.start(dst, line)
		case isField && isHost(name):
			end := rest[len(bytes.TrimRight(rest, "\r\n")):]
			dst = append(append(append(append(dst, name...), ": "...), r.host...), end...)
		default:
			dst = append(dst, line...)
		}
	}
	return dst
}

// start appends a request line.
func (r *rewriter) start(dst, line []byte) []byte {
	method, rest, _ := bytes.Cut(line, []byte(" "))
	target, version, ok := bytes.Cut(rest, []byte(" "))
	if ok && string(target) == "/" {
		dst = append(append(append(dst, method...), ' '), r.path...)
		return append(append(dst, ' '), version...)
	}
	return append(dst, line...)
}
