package httpproxy

import (
	"bytes"
	"strconv"

	"github.com/wirectl/wirectl/frame/carrier"
	"github.com/wirectl/wirectl/transport"
)

// A rewriter changes the heads of requests on their way to the server. All else
// goes on as it comes; and when the bytes are no HTTP/1.1, or no more, that is
// everything from there on. Of a request that it refuses, and of what follows it,
// nothing goes on.
type rewriter struct {
	host, path string
	remote     bool   // requests for any host are taken
	foreign    string // the host of the request that is refused

	state state
	head  []byte // as much of a head, or of the size of a chunk, as has come
	left  int64  // bytes of the body, or of the chunk with its end
}

type state uint8

const (
	inHead state = iota
	inBody
	inChunkSize
	inChunk
	inTrailers
	upgrading // the next bytes tell whether it was agreed upon
	passing
	refusing
)

// push appends to dst what data becomes.
func (r *rewriter) push(dst, data []byte) []byte {
	for len(data) > 0 {
		var n int
		switch r.state {
		case inHead, upgrading:
			dst, n = r.request(dst, data)
		case inBody, inChunk:
			n = int(min(r.left, int64(len(data))))
			dst = append(dst, data[:n]...)
			if r.left -= int64(n); r.left == 0 {
				r.next()
			}
		case inChunkSize, inTrailers:
			dst, n = r.line(dst, data)
		case refusing:
			return dst
		default:
			dst, n = append(dst, data...), len(data)
		}
		data = data[n:]
	}
	return dst
}

// end returns what was kept back of a head that does not come to its end.
func (r *rewriter) end() []byte {
	if r.state == inHead || r.state == upgrading {
		return r.head
	}
	return nil
}

// next goes to what follows a body or a chunk.
func (r *rewriter) next() {
	if r.state == inChunk {
		r.state = inChunkSize
	} else {
		r.state = inHead
	}
}

// request takes in a part of a head, and appends the head once it is whole.
func (r *rewriter) request(dst, data []byte) ([]byte, int) {
	if r.state == upgrading && len(r.head) == 0 && (data[0] < 'A' || data[0] > 'Z') {
		r.state = passing
		return dst, 0
	}
	had := len(r.head)
	r.head = append(r.head, data...)
	end := carrier.HeadEnd(r.head)
	switch {
	case end == 0 && (len(r.head) > carrier.MaxHead || !mayBeHead(r.head)):
		return r.give(dst, len(data))
	case end == 0:
		return dst, len(data)
	case !isHead(r.head[:end]):
		return r.give(dst, len(data))
	}
	if r.refuses(r.head[:end]) {
		r.state, r.head = refusing, nil
		return dst, end - had
	}
	dst = r.change(dst, r.head[:end])
	r.enter(r.head[:end])
	r.head = r.head[:0]
	return dst, end - had
}

// refuses reports whether a head is that of a request for a host that is neither an
// address nor localhost: a page of another site may have made its name lead here.
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

// give gives up: what was kept back, and all that follows, goes on as it is.
func (r *rewriter) give(dst []byte, n int) ([]byte, int) {
	dst = append(dst, r.head...)
	r.state, r.head = passing, nil
	return dst, n
}

// mayBeHead reports whether the beginning of a head may become one of
// HTTP/1.1.
func mayBeHead(data []byte) bool {
	if bytes.IndexByte(data, '\n') >= 0 {
		return isHead(data)
	}
	return data[0] >= 'A' && data[0] <= 'Z' || data[0] == '\r'
}

// isHead reports whether the first line that is not empty is a request line.
func isHead(data []byte) bool {
	line, _, _ := bytes.Cut(bytes.TrimLeft(data, "\r\n"), []byte("\n"))
	line = bytes.TrimSuffix(line, []byte("\r"))
	return len(line) == 0 || bytes.HasSuffix(line, []byte(" HTTP/1.1")) || bytes.HasSuffix(line, []byte(" HTTP/1.0"))
}

// enter takes from a head what follows it.
func (r *rewriter) enter(text []byte) {
	head := carrier.ParseHead(bytes.TrimLeft(text, "\r\n"))
	size, ok := carrier.SizeOf(head)
	switch {
	case !ok:
		r.state = passing
	case size.Chunked:
		r.state = inChunkSize
	case size.Length > 0:
		r.state, r.left = inBody, size.Length
	case head.Get("Upgrade") != "":
		r.state = upgrading
	case head.Method() == "CONNECT":
		r.state = passing
	default:
		r.state = inHead
	}
}

// line takes in a part of a line among chunks, which goes on as it is.
func (r *rewriter) line(dst, data []byte) ([]byte, int) {
	n := bytes.IndexByte(data, '\n') + 1
	whole := n > 0
	if !whole {
		n = len(data)
	}
	dst = append(dst, data[:n]...)
	r.head = append(r.head, data[:n]...)
	if !whole {
		if len(r.head) > carrier.MaxHead {
			r.state, r.head = passing, nil
		}
		return dst, n
	}
	text := bytes.TrimRight(r.head, "\r\n")
	r.head = r.head[:0]
	if r.state == inTrailers {
		if len(text) == 0 {
			r.state = inHead
		}
		return dst, n
	}
	digits, _, _ := bytes.Cut(text, []byte(";"))
	size, err := strconv.ParseInt(string(bytes.TrimSpace(digits)), 16, 62)
	switch {
	case err != nil || size < 0:
		r.state = passing
	case size == 0:
		r.state = inTrailers
	default:
		r.state, r.left = inChunk, size+int64(len("\r\n"))
	}
	return dst, n
}

// change appends a head with the name of the server for Host, and its path for
// that of a request for "/". Every other byte stays.
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
