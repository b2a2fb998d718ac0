package relay_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/relay"
	"github.com/wirectl/wirectl/transport"
)

// share returns the far end of a unit, with a reader of its lines, and what two
// controllers see of it.
func share(t *testing.T) (unit *net.TCPConn, lines *bufio.Reader, seats [2]transport.Conn) {
	t.Helper()
	unit, near := pair(t)
	s, err := relay.Share(near, frame.Line, jsonrpc.MCP, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range seats {
		if seats[i], err = s.Join(); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan error, 1)
	go func() { done <- s.Run() }()
	t.Cleanup(func() {
		unit.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
		for _, c := range seats {
			c.Close()
		}
		near.Close()
	})
	return unit, bufio.NewReader(unit), seats
}

func ask(id int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`, id) + "\n"
}

func reply(id int) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, id) + "\n" }

// Frames of several controllers do not mix, and each hears what is for it.
func TestShared(t *testing.T) {
	unit, lines, seats := share(t)
	a, b := seats[0], seats[1]
	one := ask(1)
	say(t, a, one[:10])
	say(t, b, ask(2))
	say(t, a, one[10:])
	line(t, lines, ask(2))
	line(t, lines, one)
	const told, asked = `{"jsonrpc":"2.0","method":"notifications/message"}` + "\n", `{"jsonrpc":"2.0","id":1,"method":"roots/list"}` + "\n"
	say(t, unit, reply(1)+reply(2)+told+asked)
	hear(t, a, reply(1)+told+asked)
	hear(t, b, reply(2)+told)
}

// Where two use the same id, the second waits for the end of the first: that it
// is answered, or cancelled.
func TestSharedClash(t *testing.T) {
	for about, end := range map[string]func(t *testing.T, unit *net.TCPConn, lines *bufio.Reader, a transport.Conn){
		"answered": func(t *testing.T, unit *net.TCPConn, _ *bufio.Reader, a transport.Conn) {
			say(t, unit, reply(1))
			hear(t, a, reply(1))
		},
		"cancelled": func(t *testing.T, _ *net.TCPConn, lines *bufio.Reader, a transport.Conn) {
			const cancel = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}` + "\n"
			say(t, a, cancel)
			line(t, lines, cancel)
		},
	} {
		t.Run(about, func(t *testing.T) {
			unit, lines, seats := share(t)
			a, b := seats[0], seats[1]
			say(t, a, ask(1))
			line(t, lines, ask(1))
			said := make(chan error, 1)
			go func() {
				_, err := io.WriteString(b, ask(1))
				said <- err
			}()
			say(t, a, ask(7)) // which does not wait
			line(t, lines, ask(7))
			end(t, unit, lines, a)
			line(t, lines, ask(1))
			if err := <-said; err != nil {
				t.Error(err)
			}
			say(t, unit, reply(1))
			hear(t, b, reply(1))
		})
	}
}

// A controller that has ended hears the end behind its last answer; the others
// go on until the unit ends.
func TestSharedEnds(t *testing.T) {
	unit, lines, seats := share(t)
	a, b := seats[0], seats[1]
	say(t, a, ask(1))
	if err := a.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	say(t, unit, reply(1))
	hear(t, a, reply(1))
	ended(t, a)
	say(t, b, ask(1))
	line(t, lines, ask(1))
	line(t, lines, ask(1))
	unit.Close()
	ended(t, b)
	if _, err := io.WriteString(b, ask(2)); !errors.Is(err, relay.ErrUnitEnded) {
		t.Error(err)
	}
}
