package hub

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/query"
)

// Find begins the subjects of searches; the organisation follows. The answer is several
// messages, each with a list of sessions, newest first. The last one has [HeaderBehind].
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
	// After is the session after which a search goes on; nil begins one.
	After *Cursor `json:"after,omitempty"`
	// Steps says that the hub may answer with a part of the sessions and a [Cursor]. Words
	// inside frames are searched by reading the sessions, which can take minutes.
	Steps bool `json:"steps,omitempty"`
}

// isPlain reports whether the query can be answered without the hub's summaries.
func (q *Query) isPlain() bool { return q.Where == "" && q.Since.IsZero() && q.Until.IsZero() }

// A Cursor is the place of a session in the order of [NewestFirst].
type Cursor struct {
	Started time.Time `json:"started"`
	Key     string    `json:"key"`
}

// Cursor returns the place of the session.
func (i *Info) Cursor() *Cursor { return &Cursor{i.Started, i.Key()} }

// Compare orders cursors, the newest first.
func (c *Cursor) Compare(b *Cursor) int {
	return cmp.Or(b.Started.Compare(c.Started), strings.Compare(idOf(c.Key), idOf(b.Key)), strings.Compare(c.Key, b.Key))
}

func idOf(key string) string { return key[strings.LastIndexByte(key, '.')+1:] }

// NewestFirst orders sessions.
func NewestFirst(a, b Info) int { return a.Cursor().Compare(b.Cursor()) }

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

// Headers of the messages of an answer.
const (
	HeaderError    = "Wirectl-Error"
	HeaderBehind   = "Wirectl-Behind"   // how many messages the summaries lack
	HeaderProgress = "Wirectl-Progress" // such as "20/314": sessions searched so far, and all
	HeaderNext     = "Wirectl-Next"     // the cursor with which the search goes on; JSON
	HeaderPartly   = "Wirectl-Partly"   // HOST/ID of sessions that are too large to be read to their ends
)

// findTime is how long a message of an answer may take.
const findTime = 30 * time.Second

// A Found is the answer to a [Query].
type Found struct {
	Sessions []Info // newest first
	// Behind is how many messages the summaries of the hub lack.
	Behind int64
	// Partly are sessions without a match that were not read to their ends, as HOST/ID.
	Partly []string
	// Searched says how many of All sessions were searched.
	Searched, All int64
}

// Search asks the hub for sessions. It calls progress, unless that is nil, while the search
// goes on. If it returns an error, it also returns what was found before.
func (c *Conn) Search(ctx context.Context, q Query, progress func(*Found)) (f Found, err error) {
	for q.Steps = true; ; {
		next, err := c.searchStep(ctx, &q, &f)
		if err != nil || next == nil {
			return f, err
		}
		if q.After = next; progress != nil {
			progress(&f)
		}
	}
}

// searchStep adds the answer to a request to f. It returns where to go on; nil at the end.
func (c *Conn) searchStep(ctx context.Context, q *Query, f *Found) (next *Cursor, err error) {
	subject := Find + c.address.Org
	sub, unsubscribe, err := c.request(subject, q)
	if err != nil {
		return nil, err
	}
	defer unsubscribe()
	for {
		m, err := c.nextAnswer(ctx, sub, subject)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.Is(err, context.DeadlineExceeded):
			return nil, fmt.Errorf("no answer from the hub to a search within %v", findTime)
		case err != nil:
			return nil, err
		case m.Header.Get(HeaderError) != "":
			return nil, fmt.Errorf("the hub: %s", m.Header.Get(HeaderError))
		}
		if text := m.Header.Get(HeaderProgress); text != "" {
			if _, err := fmt.Sscanf(text, "%d/%d", &f.Searched, &f.All); err != nil {
				return nil, fmt.Errorf("the answer of the hub: %w", err)
			}
		}
		if text := m.Header.Get(HeaderBehind); text != "" {
			if f.Behind, err = strconv.ParseInt(text, 10, 64); err != nil {
				return nil, err
			}
			f.Partly = append(f.Partly, strings.Fields(m.Header.Get(HeaderPartly))...)
			if text := m.Header.Get(HeaderNext); text != "" {
				err = json.Unmarshal([]byte(text), &next)
			}
			return next, err
		}
		var some []Info
		if err := json.Unmarshal(m.Data, &some); err != nil {
			return nil, fmt.Errorf("the answer of the hub: %w", err)
		}
		f.Sessions = append(f.Sessions, some...)
	}
}

func (c *Conn) nextAnswer(ctx context.Context, sub *nats.Subscription, subject string) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, findTime)
	defer cancel()
	return c.answer(ctx, sub, subject)
}

// find is Search if a hub answers searches. Without one, it answers plain queries.
func (c *Conn) find(ctx context.Context, q Query, progress func(*Found)) (Found, error) {
	f, err := c.Search(ctx, q, progress)
	if !errors.Is(err, nats.ErrNoResponders) {
		return f, err
	}
	if !q.isPlain() {
		return f, fmt.Errorf("no hub at %s has an index (%w): start one there with wirectl hub --nats", c.address.Servers, err)
	}
	list, err := c.Sessions(ctx)
	return Found{Sessions: Select(list, q.Words)}, err
}
