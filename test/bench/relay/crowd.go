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

// crowd opens 1,000 connections through a relay at once, has each ask something, and
// looks at the memory of the relay.
func crowd(b *harness.Bench) error {
	const name = "1,000 connections: peak memory"
	if !b.Wants(name) {
		return nil
	}
	unit, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer unit.Close()
	go answerAll(unit)
	relay, err := harness.Serve(`listening on tcp://(\S+)`, "wirectl", "relay", "--listen", "tcp://127.0.0.1:0", "tcp://"+unit.Addr().String())
	if err != nil {
		return err
	}
	defer relay.Stop()
	var heard errgroup.Group
	for range 1000 {
		conn, err := net.Dial("tcp", relay.Address)
		if err != nil {
			return err
		}
		defer conn.Close()
		heard.Go(func() error { return ask(conn) })
	}
	if err := heard.Wait(); err != nil {
		return err
	}
	peak, err := relay.Peak()
	b.AtMost(name, []float64{peak}, 200, "MiB")
	return err
}

// What tells a request from its answer.
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
