package upstream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/wirectl/wirectl/broker/life"
	"github.com/wirectl/wirectl/direct"
)

// plain speaks HTTP/1.1 without TLS, as backends of one's own do. It is what
// net/http's client is, for one request at a time on a connection that is written
// and read by the goroutine of the call itself: that takes a third of the time.
type plain struct {
	addr    string
	host    string // as it is named to the backend
	head    []byte // of a usual request, behind the request line
	dialer  net.Dialer
	mu      sync.Mutex
	idle    []*plainConn // the one used last is the last
	maxIdle int
}

// A plainConn serves one call after the other, and so do its parts.
type plainConn struct {
	*direct.Conn
	r     *bufio.Reader
	w     []byte
	used  time.Time
	again bool // it has answered before
	hook  life.Hook
	resp  Response
	body  plainBody
}

// Ended closes the connection because the call that uses it was given up.
func (c *plainConn) Ended(error) { c.Close() }

// idleTime is how long a connection is kept that no call uses.
const idleTime = 60 * time.Second

// headOf writes the head of a request.
func (p *plain) headOf(header http.Header) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "Host: %s\r\n", p.host)
	_ = header.Write(&b) // a buffer takes all
	return b.Bytes()
}

// get returns a connection: the one used last, or a new one.
func (p *plain) get(ctx context.Context) (*plainConn, error) {
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		c := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		if time.Since(c.used) < idleTime {
			return c, nil
		}
		c.Close()
		p.CloseIdleConnections() // all others are older
	} else {
		p.mu.Unlock()
	}
	nc, err := p.dialer.DialContext(ctx, "tcp", p.addr)
	if err != nil {
		return nil, err
	}
	c := direct.Over(nc)
	return &plainConn{Conn: c, r: bufio.NewReader(c)}, nil
}

func (p *plain) put(c *plainConn) {
	c.used, c.again = time.Now(), true
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) >= p.maxIdle {
		c.Close()
		return
	}
	p.idle = append(p.idle, c)
}

// CloseIdleConnections closes the connections that no call uses.
func (p *plain) CloseIdleConnections() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.idle {
		c.Close()
	}
	p.idle = nil
}

// post sends a request and returns the answer, whatever its status. A connection
// that turns out to have been closed by the backend while it was idle is replaced.
func (p *plain) post(ctx context.Context, path string, head []byte, traceparent string, body []byte) (*Response, error) {
	for {
		c, err := p.get(ctx)
		if err != nil {
			return nil, err
		}
		again := c.again
		resp, err := p.exchange(ctx, c, path, head, traceparent, body)
		if err == nil {
			return resp, nil
		}
		if !again || !errors.Is(err, errNothing) || ctx.Err() != nil {
			return nil, err
		}
	}
}

// errNothing: the connection broke before anything of an answer came.
var errNothing = errors.New("the connection was closed before an answer")

// together is how large a body is written with its head in one piece.
const together = 16 << 10

func (p *plain) exchange(ctx context.Context, c *plainConn, path string, head []byte, traceparent string, body []byte) (*Response, error) {
	c.hook = life.Listen(ctx, c)
	if err := c.ask(head, path, traceparent, body); err != nil {
		c.hook.Stop()
		c.Close()
		return nil, err
	}
	c.body = plainBody{p: p, c: c, keep: c.resp.keep, left: c.resp.Length}
	switch {
	case c.resp.StatusCode == http.StatusNoContent || c.resp.StatusCode == http.StatusNotModified:
		c.resp.Length, c.body.left = 0, 0
	case c.resp.chunked:
		c.body.r, c.body.left = httputil.NewChunkedReader(c.r), -1
	case c.resp.Length < 0:
		c.body.keep = false
	}
	c.resp.Body = &c.body
	return &c.resp, nil
}

// ask sends a request and reads the head of the answer.
func (c *plainConn) ask(head []byte, path, traceparent string, body []byte) error {
	c.w = append(append(append(c.w[:0], "POST "...), path...), " HTTP/1.1\r\n"...)
	c.w = append(c.w, head...)
	if traceparent != "" {
		c.w = append(append(append(c.w, "Traceparent: "...), traceparent...), "\r\n"...)
	}
	c.w = strconv.AppendInt(append(c.w, "Content-Length: "...), int64(len(body)), 10)
	c.w = append(c.w, "\r\n\r\n"...)
	var err error
	if len(body) <= together {
		c.w = append(c.w, body...)
		_, err = c.Write(c.w)
	} else {
		buffers := net.Buffers{c.w, body}
		_, err = buffers.WriteTo(c.Conn.Conn)
	}
	if err != nil {
		return errors.Join(errNothing, err)
	}
	if _, err := c.r.Peek(1); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || isReset(err) {
			err = errors.Join(errNothing, err)
		}
		return err
	}
	return c.readHead()
}

func isReset(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && !op.Timeout()
}

const maxHead = 64 << 10

// readHead reads the head of an answer. Those that only tell of one to come are
// passed over.
func (c *plainConn) readHead() error {
	for {
		c.resp = Response{Length: -1, keep: true}
		size := 0
		for first := true; ; first = false {
			line, err := readLine(c.r, maxHead)
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			if size += len(line); err != nil || size > maxHead {
				return fmt.Errorf("the head of the answer cannot be read: %w", err)
			}
			line = trimEnd(line)
			if len(line) == 0 && !first {
				break
			}
			if err := c.resp.headLine(line, first); err != nil {
				return err
			}
		}
		if c.resp.StatusCode >= 200 {
			return nil
		}
	}
}

// trimEnd takes the end off a line.
func trimEnd(line []byte) []byte {
	line = bytes.TrimSuffix(line, []byte("\n"))
	return bytes.TrimSuffix(line, []byte("\r"))
}

var errHead = errors.New("the answer is not HTTP")

func (r *Response) headLine(line []byte, first bool) error {
	if first {
		version, rest, ok := bytes.Cut(line, []byte(" "))
		code, _, _ := bytes.Cut(rest, []byte(" "))
		status, err := strconv.Atoi(string(code))
		if !ok || err != nil || len(code) != 3 || !bytes.HasPrefix(version, []byte("HTTP/1.")) {
			return errHead
		}
		r.StatusCode, r.keep = status, string(version) == "HTTP/1.1"
		return nil
	}
	name, value, ok := bytes.Cut(line, []byte(":"))
	if !ok {
		return errHead
	}
	value = bytes.TrimSpace(value)
	switch len(name) {
	case len("Content-Length"):
		if bytes.EqualFold(name, []byte("Content-Length")) {
			n, err := strconv.ParseInt(string(value), 10, 64)
			if err != nil || n < 0 {
				return errHead
			}
			r.Length = n
			return nil
		}
		if bytes.EqualFold(name, []byte("Retry-After-Ms")) {
			r.retryAfterMs = string(value)
		}
	case len("Transfer-Encoding"):
		if bytes.EqualFold(name, []byte("Transfer-Encoding")) {
			r.chunked = bytes.EqualFold(value, []byte("chunked"))
		}
	case len("Connection"):
		if bytes.EqualFold(name, []byte("Connection")) {
			r.keep = r.keep && !strings.EqualFold(string(value), "close")
		}
	case len("Retry-After"):
		if bytes.EqualFold(name, []byte("Retry-After")) {
			r.retryAfter = string(value)
		}
	}
	return nil
}

// plainBody is the body of an answer. Its connection is used again when it was
// read to its end; from Close on the body is another's.
type plainBody struct {
	p    *plain
	c    *plainConn
	r    io.Reader // of chunks, nil for a body without
	left int64     // -1 where only the end tells
	keep bool
	end  bool
}

func (b *plainBody) Read(p []byte) (int, error) {
	switch {
	case b.r != nil:
		n, err := b.r.Read(p)
		b.end = b.end || err == io.EOF
		return n, err
	case b.left < 0:
		return b.c.r.Read(p)
	case b.left == 0:
		b.end = true
		return 0, io.EOF
	}
	n, err := b.c.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	b.end = b.left == 0
	if err == io.EOF && !b.end {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func (b *plainBody) Close() error {
	if b.c == nil {
		return nil
	}
	c, p := b.c, b.p
	whole := b.keep && (b.end || b.left == 0)
	if whole && b.r != nil {
		whole = chunkedEnd(c.r)
	}
	*b = plainBody{}
	if c.hook.Stop() && whole && c.r.Buffered() == 0 {
		p.put(c)
		return nil
	}
	return c.Close()
}

// chunkedEnd takes the empty line behind the last chunk; a trailer is not taken.
func chunkedEnd(r *bufio.Reader) bool {
	line, err := r.Peek(2)
	if err != nil || string(line) != "\r\n" {
		return false
	}
	_, err = r.Discard(2)
	return err == nil
}
