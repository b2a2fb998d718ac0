package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"strconv"
	"sync/atomic"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/transport"
)

// An RLM is a client of a broker. It opens a connection for each request, as rlm does.
type RLM struct {
	endpoint transport.Endpoint
	watch    *Watch
	last     atomic.Int64
}

// NewRLM returns a client of the broker at an endpoint.
func NewRLM(e transport.Endpoint, w *Watch) *RLM { return &RLM{endpoint: e, watch: w} }

// An RLMRequest has one or several prompts, each JSON. Several are sent as a batch, and
// with Batch also a single one.
type RLMRequest struct {
	Model   string
	Prompts []json.RawMessage
	Batch   bool
}

// ReadPrompts reads prompts: a JSON array, or one per line. It returns nil if there are none.
func ReadPrompts(data []byte) []json.RawMessage {
	var prompts []json.RawMessage
	if json.Unmarshal(data, &prompts) == nil && prompts != nil {
		return prompts
	}
	for line := range bytes.Lines(data) {
		if line = bytes.TrimRight(line, "\r\n"); len(line) > 0 {
			quoted, _ := json.Marshal(string(line)) // never fails for a string
			prompts = append(prompts, quoted)
		}
	}
	return prompts
}

// Ask makes a request. Each result is a part: the text of the completion, or its error.
func (c *RLM) Ask(q RLMRequest) Call {
	return func(ctx context.Context, out func(Part)) (err error) {
		n := c.last.Add(1)
		nc, err := c.endpoint.Dial(ctx)
		if err != nil {
			return err
		}
		answer := make(chan *rlmResponse, 1)
		l := newLink(nc, int(n), frame.Len32, c.watch, func(payload []byte, _ *protocol.Message) error {
			m := &rlmResponse{}
			if err := json.Unmarshal(payload, m); err != nil {
				return &FaultError{err}
			}
			select {
			case answer <- m:
			default: // it was answered already, which the watch reports
			}
			return nil
		})
		l.start()
		defer func() { err = cmp.Or(err, l.close()) }()
		if err := l.send(ctx, q.payload("wirectl-"+strconv.FormatInt(n, 10))); err != nil {
			return err
		}
		m, err := await(ctx, answer, l.done, &l.err)
		if err != nil {
			return err
		}
		return q.read(m, out)
	}
}

func (q *RLMRequest) payload(id string) []byte {
	m := struct {
		ID      string            `json:"correlation_id"`
		Model   string            `json:"model,omitempty"`
		Prompt  json.RawMessage   `json:"prompt,omitempty"`
		Prompts []json.RawMessage `json:"prompts,omitempty"`
	}{ID: id, Model: q.Model}
	if len(q.Prompts) == 1 && !q.Batch {
		m.Prompt = q.Prompts[0]
	} else {
		m.Prompts = q.Prompts
	}
	return jsonscan.MustMarshal(m)
}

// An rlmResponse is a WireResponse.
type rlmResponse struct {
	Error   *string `json:"error"`
	Results []struct {
		Error      *string `json:"error"`
		Completion *struct {
			Response string          `json:"response"`
			Usage    json.RawMessage `json:"usage_summary"`
		} `json:"chat_completion"`
	} `json:"results"`
}

// read outputs the results and returns the first error among them.
func (q *RLMRequest) read(m *rlmResponse, out func(Part)) (err error) {
	if m.Error != nil {
		return &PeerError{Message: *m.Error}
	}
	if len(m.Results) != len(q.Prompts) {
		return faultf("%d results for %d prompts", len(m.Results), len(q.Prompts))
	}
	for i, r := range m.Results {
		switch {
		case r.Error != nil && len(m.Results) == 1:
			return &PeerError{Message: *r.Error}
		case r.Error != nil:
			out(Part{Text: "Error: " + *r.Error + "\n"})
			if err == nil {
				err = &PeerError{Code: "prompt " + strconv.Itoa(i+1), Message: *r.Error}
			}
		case r.Completion == nil:
			return faultf("result %d has neither an error nor a completion", i+1)
		default:
			out(Part{Text: r.Completion.Response + "\n"})
		}
	}
	return err
}
