package share

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/hub"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/llm"
)

// The protocol between broker and worker. A broker offers a call, without its prompt, to
// the queue group of a pattern of models. A worker with a free slot claims it, and names a
// subject. The broker then sends the call to that subject, and so to that worker alone. The
// worker sends parts to the broker's inbox, at most [window] ahead of what the broker has
// confirmed.
const (
	kindHeader = "Wirectl-Kind"
	// numberHeader is the number of a message of a call; each side counts from 1.
	numberHeader = "Wirectl-Number"

	// from the broker
	kindOffer  = "offer"
	kindBegin  = "begin"  // a piece of the call; more follow
	kindRun    = "run"    // the last piece
	kindAck    = "ack"    // has the number of the last message that was used
	kindCancel = "cancel" // of a call, or of a claim that is not used
	kindPing   = "ping"   // has the number, too; answered if it has a reply subject

	// from the worker
	kindClaim = "claim"
	kindBusy  = "busy"
	kindBegun = "begun"
	kindPart  = "part"
	kindPiece = "piece" // of the end; more follow
	kindEnd   = "end"
	kindPong  = "pong"
)

const (
	// window is how many messages of a worker may be unconfirmed.
	window = 64
	// pieceSize bounds the part of a call or an answer in a message.
	pieceSize = 256 << 10
	// claimTime is how long a worker keeps a claim that its broker does not use.
	claimTime = 5 * time.Second
	// offerTime is how long a broker waits for an answer to an offer.
	offerTime = time.Second
	// pingTime is how often a broker pings a worker, and deadTime after what silence each
	// takes the other for dead.
	pingTime = 500 * time.Millisecond
	deadTime = 10 * time.Second
	// stopTime is how long a broker waits for the confirmation of a cancel.
	stopTime = 250 * time.Millisecond
	// hereTime is how often a worker reports its presence, and awayTime how long it may be
	// silent.
	hereTime = time.Second
	awayTime = 4 * hereTime
)

// subject returns a subject of the organisation.
func subject(conn *hub.Conn, words ...string) string {
	return hub.Work + conn.Org() + "." + strings.Join(words, ".")
}

// A presence is how a worker describes itself. One without models is about to end.
type presence struct {
	ID     string   `json:"id"`
	Models []string `json:"models"`
}

// A claim is a worker's answer to an offer.
type claim struct {
	ID      string `json:"id"`
	Subject string `json:"subject"` // of the call
}

// An ask is the kind of a call.
type ask string

const (
	complete ask = "complete"
	count    ask = "count"
	embed    ask = "embed"
)

// A request is a call as it is sent.
type request struct {
	Ask         ask         `json:"ask"`
	From        string      `json:"from"` // the broker
	Model       string      `json:"model"`
	Prompt      []byte      `json:"prompt,omitempty"`
	Body        []byte      `json:"body,omitempty"`
	API         llm.API     `json:"api,omitempty"`
	Before      []llm.Turn  `json:"before,omitempty"`
	Header      http.Header `json:"header,omitempty"`
	Choices     int         `json:"choices,omitempty"`
	Stream      bool        `json:"stream,omitempty"`
	Traceparent string      `json:"traceparent,omitempty"`
}

// A part is a part of a streamed completion, with the number of its choices.
type part struct {
	provider.Part
	Choices int `json:",omitempty"`
}

// An end is how a call ended at a worker.
type end struct {
	Completion provider.Completion
	Failure    *failure `json:",omitempty"`
	// Stopped is how long the call went on after the cancel came.
	Stopped time.Duration `json:",omitempty"`
	// Hop is the last hop of the call, which the cancel has stopped.
	Hop string `json:",omitempty"`
}

// A failure is an error as it is sent.
type failure struct {
	Cause      provider.Cause
	Status     int           `json:",omitempty"`
	Code       string        `json:",omitempty"`
	Type       string        `json:",omitempty"`
	Param      string        `json:",omitempty"`
	RetryAfter time.Duration `json:",omitempty"`
	Hints      http.Header   `json:",omitempty"`
	Began      bool          `json:",omitempty"`
	Unsent     bool          `json:",omitempty"`
	Paid       bool          `json:",omitempty"`
	Shown      string        `json:",omitempty"`
	Text       string
}

func newFailure(err error) *failure {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*provider.Error](err); ok {
		f := &failure{e.Cause, e.Status, e.Code, e.Type, e.Param, e.RetryAfter, e.Hints, e.Began, e.Unsent, e.Paid, e.Shown, ""}
		if e.Err != nil {
			f.Text = e.Err.Error()
		}
		return f
	}
	f := &failure{Cause: provider.Internal, Text: broker.Message(err)}
	if _, unknown := errors.AsType[*broker.UnknownModelError](err); unknown {
		f.Cause, f.Code = provider.Refused, "model_not_found"
	}
	if _, spent := errors.AsType[*broker.BudgetError](err); spent {
		f.Cause = provider.RateLimited
	}
	return f
}

// error returns the failure as an error, with the name of the worker unless that is "".
func (f *failure) error(worker string) error {
	if f == nil {
		return nil
	}
	text := f.Text
	if worker != "" && f.Cause != provider.Unsupported {
		text = "worker " + worker + ": " + text
	}
	return &provider.Error{
		Cause: f.Cause, Status: f.Status, Code: f.Code, Type: f.Type, Param: f.Param, RetryAfter: f.RetryAfter, Hints: f.Hints,
		Began: f.Began, Unsent: f.Unsent, Paid: f.Paid, Shown: f.Shown, Err: errors.New(text),
	}
}

// message returns a message of a kind; body may be nil.
func message(to, reply, kind string, body []byte) *nats.Msg {
	return &nats.Msg{Subject: to, Reply: reply, Data: body, Header: nats.Header{kindHeader: {kind}}}
}

// numbered gives a message its number.
func numbered(m *nats.Msg, n int) *nats.Msg {
	m.Header.Set(numberHeader, strconv.Itoa(n))
	return m
}

func numberOf(m *nats.Msg) int {
	n, _ := strconv.Atoi(m.Header.Get(numberHeader)) // 0 is no number
	return n
}

func kindOf(m *nats.Msg) string { return m.Header.Get(kindHeader) }

// nobody reports whether m is the server's answer that nobody has received a message.
func nobody(m *nats.Msg) bool { return len(m.Data) == 0 && m.Header.Get("Status") == "503" }

func marshal(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // all values have a JSON form
	}
	return text
}

// send sends a body in pieces. All but the last are of the kind more.
func send(body []byte, more, last string, one func(n int, kind string, piece []byte) error) error {
	n := 1
	for ; len(body) > pieceSize; n++ {
		if err := one(n, more, body[:pieceSize]); err != nil {
			return err
		}
		body = body[pieceSize:]
	}
	return one(n, last, body)
}

// Messages are checked as far as other packages rely on it.

// maxBody bounds a call, and an answer, in bytes.
const maxBody = 128 << 20

// maxWorkers bounds how many workers a broker remembers.
const maxWorkers = 10_000

// is reports whether text is nil, or JSON of one of the kinds; no kinds are any.
func is(text []byte, kinds ...jsonscan.Kind) bool {
	return text == nil || jsonscan.Valid(text) == nil && (len(kinds) == 0 || slices.Contains(kinds, jsonscan.KindOf(text)))
}

// checked reads a message, and checks it.
func checked(text []byte, v interface{ check() error }) error {
	if err := json.Unmarshal(text, v); err != nil {
		return err
	}
	return v.check()
}

func (r *request) check() error {
	switch {
	case r.Prompt == nil && r.Body == nil:
		return errors.New("it has no prompt")
	case !is(r.Prompt), !is(r.Body, jsonscan.Object):
		return errors.New("its prompt is not JSON")
	case r.API > llm.Contents:
		return fmt.Errorf("the API %d is unknown", r.API)
	}
	return nil
}

func (p *part) check() error {
	if !is(p.Text, jsonscan.String) || !is(p.Thought, jsonscan.String) || !is(p.Event) || p.Choices < 0 {
		return errors.New("a part is not JSON")
	}
	return nil
}

func (e *end) check() error {
	c := &e.Completion
	if !is(c.Text, jsonscan.String) || !is(c.Thoughts, jsonscan.String) || !is(c.Body) || c.Choices < 0 {
		return errors.New("the answer is not JSON")
	}
	for i := range c.ToolCalls {
		if c.ToolCalls[i].Arguments == nil || !is(c.ToolCalls[i].Arguments) {
			return errors.New("the arguments of a tool call are not JSON")
		}
	}
	if u := c.Usage; min(u.Input, u.Output, u.Cached, u.Thinking) < 0 || max(u.Input, u.Output, u.Cached, u.Thinking) > math.MaxInt32 {
		return errors.New("the usage is out of range")
	}
	if f := e.Failure; f != nil {
		if f.Status < 400 || f.Status > 599 {
			f.Status = 0
		}
		f.RetryAfter = max(0, f.RetryAfter)
	} else {
		c.Seal()
	}
	return nil
}
