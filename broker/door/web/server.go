package web

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"os"
	"strconv"

	"github.com/wirectl/wirectl/broker/door"
)

// A Handler answers one request by w.
type Handler func(ctx context.Context, r *Request, w *Response)

// A Config is what the doors do differently.
type Config struct {
	Handler Handler
	// Limit is the largest body, in bytes.
	Limit int64
	// Fault returns the body, which is JSON, for a request that never gets to
	// the handler. The path is "" if it could not be read.
	Fault func(path string, f *Fault) []byte
	Access
	// Pages lets the web pages of this machine ask: a browser lets them when it
	// is told so.
	Pages bool
	// Opened is told each new connection, and returns what is to be done at
	// its end; it may be nil.
	Opened func(c *door.Conn) (closed func())
}

// A Fault is what is wrong with a request.
type Fault struct {
	Status  int
	Message string
}

const maxHead = 32 << 10

// Server returns a server that speaks HTTP.
func Server(cfg Config) *door.Server {
	cfg.Limit = cmp.Or(cfg.MaxBody, cfg.Limit)
	return &door.Server{Handle: func(ctx context.Context, c *door.Conn) {
		if cfg.Opened != nil {
			if closed := cfg.Opened(c); closed != nil {
				defer closed()
			}
		}
		s := session{cfg: &cfg, conn: c}
		s.serve(ctx)
	}}
}

type session struct {
	cfg    *Config
	conn   *door.Conn
	req    Request
	resp   Response
	chunks []byte // the body of a request that came in chunks
}

func (s *session) serve(ctx context.Context) {
	for s.one(ctx) && ctx.Err() == nil {
	}
	_ = s.conn.Flush()
}

// one takes one request and answers it. It reports whether another may come.
func (s *session) one(ctx context.Context) bool {
	c := s.conn
	if len(c.Buffered()) == 0 {
		if c.Flush() != nil {
			return false
		}
		c.Rest()
		if c.Await() != nil {
			return false
		}
	}
	head, fault := s.readHead()
	if head == 0 || fault != nil {
		s.refuse(fault)
		return false
	}
	n, fault := s.readBody(head)
	if fault != nil {
		s.refuse(fault)
		return false
	}
	s.resp = Response{conn: c, head: s.req.Method == "HEAD", old: s.req.old, close: s.req.close || c.Stopping()}
	switch fault := s.admit(); {
	case fault != nil:
		s.resp.JSON(fault.Status, s.cfg.Fault(s.req.Path, fault))
	case s.asksLeave():
		s.giveLeave()
	default:
		s.cfg.Handler(ctx, &s.req, &s.resp)
	}
	s.resp.finish()
	c.Consume(n)
	if cap(s.chunks) > maxHead {
		s.chunks = nil
	}
	return !s.resp.close && s.resp.err == nil
}

// readHead reads and parses a head and returns its length with the empty line.
// If it is 0, there is none, and the fault, if not nil, says why.
func (s *session) readHead() (int, *Fault) {
	c, timed := s.conn, false
	for searched := 0; ; {
		b := c.Buffered()
		for searched == 0 && len(b) > 0 && (b[0] == '\r' || b[0] == '\n') {
			c.Consume(1) // an empty line before a request is forgiven
			b = c.Buffered()
		}
		end, n := endOfHead(b, max(searched-3, 0))
		if n > 0 && n <= maxHead {
			return n, s.req.parseHead(b[:end])
		}
		if searched = len(b); searched > maxHead {
			return 0, &Fault{431, "Request header too large"}
		}
		if !timed {
			if c.Flush() != nil {
				return 0, nil
			}
			c.Begin()
			timed = true
		}
		if err := c.More(); err != nil {
			return 0, stalled(err)
		}
	}
}

// endOfHead returns where the last header line ends, and how long the head is
// with the empty line.
func endOfHead(b []byte, from int) (end, n int) {
	for {
		i := bytes.IndexByte(b[from:], '\n')
		if i < 0 {
			return 0, 0
		}
		from += i + 1
		rest := b[from:]
		if len(rest) > 0 && rest[0] == '\n' {
			return from, from + 1
		}
		if len(rest) > 1 && rest[0] == '\r' && rest[1] == '\n' {
			return from, from + 2
		}
	}
}

func stalled(err error) *Fault {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &Fault{408, "Request timed out"}
	}
	return nil
}

// readBody reads the body behind the head and returns how long both are.
func (s *session) readBody(head int) (int, *Fault) {
	r, c := &s.req, s.conn
	r.Conn, r.Body = c, nil
	n, chunked, fault := r.length()
	switch {
	case fault != nil:
		return 0, fault
	case n > s.cfg.Limit:
		return 0, s.tooLarge()
	case n == 0 && !chunked:
		return head, nil
	}
	if fault := s.proceed(head, n, chunked); fault != nil {
		return 0, fault
	}
	if chunked {
		return s.readChunks(head)
	}
	if len(c.Buffered()) < head+int(n) {
		c.Begin()
		c.Extend(int(n))
		if err := c.Fill(head + int(n)); err != nil {
			return 0, cut(err)
		}
		// The buffer may have moved, and the fields with it.
		if fault := r.parseHead(c.Buffered()[:len(r.head)]); fault != nil {
			return 0, fault
		}
	}
	r.Body = c.Buffered()[head : head+int(n)]
	return head + int(n), nil
}

func cut(err error) *Fault {
	if f := stalled(err); f != nil {
		return f
	}
	return &Fault{400, "Request body ended too early"}
}

func (s *session) tooLarge() *Fault {
	return &Fault{413, "Request body too large (max " + strconv.FormatInt(s.cfg.Limit, 10) + " bytes)"}
}

// proceed tells a client that waits for it to go on with the body.
func (s *session) proceed(head int, n int64, chunked bool) *Fault {
	c := s.conn
	if !contains(s.req.header("Expect"), "100-continue") || s.req.old || !chunked && len(c.Buffered()) >= head+int(n) {
		return nil
	}
	c.SetOut(append(c.Out(), "HTTP/1.1 100 Continue\r\n\r\n"...))
	if c.Flush() != nil {
		return &Fault{}
	}
	return nil
}

// readChunks reads a body in chunks and joins them.
func (s *session) readChunks(head int) (int, *Fault) {
	c, r := s.conn, &s.req
	length := len(r.head)
	c.Begin()
	s.chunks = s.chunks[:0]
	at := head
	for last := false; !last; {
		size, next, fault := s.chunkSize(at)
		switch {
		case fault != nil:
			return 0, fault
		case int64(len(s.chunks))+size > s.cfg.Limit:
			return 0, s.tooLarge()
		}
		last = size == 0
		if last {
			if at, fault = s.trailers(next); fault != nil {
				return 0, fault
			}
			break
		}
		c.Extend(at + int(size))
		if err := c.Fill(next + int(size) + 2); err != nil {
			return 0, cut(err)
		}
		b := c.Buffered()
		s.chunks = append(s.chunks, b[next:next+int(size)]...)
		at = next + int(size)
		if b[at] != '\r' || b[at+1] != '\n' {
			return 0, &Fault{400, "Malformed chunk"}
		}
		at += 2
		if at > head+maxHead { // what was taken over need not be kept
			at = s.forget(head, at)
		}
	}
	if fault := r.parseHead(c.Buffered()[:length]); fault != nil {
		return 0, fault
	}
	r.Body = s.chunks
	return at, nil
}

// forget takes what was read between the head and at out of the buffer: the
// head moves up to at.
func (s *session) forget(head, at int) int {
	b := s.conn.Buffered()
	copy(b[at-head:at], b[:head])
	s.conn.Consume(at - head)
	return head
}

// chunkSize reads the line at a position and returns the chunk's size and where
// it begins.
func (s *session) chunkSize(at int) (size int64, next int, _ *Fault) {
	line, next, fault := s.line(at)
	if fault != nil {
		return 0, 0, fault
	}
	digits, _, _ := bytes.Cut(line, []byte(";"))
	n, err := strconv.ParseUint(string(bytes.TrimSpace(digits)), 16, 40)
	if err != nil {
		return 0, 0, &Fault{400, "Malformed chunk"}
	}
	return int64(n), next, nil
}

// trailers passes over what follows the last chunk.
func (s *session) trailers(at int) (int, *Fault) {
	for start := at; at-start < maxHead; {
		line, next, fault := s.line(at)
		if fault != nil {
			return 0, fault
		}
		at = next
		if len(line) == 0 {
			return at, nil
		}
	}
	return 0, &Fault{431, "Request trailer too large"}
}

// line returns the line that begins at a position, and where the next begins.
func (s *session) line(at int) ([]byte, int, *Fault) {
	for searched := at; ; {
		b := s.conn.Buffered()
		if i := bytes.IndexByte(b[searched:], '\n'); i >= 0 {
			end := searched + i
			return bytes.TrimSuffix(b[at:end], []byte("\r")), end + 1, nil
		}
		searched = len(b)
		if searched-at > maxHead {
			return nil, 0, &Fault{400, "Malformed chunk"}
		}
		if err := s.conn.More(); err != nil {
			return nil, 0, cut(err)
		}
	}
}

// refuse answers a request that cannot be read, and ends the connection. What
// the client still writes is read, up to a point, so that it gets the answer.
func (s *session) refuse(f *Fault) {
	if f == nil || f.Status == 0 {
		return
	}
	w := Response{conn: s.conn, close: true}
	w.JSON(f.Status, s.cfg.Fault(s.req.Path, f))
	if s.conn.Flush() == nil {
		s.conn.Drain(4*s.cfg.Limit + 1<<20)
	}
}
