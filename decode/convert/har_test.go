package convert_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/decode/convert"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
)

// An entry has the events of its answer, if that came event by event.
func TestHAREvents(t *testing.T) {
	const ask = "GET / HTTP/1.1\r\n\r\n"
	var s script
	c := carrier.New(carrier.Options{})
	for _, part := range []struct {
		dir  frame.Dir
		data string
	}{
		{frame.C2U, ask + ask + ask},
		{frame.U2C, "HTTP/1.1 200 OK\r\nContent-Type: Text/Event-Stream\r\nContent-Length: 20\r\n\r\ndata: {}\n\ndata: {}\n\n"},
		{frame.U2C, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Encoding: compress\r\nContent-Length: 2\r\n\r\nno"},
		{frame.U2C, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {}\n\n"},
	} {
		for _, f := range c.Feed(part.dir, []byte(part.data)) {
			f.Raw, f.Meta, f.Conn = bytes.Clone(f.Raw), f.Meta.Clone(), 1
			s.records = append(s.records, capture.Record{Framing: f.Meta.Framing, Frame: f})
		}
	}
	var b bytes.Buffer
	check(t, convert.WriteHAR(&b, &s, "test"))
	var har struct {
		Log struct {
			Entries []struct {
				Resource string            `json:"_resourceType"`
				Events   []json.RawMessage `json:"_eventSourceMessages"`
			}
		}
	}
	check(t, json.Unmarshal(b.Bytes(), &har))
	var got []string
	for _, e := range har.Log.Entries {
		got = append(got, fmt.Sprintf("%q %d", e.Resource, len(e.Events)))
	}
	if want := []string{`"eventsource" 2`, `"" 0`, `"eventsource" 1`}; !slices.Equal(got, want) {
		t.Errorf("the entries are %v, not %v", got, want)
	}
}
