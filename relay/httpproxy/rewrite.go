package httpproxy

import (
	"bytes"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
	"github.com/wirectl/wirectl/transport"
)

// A rewriter changes the heads of requests to the server. Everything else passes unchanged,
// and from bytes on that are not HTTP/1.1, everything. From a refused request on, nothing
// passes.
type rewriter struct {
	host, path string
	remote     bool   // requests for any host are accepted
	foreign    string // the host of the refused request

	state state
	body  carrier.Delimiter
	held  []byte // the beginning of a head, or of the size of a chunk
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
	case end == 0 && (len(data) > carrier.MaxHead || !mayBeHead(data)):
		r.state = passing
		return dst, 0
	case end == 0:
		return dst, 0
	case !isHead(data[:end]):
		r.state = passing
		return dst, 0
	}
	head := data[:end]
	switch {
	case r.refuses(head):
		r.state = refusing
		return dst, end
	case carrier.Rejected(head, frame.C2U) != nil: // the server rejects it, too
		dst = append(dst, head...)
	default:
		dst = r.change(dst, head)
	}
	r.enter(head)
	return dst, end
}

// refuses reports whether a head is that of a request for a host that is neither an
// address nor localhost: a page of another site may use DNS rebinding.
func (r *rewriter) refuses(head []byte) bool {
	if r.remote {
		return false
	}
	for line := range bytes.Lines(head) {
		name, value, isField := bytes.Cut(line, []byte(":"))
		if host := string(bytes.TrimSpace(value)); isField && isHost(name) && !transport.LocalHost(host) {
			r.foreign = host
			return true
		}
	}
	return false
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
func (r *rewriter) enter(text []byte) {
	head := carrier.ParseHead(text)
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
