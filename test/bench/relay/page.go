package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/wirectl/wirectl/test/bench/harness"
)

// page measures how long a frame takes from the client of a relay to the page: until the
// browser has been told of it.
func page(b *harness.Bench) error {
	const name = "a frame from the client to the page, 100 a second: p99"
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
	web, err := harness.Serve(`the page is at (\S+)`, "wirectl", "monitor", "--web")
	if err != nil {
		return err
	}
	defer web.Stop()
	events, err := follow(web.Address)
	if err != nil {
		return err
	}
	defer events.Close()
	conn, err := net.Dial("tcp", relay.Address)
	if err != nil {
		return err
	}
	defer conn.Close()
	go func() { _, _ = io.Copy(io.Discard, conn) }() // the answers
	told := bufio.NewReader(events)
	rounds, err := harness.Turns(b.Rounds, func() (float64, error) { return delay(conn, told, max(1000/b.Scale, 100)) })
	if err != nil {
		return err
	}
	b.AtMost(name, rounds[0], 100, "ms")
	return nil
}

// follow opens the page and the events of the only session there is.
func follow(address string) (io.ReadCloser, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Jar: jar}
	page, err := client.Get(address) // the cookie for the token
	if err != nil {
		return nil, err
	}
	page.Body.Close()
	base, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	base.RawQuery, base.Path = "", "/api/sessions"
	list, err := client.Get(base.String())
	if err != nil {
		return nil, err
	}
	defer list.Body.Close()
	var sessions []struct{ ID string }
	if err := json.NewDecoder(list.Body).Decode(&sessions); err != nil || len(sessions) != 1 {
		return nil, fmt.Errorf("%d sessions, want the relay's: %w", len(sessions), err)
	}
	base.Path, base.RawQuery = "/api/events", url.Values{"session": {sessions[0].ID}}.Encode()
	events, err := client.Get(base.String())
	if err != nil {
		return nil, err
	}
	return events.Body, nil
}

var asks int // of all rounds

// delay sends n requests, and returns the 99th percentile of the time until the page is
// told of each, in milliseconds.
func delay(conn net.Conn, events *bufio.Reader, n int) (float64, error) {
	first := asks
	asks += n
	sent := make([]time.Time, n)
	failed := make(chan error, 1)
	begin := make(chan int, n)
	go func() {
		for i := range n {
			sent[i] = time.Now()
			begin <- i // after which the time is known
			if _, err := fmt.Fprintf(conn, `{"jsonrpc":"2.0","id":%d,%s}`+"\n", first+i, asked); err != nil {
				failed <- err
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	var took []float64
	for len(took) < n {
		line, err := events.ReadString('\n')
		now := time.Now()
		if err != nil {
			return 0, err
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		var d struct {
			Frames *struct {
				ID  []string
				Dir []int
			}
		}
		if err := json.Unmarshal([]byte(data), &d); err != nil {
			return 0, err
		}
		if d.Frames == nil {
			continue
		}
		for i, id := range d.Frames.ID {
			var at int
			if _, err := fmt.Sscan(id, &at); err != nil || d.Frames.Dir[i] != 1 || at < first {
				continue
			}
			<-begin
			took = append(took, now.Sub(sent[at-first]).Seconds()*1000)
		}
		select {
		case err := <-failed:
			return 0, err
		default:
		}
	}
	slices.Sort(took)
	return took[len(took)*99/100], nil
}
