package observe_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/mask"
	"github.com/wirectl/wirectl/broker/observe"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
)

// kept keeps copies of records.
type kept []capture.Record

func (k *kept) Write(r *capture.Record) error {
	*k = append(*k, r.Clone())
	return nil
}

// Connections publish concurrently, and no record is overwritten by the next one.
func TestSideBySide(t *testing.T) {
	var records kept
	p := observe.NewPublisher(&records, nil)
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			c := p.Open(fmt.Sprintf("client %d", i), "json", frame.HTTP)
			for j := range 100 {
				line := fmt.Sprintf("POST /%d/%d HTTP/1.1", i, j)
				c.HTTP(frame.C2U, line, []byte(line))
				c.Note("%s", line)
			}
			c.Close()
		})
	}
	group.Wait()
	seq, last := int64(0), map[int]string{}
	for _, r := range records {
		switch r.Kind {
		case capture.Frame:
			seq++
			if string(r.Raw) != r.Meta.Head.Start || r.Seq != seq {
				t.Errorf("frame %d holds %q behind %q, want it to be frame %d", r.Seq, r.Raw, r.Meta.Head.Start, seq)
			}
			last[r.Conn] = string(r.Raw)
		case capture.Note:
			if string(r.Text) != last[r.Conn] {
				t.Errorf("a note on connection %d says %q behind frame %q", r.Conn, r.Text, last[r.Conn])
			}
		}
	}
	if len(records) != 4*(1+200+2) {
		t.Errorf("%d records", len(records))
	}
}

// A stream of events is published as on the wire: the head, which marks it as a stream, the
// events, and the end. OpenAI's last event is not a message.
func TestEvents(t *testing.T) {
	var records kept
	c := observe.NewPublisher(&records, nil).Open("client", "json", frame.HTTP)
	c.HTTP(frame.C2U, "POST / HTTP/1.1", []byte(`{}`))
	c.Events(http.StatusOK)
	c.Event([]byte(`{"id":"chatcmpl-1"}`))
	c.Event([]byte("[DONE]"))
	c.EventsEnd()
	var signals []frame.Signal
	for _, r := range records[1:] {
		signals = append(signals, r.Meta.Signal)
	}
	want := []frame.Signal{frame.NoSignal, frame.Response, frame.NoSignal, frame.Event, frame.End}
	if !slices.Equal(signals, want) {
		t.Errorf("the signals are %q, not %q", signals, want)
	}
	if kind := records[2].Meta.Head.Get("content-type"); kind != "text/event-stream" {
		t.Errorf("the content of a stream of events is %q", kind)
	}
}

// An empty response is not a message, nor is an HTML page.
func TestNoMessage(t *testing.T) {
	for body, want := range map[string]frame.Signal{"": frame.Response, "<html>": frame.Response, "oops": frame.Response, ` {"a":1}`: frame.NoSignal} {
		var records kept
		observe.NewPublisher(&records, nil).Open("client", "json", frame.HTTP).HTTP(frame.U2C, "HTTP/1.1 200 OK", []byte(body))
		if got := records[1].Meta.Signal; got != want || string(records[1].Raw) != body {
			t.Errorf("%q is published as signal %q", body, got)
		}
	}
}

// A rejected request that is retried in another form counts as two, on connections that
// both end.
func TestAskedAgain(t *testing.T) {
	var records kept
	c := observe.NewPublisher(&records, nil).Open("client", "json", frame.HTTP)
	e := c.Tap().Provider(&broker.Call{}, &broker.Hop{Provider: "p"})
	e.Sent("127.0.0.1/v1", []byte(`{"a":1}`))
	e.Received(400, []byte(`{}`))
	e.Sent("127.0.0.1/v1", []byte(`{}`))
	e.Received(200, []byte(`{}`))
	e.Ended(nil)
	c.Close()
	ends := map[int]int{}
	for _, r := range records {
		if r.Kind == capture.HalfClosed {
			ends[r.Conn]++
		}
	}
	if want := map[int]int{1: 2, 2: 2, 3: 2}; !maps.Equal(ends, want) {
		t.Errorf("connections ended %v times, not %v", ends, want)
	}
}

// A key in a provider's answer is published masked, on both sides.
func TestHidden(t *testing.T) {
	var records kept
	var secrets mask.Secrets
	secrets.Add("sk-planted")
	p := observe.NewPublisher(&records, &secrets)
	c := p.Open("client", "json", frame.HTTP)
	const said = `{"error":"sk-planted is not a key"}`
	body := []byte(said)
	c.HTTP(frame.U2C, "", body)
	c.Frame(frame.U2C, append([]byte{0, 0, 0, byte(len(said))}, said...), 4)
	c.Note("said: %s", said)
	const want = `{"error":"********** is not a key"}`
	if got := string(records[1].Raw); got != want || string(body) != said {
		t.Errorf("got %s of %s", got, body)
	}
	if got := records[2]; string(got.Raw[got.Start:got.End]) != want {
		t.Errorf("got %s", got.Raw)
	}
	if got := string(records[3].Text); got != "said: "+want {
		t.Errorf("got %s", got)
	}
}

// The direction that ended first shows who ended a connection. Observers use it to tell
// what was cancelled.
func TestWhoLeft(t *testing.T) {
	byController, byUnit := []frame.Dir{frame.C2U, frame.U2C}, []frame.Dir{frame.U2C, frame.C2U}
	for _, tt := range []struct {
		err                  error
		ofProvider, ofClient []frame.Dir
	}{
		{nil, byUnit, byUnit},
		{broker.ErrGone, byController, byController},
		{broker.ErrCancelled, byController, byUnit},
		{&provider.Error{Cause: provider.TimedOut}, byController, byUnit},
		{&provider.Error{Cause: provider.Unreachable, Err: io.ErrUnexpectedEOF}, byUnit, byUnit},
	} {
		var records kept
		c := observe.NewPublisher(&records, nil).Open("client", "json", frame.HTTP)
		e := c.Tap().Provider(&broker.Call{}, &broker.Hop{Provider: "p"})
		e.Sent("127.0.0.1/v1", []byte(`{}`))
		e.Ended(tt.err)
		c.HTTP(frame.U2C, "HTTP/1.1 200 OK", []byte(`{}`))
		c.Close()
		ends := map[int][]frame.Dir{}
		answered := false
		for _, r := range records {
			answered = answered || r.Kind == capture.Frame && r.Dir == frame.U2C
			if r.Kind == capture.HalfClosed {
				ends[r.Conn] = append(ends[r.Conn], r.Dir)
			}
		}
		if !slices.Equal(ends[1], tt.ofClient) || !slices.Equal(ends[2], tt.ofProvider) {
			t.Errorf("%v: the client's connection ended as %v, that to the provider as %v", tt.err, ends[1], ends[2])
		}
		if here := tt.err != broker.ErrGone; answered != here {
			t.Errorf("%v: it was published that the client was answered: %v", tt.err, answered)
		}
	}
}
