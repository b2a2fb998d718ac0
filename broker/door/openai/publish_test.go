package openai_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/broker/door/openai"
	"github.com/wirectl/wirectl/broker/door/web"
	"github.com/wirectl/wirectl/broker/observe"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/test/kit/doortest"
)

// A watcher describes the records published for each connection, and returns the
// description when the connection has ended.
type watcher struct {
	open  map[int][]string
	ended chan []string
}

func (w *watcher) Write(r *capture.Record) error {
	switch {
	case r.Kind == capture.Frame:
		word := "json"
		if r.Meta.Signal != frame.NoSignal {
			word = string(r.Meta.Signal)
		}
		if h := r.Meta.Head; h != nil {
			word += " " + strings.Fields(strings.TrimPrefix(h.Start, "HTTP/1.1 "))[0] + " " + h.Get("Content-Type")
		}
		w.open[r.Conn] = append(w.open[r.Conn], strings.TrimSpace(word))
	case r.Kind == capture.HalfClosed && r.Dir == frame.U2C:
		w.ended <- w.open[r.Conn]
	}
	return nil
}

// A call is published on both sides of the broker as it is on the wire: whole or as a
// stream. A stream has its head, its events and, unless it was cut, its end.
func TestPublished(t *testing.T) {
	script := provider.MockConfig{Script: []provider.Line{{Say: "so be it"}}}
	cut := script
	cut.Faults = []provider.Fault{{Every: 1}}
	const (
		chat    = "/v1/chat/completions"
		message = "/v1/messages"
		asked   = "json POST"
		head    = "response 200 text/event-stream"
	)
	events := func(n int, more ...string) []string {
		return append(append([]string{asked, head}, slices.Repeat([]string{"json"}, n)...), more...)
	}
	for _, tt := range []struct {
		about, path, body string
		backend           provider.MockConfig
		client, provider  []string
	}{
		{"whole", chat, hello + `}`, script, []string{asked, "json 200"}, []string{asked, "json 200"}},
		{"refused", chat, `{"messages":[],"model":"nobody"}`, script, []string{asked, "json 404"}, nil},
		{"a stream", chat, hello + `,"stream":true}`, script, events(4, "event", "end"), events(5, "event", "end")}, // includes the usage
		{"a message", message, question + `}`, script, []string{asked, "json 200"}, []string{asked, "json 200"}},
		{"the stream of a message", message, question + `,"stream":true}`, script, events(8, "end"), events(5, "event", "end")},
		{"a stream that is cut", chat, hello + `,"stream":true}`, cut, events(3), events(3)},
	} {
		t.Run(tt.about, func(t *testing.T) {
			backend := start(t, provider.NewMock(tt.backend))
			w := &watcher{map[int][]string{}, make(chan []string, 2)}
			b := doortest.Broker(t, provider.NewOpenAI(provider.Config{BaseURL: backend + "/v1"}))
			front := "http://" + doortest.Serve(t, openai.New(b, observe.NewPublisher(w, nil), web.Access{}))
			postTo(t, front+tt.path, tt.body)
			want := []string{fmt.Sprint(tt.client)}
			got := []string{fmt.Sprint(<-w.ended)}
			if tt.provider != nil {
				want = append(want, fmt.Sprint(tt.provider))
				got = append(got, fmt.Sprint(<-w.ended))
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("published:\n\t%s\nwant:\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
			}
		})
	}
}
