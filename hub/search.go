package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/query"
)

// Find begins the subjects of searches; the organisation follows.
const Find = "wirectl.find."

// A Query says which sessions to find.
type Query struct {
	// Words are what the sessions have; see [Select].
	Words []string `json:"words,omitempty"`
	// Where is a condition on [Fields].
	Where string `json:"where,omitempty"`
	// Since and Until bound the time in which the sessions were active; zero is no bound.
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
}

// isPlain reports whether the query can be answered without an index.
func (q *Query) isPlain() bool { return q.Where == "" && q.Since.IsZero() && q.Until.IsZero() }

// Fields are the fields of conditions on sessions.
var Fields = query.Fields{
	Names: []string{
		"id", "host", "kind", "name", "controller", "unit", "level", "policy", "frames", "bytes", "lost", "calls", "failures", "findings",
		"protocol", "request", "tool", "model", "outcome", "finding", "text",
	},
	Values: map[string][]string{"protocol": all.Names(), "outcome": session.Outcomes(), "finding": findings()},
}

func findings() (names []string) {
	for _, rule := range session.Findings {
		names = append(names, rule.Name)
	}
	return names
}

// Headers of an answer of the index.
const (
	HeaderError  = "Wirectl-Error"
	HeaderBehind = "Wirectl-Behind" // how many messages are not in the index yet
)

// findTime is how long an answer of the index may take.
const findTime = 30 * time.Second

// Search asks the index of the hub for sessions. It returns them, newest first, and how many
// messages are not in the index yet.
func (c *Conn) Search(ctx context.Context, q Query) (list []Info, behind int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, findTime)
	defer cancel()
	subject := Find + c.address.Org
	sub, unsubscribe, err := c.request(subject, q)
	if err != nil {
		return nil, 0, err
	}
	defer unsubscribe()
	for {
		m, err := c.answer(ctx, sub, subject)
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return nil, 0, fmt.Errorf("no answer from the index of the hub within %v", findTime)
		case err != nil:
			return nil, 0, err
		case m.Header.Get(HeaderError) != "":
			return nil, 0, fmt.Errorf("the hub: %s", m.Header.Get(HeaderError))
		case m.Header.Get(HeaderBehind) != "":
			behind, err = strconv.ParseInt(m.Header.Get(HeaderBehind), 10, 64)
			return list, behind, err
		}
		var some []Info
		if err := json.Unmarshal(m.Data, &some); err != nil {
			return nil, 0, fmt.Errorf("the answer of the hub: %w", err)
		}
		list = append(list, some...)
	}
}

// find is Search if there is an index. Without one, it answers plain queries.
func (c *Conn) find(ctx context.Context, q Query) ([]Info, int64, error) {
	list, behind, err := c.Search(ctx, q)
	if !errors.Is(err, nats.ErrNoResponders) {
		return list, behind, err
	}
	if !q.isPlain() {
		return nil, 0, fmt.Errorf("no hub at %s has an index (%w): start one there with wirectl hub --nats", c.address.Servers, err)
	}
	list, err = c.Sessions(ctx)
	return Select(list, q.Words), 0, err
}
