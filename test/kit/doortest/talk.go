package doortest

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"

	"github.com/wirectl/wirectl/broker/door"
)

// Talk sends bytes to a door and returns its answer. It uses neither sockets nor timers, and
// never waits: it is for fuzzing.
func Talk(s *door.Server, said []byte) []byte {
	c := &talk{in: bytes.NewReader(said)}
	s.ServeConn(context.Background(), c)
	return c.out.Bytes()
}

// Post posts a body to an HTTP door, without a socket, and returns the status and the body of
// the answer.
func Post(s http.Handler, path string, body []byte) (status string, answer []byte) {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, path, bytes.NewReader(body))
	r.Host = "localhost"
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return strconv.Itoa(w.Code), w.Body.Bytes()
}

// A talk is a client that has sent everything, and reads all answers.
type talk struct {
	in  *bytes.Reader
	out bytes.Buffer
}

func (c *talk) Read(p []byte) (int, error)     { return c.in.Read(p) }
func (c *talk) Write(p []byte) (int, error)    { return c.out.Write(p) }
func (*talk) Close() error                     { return nil }
func (*talk) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (*talk) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (*talk) SetDeadline(time.Time) error      { return nil }
func (*talk) SetReadDeadline(time.Time) error  { return nil }
func (*talk) SetWriteDeadline(time.Time) error { return nil }
