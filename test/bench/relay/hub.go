package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/wirectl/wirectl/test/bench/harness"
)

const (
	relays  = 12
	rate    = 2000 // frames per second and relay
	lasting = 10 * time.Second
	viewers = 3
	beat    = 10 * time.Millisecond // between writes to a relay
)

// hubs measures many relays that send to one hub losslessly, with viewers.
func hubs(b *harness.Bench) {
	const (
		lost  = "12 relays, 2,000 frames a second each: frames that the hub lacks"
		seen  = "the same: p99 until a frame is on the output of a viewer"
		peak  = "the same: peak memory of the hub"
		given = "the same: frames a second that were given to the relays"
	)
	b.Build("cc", "-O2", "-o", b.Bin("peer"), "peers/relay.c")
	hub := newHub(b)
	defer hub.Stop()
	if hubTrip(b, hub); !b.Wants(lost) && !b.Wants(seen) && !b.Wants(peak) {
		return
	}
	senders := make([]*sender, max(viewers, relays/b.Scale))
	for i := range senders {
		senders[i] = newSender(b, hub.Address)
		defer senders[i].stop()
	}
	latencies, took := load(hub, senders)
	missing, sent := 0, 0
	for _, s := range senders {
		n := stored(hub, s)
		missing, sent = missing+s.sent-n, sent+s.sent
	}
	memory := hub.Peak()
	slices.Sort(latencies)
	b.AtMost(lost, []float64{float64(missing)}, 0, "")
	b.AtMost(seen, []float64{latencies[len(latencies)*99/100]}, 100, "ms")
	b.AtMost(peak, []float64{memory}, 300, "MiB")
	b.AtLeast(given, []float64{float64(sent) / took.Seconds()}, float64(len(senders)*rate)*0.95, "")
}

func newHub(b *harness.Bench) *harness.Server {
	return harness.Serve(`the hub is at (\S+)`, "env", "XDG_STATE_HOME="+filepath.Join(b.Dir, "hub"), "wirectl", "hub", "--listen", "127.0.0.1:0", "--page=")
}

// hubTrip measures what a hub adds to a message.
func hubTrip(b *harness.Bench, hub *harness.Server) {
	const name = "a relay that sends to a hub: added p50 of a 100-byte round trip to that with a tap"
	if !b.Wants(name) {
		return
	}
	trips := harness.Turns(b.Rounds, ping(b, "peer echo"), ping(b, "wirectl relay -q -- peer echo"), ping(b, "wirectl relay -q --hub "+hub.Address+" -- peer echo"))
	var ratios []float64
	for i, direct := range trips[0] {
		ratios = append(ratios, (trips[2][i]-direct)/(trips[1][i]-direct))
	}
	b.AtMost(name, ratios, 1.2, "")
}

// A sender is a relay that this program controls.
type sender struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	session string
	sent    int
	told    sync.WaitGroup
}

var sendingAs = regexp.MustCompile(`as (hub:\S+)`)

func newSender(b *harness.Bench, hub string) *sender {
	s := &sender{cmd: exec.Command("wirectl", "relay", "--no-tap", "--hub", hub, "--hub-policy", "lossless", "--", "sh", "-c", "cat >/dev/null")}
	s.cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+filepath.Join(b.Dir, "spools"))
	s.in = harness.Must(s.cmd.StdinPipe())
	said := harness.Must(s.cmd.StderrPipe())
	harness.Check(s.cmd.Start())
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		if found := sendingAs.FindStringSubmatch(lines.Text()); found != nil {
			s.session = found[1]
			s.told.Go(func() { _, _ = io.Copy(io.Discard, said) })
			return s
		}
	}
	s.stop()
	harness.Check(fmt.Errorf("a relay does not send: %w", lines.Err()))
	return nil
}

// end waits until the relay has sent everything.
func (s *sender) end() error {
	s.in.Close()
	s.told.Wait()
	return s.cmd.Wait()
}

func (s *sender) stop() {
	s.in.Close()
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// send writes frames to the relay until the given time. Each frame contains its time.
func (s *sender) send(until time.Time) error {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	began := time.Now()
	var text bytes.Buffer
	for now := began; now.Before(until); now = <-tick.C {
		text.Reset()
		due := int(now.Sub(began).Seconds() * rate)
		for ; s.sent < due; s.sent++ {
			fmt.Fprintf(&text, `{"jsonrpc":"2.0","method":"notifications/roots/list_changed","params":{"n":%d,"at":%d}}`+"\n", s.sent, time.Now().UnixNano())
		}
		if _, err := s.in.Write(text.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// load lets all senders send, and returns the latencies of frames to the viewers in
// milliseconds.
func load(hub *harness.Server, senders []*sender) (latencies []float64, took time.Duration) {
	var watching, sending errgroup.Group
	var mu sync.Mutex
	for _, s := range senders[:viewers] {
		cmd := viewing(hub, s, "ndjson")
		out := harness.Must(cmd.StdoutPipe())
		harness.Check(cmd.Start())
		watching.Go(func() error {
			lines := bufio.NewScanner(out)
			for lines.Scan() {
				now := time.Now()
				var record struct {
					Dir     string
					Payload struct {
						Params struct{ At int64 }
					}
				}
				if json.Unmarshal(lines.Bytes(), &record) != nil || record.Dir != "c2u" || record.Payload.Params.At == 0 {
					continue
				}
				mu.Lock()
				latencies = append(latencies, now.Sub(time.Unix(0, record.Payload.Params.At)).Seconds()*1000)
				mu.Unlock()
			}
			return cmd.Wait()
		})
	}
	began := time.Now()
	for _, s := range senders {
		sending.Go(func() error { return s.send(began.Add(lasting)) })
	}
	harness.Check(sending.Wait())
	took = time.Since(began)
	for _, s := range senders {
		harness.Check(s.end())
	}
	harness.Check(watching.Wait())
	if len(latencies) == 0 {
		harness.Check(errors.New("the viewers have seen nothing"))
	}
	return latencies, took
}

// viewing prints a session at the hub.
func viewing(hub *harness.Server, s *sender, output string) *exec.Cmd {
	cmd := exec.Command("wirectl", "decode", "-q", "-o", output, s.session)
	cmd.Env = append(os.Environ(), "WIRECTL_HUB="+hub.Address)
	return cmd
}

// stored counts the frames from the controller that the hub has in a session, in order.
func stored(hub *harness.Server, s *sender) (n int) {
	for line := range bytes.Lines(harness.Output(viewing(hub, s, "ndjson"))) {
		if bytes.Contains(line, []byte(`"dir":"c2u"`)) && bytes.Contains(line, fmt.Appendf(nil, `"params":{"n":%d,`, n)) {
			n++
		}
	}
	return n
}
