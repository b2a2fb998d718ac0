package hub

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/wirectl/wirectl/internal/wait"
)

// A Conn is a connection to a hub, from which it reads.
type Conn struct {
	address Address
	nats    *nats.Conn
}

// dialTime is how long a hub may take to answer.
const dialTime = 5 * time.Second

// Dial connects to a hub. The options are for tests and for the hub's own process.
func Dial(a Address, more ...nats.Option) (*Conn, error) {
	options, err := a.options()
	if err != nil {
		return nil, err
	}
	nc, err := nats.Connect(a.Servers, append(append(options, nats.Timeout(dialTime)), more...)...)
	if err != nil {
		return nil, fmt.Errorf("the hub at %s: %w", a.Servers, advice(err))
	}
	return &Conn{a, nc}, nil
}

// Close closes the connection.
func (c *Conn) Close() { c.nats.Close() }

// Org returns the organisation of the address. Host returns the name that this process has
// at the hub: that of its token, or else that of this machine.
func (c *Conn) Org() string  { return c.address.Org }
func (c *Conn) Host() string { return cmp.Or(c.address.host, host()) }

// NATS returns the connection to NATS.
func (c *Conn) NATS() *nats.Conn { return c.nats }

// advice adds to an error what to do about it, if that is known.
func advice(err error) error {
	switch {
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired):
		return fmt.Errorf("%w: name a token file in the address with ?creds=FILE; wirectl hub token makes one", err)
	case strings.Contains(err.Error(), "certificate signed by unknown authority"):
		return fmt.Errorf("%w: name the file of its CA in the address with ?ca=FILE", err)
	case errors.Is(err, nats.ErrNoServers):
		return fmt.Errorf("%w: nothing listens there; wirectl hub starts one", err)
	}
	return err
}

// denied reports whether the last error of a connection is that it may not publish to a subject.
func denied(nc *nats.Conn, subject string) bool {
	err := nc.LastError()
	return errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), `"`+subject+`"`)
}

// tokenLine is a line in the file of a token that sends or works: the hub knows its host
// by the name of the token.
var tokenLine = regexp.MustCompile(`(?m)^# wirectl hub token ([\w-]+) --(?:publish|broker|worker)$`)

// options returns the options of a connection to the address.
func (a *Address) options() ([]nats.Option, error) {
	options := []nats.Option{nats.Name("wirectl"), nats.NoEcho(), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})}
	if a.CA != "" {
		options = append(options, nats.RootCAs(a.CA))
	}
	if a.Creds == "" {
		return options, nil
	}
	text, err := os.ReadFile(a.Creds)
	if err != nil {
		return nil, fmt.Errorf("the credentials for the hub: %w", err)
	}
	defer clear(text)
	if bytes.Contains(text, []byte("BEGIN NATS USER JWT")) {
		return append(options, nats.UserCredentials(a.Creds)), nil
	}
	if m := tokenLine.FindSubmatch(text); m != nil {
		a.host = string(m[1])
	}
	pair, err := nkeys.ParseDecoratedNKey(text)
	if err != nil {
		return nil, fmt.Errorf("%s has no NATS credentials: want the output of wirectl hub token, or a .creds file", a.Creds)
	}
	public, err := pair.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", a.Creds, err)
	}
	return append(options, nats.Nkey(public, pair.Sign), nats.CustomInboxPrefix(Inbox+public)), nil
}

// A wanted is a request for the messages of a stream whose subject matches Next, from the
// number Seq on.
type wanted struct {
	Seq      uint64 `json:"seq"`
	Next     string `json:"next_by_subj"`
	Batch    int    `json:"batch"`
	MaxBytes int    `json:"max_bytes"`
}

const (
	queryTime  = 10 * time.Second
	deniedTime = 500 * time.Millisecond // by which a server has refused a request
	queryBatch = 256
	queryBytes = 4 << 20
)

// The status of an answer that is not a message.
const (
	statusEnd  = "204"
	statusNone = "404"
)

var errNoAnswer = errors.New("no answer from the hub")

// settleTime is how long it may take to connect again, and a server to know its streams after
// its start.
const settleTime = 3 * time.Second

// Messages reads messages of a stream, by a request that can do nothing else. It returns
// the number from which to read on, and false if there were no messages.
func (c *Conn) Messages(ctx context.Context, stream, subject string, from uint64, each func(*nats.Msg) error) (next uint64, found bool, err error) {
	for began := time.Now(); ; {
		var some bool
		from, some, err = c.getOnce(ctx, stream, subject, from, each)
		found = found || some
		if !errors.Is(err, nats.ErrNoResponders) && !errors.Is(err, nats.ErrDisconnected) || time.Since(began) > settleTime {
			return from, found, err
		}
		if err := wait.For(ctx, retryFirst); err != nil {
			return from, found, err
		}
	}
}

func (c *Conn) getOnce(ctx context.Context, stream, subject string, from uint64, each func(*nats.Msg) error) (next uint64, found bool, err error) {
	if c.nats.IsReconnecting() {
		return from, false, fmt.Errorf("%w: %w", errNoAnswer, nats.ErrDisconnected)
	}
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	get := "$JS.API.DIRECT.GET." + stream
	sub, unsubscribe, err := c.request(get, wanted{from, subject, queryBatch, queryBytes})
	if err != nil {
		return from, false, err
	}
	defer unsubscribe()
	for {
		m, err := c.answer(ctx, sub, get)
		switch {
		case errors.Is(err, nats.ErrNoResponders):
			return from, found, fmt.Errorf("the server at %s has no hub (%w): start one there with wirectl hub --nats", c.address.Servers, err)
		case errors.Is(err, context.DeadlineExceeded):
			return from, found, fmt.Errorf("%w within %v", errNoAnswer, queryTime)
		case err != nil:
			return from, found, err
		}
		switch status := m.Header.Get("Status"); status {
		case "":
			seq, err := strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
			if err == nil {
				err = each(m)
			}
			if err != nil {
				return from, found, err
			}
			from, found = seq+1, true
		case statusEnd, statusNone:
			return from, found, nil
		default:
			return from, found, fmt.Errorf("the hub answers %s %s", status, m.Header.Get("Description"))
		}
	}
}

// answer waits for the next answer to a request to a subject.
func (c *Conn) answer(ctx context.Context, sub *nats.Subscription, subject string) (*nats.Msg, error) {
	for {
		early, cancel := context.WithTimeout(ctx, deniedTime)
		m, err := sub.NextMsgWithContext(early)
		cancel()
		switch {
		case !errors.Is(err, context.DeadlineExceeded), ctx.Err() != nil:
			return m, err
		case denied(c.nats, subject):
			return nil, errors.New("the token does not allow viewing: make one with wirectl hub token --view")
		case c.nats.IsReconnecting(): // the answer was for the old connection
			return nil, fmt.Errorf("%w: %w", errNoAnswer, nats.ErrDisconnected)
		}
	}
}

// request publishes a request, and subscribes to its answers.
func (c *Conn) request(subject string, body any) (sub *nats.Subscription, unsubscribe func(), err error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, nil, err
	}
	if sub, err = c.nats.SubscribeSync(c.nats.NewInbox()); err != nil {
		return nil, nil, err
	}
	unsubscribe = func() { _ = sub.Unsubscribe() } // it fails if the connection is closed
	if err := c.nats.PublishRequest(subject, sub.Subject, text); err != nil {
		unsubscribe()
		return nil, nil, err
	}
	return sub, unsubscribe, nil
}

// Entries calls each for the entries of a bucket whose keys match a pattern.
func (c *Conn) Entries(ctx context.Context, bucket, pattern string, each func(key string, m *nats.Msg) error) error {
	stream, subjects := Bucket(bucket)
	for from, found := uint64(1), true; found; {
		var err error
		from, found, err = c.Messages(ctx, stream, subjects+pattern, from, func(m *nats.Msg) error {
			if m.Header.Get("KV-Operation") != "" { // the entry was deleted
				return nil
			}
			return each(strings.TrimPrefix(m.Header.Get("Nats-Subject"), subjects), m)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
