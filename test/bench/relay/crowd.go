package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/wirectl/wirectl/test/bench/harness"
)

// crowd sends requests over 1,000 connections through a relay at once, and measures the memory
// of the relay.
func crowd(b *harness.Bench) {
	const name = "1,000 connections: peak memory"
	if !b.Wants(name) {
		return
	}
	relay, stop := startRelay()
	defer stop()
	var heard errgroup.Group
	for range 1000 {
		conn := harness.Must(net.Dial("tcp", relay.Address))
		defer conn.Close()
		heard.Go(func() error { return ask(conn) })
	}
	harness.Check(heard.Wait())
	b.AtMost(name, []float64{relay.Peak()}, 200, "MiB")
}

// startRelay starts a relay to a unit that answers each line.
func startRelay() (relay *harness.Server, stop func()) {
	unit := harness.Must(net.Listen("tcp", "127.0.0.1:0"))
	go answerAll(unit)
	relay = harness.Serve(`listening on tcp://(\S+)`, "wirectl", "relay", "--listen", "tcp://127.0.0.1:0", "tcp://"+unit.Addr().String())
	return relay, func() {
		relay.Stop()
		unit.Close()
	}
}

// The difference between a request and its answer.
const (
	asked    = `"method":"tools/list"`
	answered = `"result":{"tools":[]}`
)

// answerAll answers each line until the listener is closed.
func answerAll(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			for lines := bufio.NewScanner(conn); lines.Scan(); {
				if _, err := fmt.Fprintln(conn, strings.Replace(lines.Text(), asked, answered, 1)); err != nil {
					return
				}
			}
		}()
	}
}

func ask(conn net.Conn) error {
	for id := range 100 {
		line := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,%s}`+"\n", id, asked)
		if _, err := io.WriteString(conn, line); err != nil {
			return err
		}
		want := strings.Replace(line, asked, answered, 1)
		got := make([]byte, len(want))
		if _, err := io.ReadFull(conn, got); err != nil {
			return err
		}
		if string(got) != want {
			return fmt.Errorf("a controller heard %q", got)
		}
	}
	return nil
}
