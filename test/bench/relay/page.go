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

// page measures how long a frame takes from the client of a relay to the browser that shows the
// page.
func page(b *harness.Bench) {
	const name = "a frame from the client to the page, 100 a second: p99"
	if !b.Wants(name) {
		return
	}
	relay, stop := startRelay()
	defer stop()
	web := harness.Serve(`the page is at (\S+)`, "wirectl", "monitor", "--web")
	defer web.Stop()
	events := follow(web.Address)
	defer events.Close()
	conn := harness.Must(net.Dial("tcp", relay.Address))
	defer conn.Close()
	go func() { _, _ = io.Copy(io.Discard, conn) }() // the answers
	told := bufio.NewReader(events)
	rounds := harness.Turns(b.Rounds, func() float64 { return delay(conn, told, max(1000/b.Scale, 100)) })
	b.AtMost(name, rounds[0], 100, "ms")
}

// follow opens the page and the events of the only session.
func follow(address string) io.ReadCloser {
	jar := harness.Must(cookiejar.New(nil))
	client := &http.Client{Jar: jar}
	page := harness.Must(client.Get(address)) // sets the cookie for the token
	page.Body.Close()
	base := harness.Must(url.Parse(address))
	base.RawQuery, base.Path = "", "/api/sessions"
	list := harness.Must(client.Get(base.String()))
	defer list.Body.Close()
	var sessions []struct{ ID string }
	if err := json.NewDecoder(list.Body).Decode(&sessions); err != nil || len(sessions) != 1 {
		harness.Check(fmt.Errorf("%d sessions, want the relay's: %w", len(sessions), err))
	}
	base.Path, base.RawQuery = "/api/events", url.Values{"session": {sessions[0].ID}}.Encode()
	events := harness.Must(client.Get(base.String()))
	return events.Body
}

var asks int // across all rounds

// delay sends n requests, and returns the 99th percentile of the time until the page gets them, in
// milliseconds.
func delay(conn net.Conn, events *bufio.Reader, n int) float64 {
	first := asks
	asks += n
	sent := make([]time.Time, n)
	failed := make(chan error, 1)
	begin := make(chan int, n)
	go func() {
		for i := range n {
			sent[i] = time.Now()
			begin <- i // its start time is set
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
		harness.Check(err)
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
		harness.Check(json.Unmarshal([]byte(data), &d))
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
			harness.Check(err)
		default:
		}
	}
	slices.Sort(took)
	return took[len(took)*99/100]
}
