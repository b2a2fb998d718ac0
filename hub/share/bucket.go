package share

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/wirectl/wirectl/hub"
	"github.com/wirectl/wirectl/internal/wait"
)

// A bucket has the entries that brokers share. It needs few rights, because it uses no
// consumer, which could have messages delivered to any subject.
type bucket struct{ *hub.Conn }

// encode turns any text into a word of a subject. Different texts become different words.
func encode(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// An entry is a value, and the number by which it can be replaced; 0 if there is no entry.
type entry struct {
	value  []byte
	number uint64
	stored time.Time
}

// get returns an entry. If there is none, the value is nil.
func (b bucket) get(ctx context.Context, key string) (e entry, found bool, err error) {
	stream, subjects := hub.Bucket(hub.Shared)
	body, err := json.Marshal(map[string]string{"last_by_subj": subjects + key})
	if err != nil {
		return e, false, err
	}
	m, err := b.NATS().RequestWithContext(ctx, "$JS.API.DIRECT.GET."+stream, body)
	if err != nil {
		return e, false, err
	}
	switch status := m.Header.Get("Status"); status {
	case "":
	case "404":
		return e, false, nil
	default:
		return e, false, fmt.Errorf("the hub answers %s %s", status, m.Header.Get("Description"))
	}
	e.value = m.Data
	if e.number, err = strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64); err != nil {
		return e, false, fmt.Errorf("the hub's answer has no number: %w", err)
	}
	e.stored, err = time.Parse(time.RFC3339Nano, m.Header.Get("Nats-Time-Stamp"))
	return e, err == nil, err
}

// errRaced says that another broker has replaced an entry first.
var errRaced = errors.New("another broker changed it first")

// codeRaced is the server's error code for a number that is not the last any more.
const codeRaced = 10071

// put replaces the entry that has the number; if number is nil, it replaces any entry.
func (b bucket) put(ctx context.Context, key string, value []byte, number *uint64) error {
	_, subjects := hub.Bucket(hub.Shared)
	m := &nats.Msg{Subject: subjects + key, Data: value, Header: nats.Header{}}
	if number != nil {
		m.Header.Set("Nats-Expected-Last-Subject-Sequence", strconv.FormatUint(*number, 10))
	}
	answer, err := b.NATS().RequestMsgWithContext(ctx, m)
	if err != nil {
		return err
	}
	var ack struct {
		Error *struct {
			Code        int    `json:"err_code"`
			Description string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(answer.Data, &ack); err != nil {
		return fmt.Errorf("the hub's receipt: %w", err)
	}
	switch {
	case ack.Error == nil:
		return nil
	case ack.Error.Code == codeRaced:
		return errRaced
	}
	return fmt.Errorf("the hub stores nothing: %s", ack.Error.Description)
}

// change replaces the entry of a key by what f returns for it, and tries again while other
// brokers are faster. If f returns an error, nothing changes.
func (g *Group) change(ctx context.Context, key string, f func(old []byte) ([]byte, error)) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	b := bucket{g.conn}
	for {
		old, _, err := b.get(ctx, key)
		if err != nil {
			return err
		}
		value, err := f(old.value)
		if err != nil {
			return err
		}
		if err := b.put(ctx, key, value, &old.number); !errors.Is(err, errRaced) {
			return err
		}
		_ = wait.For(ctx, rand.N(2*time.Millisecond))
	}
}
