package unit_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/wirectl/wirectl/fixtures"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/peer/unit"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/latis"
)

// A tape is a connection whose other end has already sent everything.
type tape struct {
	*bytes.Reader
	bytes.Buffer
}

func (t *tape) Read(p []byte) (int, error)  { return t.Reader.Read(p) }
func (t *tape) Write(p []byte) (int, error) { return t.Buffer.Write(p) }
func (t *tape) CloseWrite() error           { return nil }
func (t *tape) Close() error                { return nil }

// For any input, the unit returns, and its own messages break no rule.
func FuzzServe(f *testing.F) {
	for _, name := range []string{"latis-session/c2s.bin", "latis-cancel/c2s.bin", "latis-session/s2c.bin"} {
		b, err := fixtures.Read(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte("\x00\x00\x00\x00"))
	f.Add([]byte("\x00\x00\x00\x08\x0a\x011\xf2\x01\x02\x08\xff\x01"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		c := &tape{Reader: bytes.NewReader(sent)}
		// A framing fault is an error of the controller, and does not fail the test.
		_ = unit.New(unit.Echo{}, unit.Options{}).Serve(context.Background(), c)
		s := frame.NewScanner(&c.Buffer, frame.Len32)
		for s.Scan() {
			var m protocol.Message
			if err := latis.Protocol.Parse(s.Frame().Payload(), &m); err != nil || m.Faults != 0 || m.From != frame.U2C {
				t.Fatalf("%x is answered by %x: %v, faults %b", sent, s.Frame().Raw, err, m.Faults)
			}
		}
		if err := s.Err(); err != nil {
			t.Fatal(err)
		}
	})
}
