// Package hub collects the sessions of many machines. A [Sender] reads a tap like a viewer,
// and publishes what it reads to NATS; a [Reader] reads a session as a capture. NATS stores
// and replicates the sessions. The server and the rights are in hub/server.
package hub

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/frame"
)

// Names in NATS. A segment of a session is a message of [Stream] with the subject
// "wirectl.s.ORG.HOST.KIND.ID". Its key in the buckets is "ORG.HOST.KIND.ID".
const (
	Stream = "WIRECTL"
	// Segments begins the subjects of the stream.
	Segments = "wirectl.s."
	// Presence is the bucket of live sessions. An entry expires if it is not renewed within
	// PresenceTime.
	Presence     = "wirectl_presence"
	PresenceTime = 3 * beat
	// Summaries is the bucket with the [Info] of each session.
	Summaries = "wirectl_sessions"
	// Facts is the bucket of what the hub has found in the frames of each session.
	Facts = "wirectl_facts"
	// Shared is the bucket of what brokers share; see package share.
	Shared = "wirectl_share"
	// Work begins the subjects between brokers and workers.
	Work = "wirectl.w."
	// Inbox begins the subjects of answers to a user with a token. The user's public key
	// follows, so that nobody else can subscribe to them.
	Inbox = "_I."
)

// Bucket returns the stream of a bucket, and the beginning of the subjects of its keys.
func Bucket(name string) (stream, subjects string) { return "KV_" + name, "$KV." + name + "." }

// Headers of a segment.
const (
	headerNumber = "Wirectl-Number" // of the segment in its session, from 1
	headerFirst  = "Wirectl-First"  // number of the first segment, if the message has several
	headerFrames = "Wirectl-Frames" // frames of the session up to the end of the segment
	headerPiece  = "Wirectl-Piece"  // such as "2/5", if the segment is too large for one message
	headerEnd    = "Wirectl-End"    // set for the last segment
)

// Variable is the environment variable with the address of the hub.
const Variable = "WIRECTL_HUB"

// DefaultAddress is where readers look for a hub if no address is given.
const DefaultAddress = "nats://127.0.0.1:4222"

// DefaultOrg is the organisation of an address that names none.
const DefaultOrg = "main"

// An Address is the address of a hub, with credentials.
type Address struct {
	// Servers is one URL of NATS, or several, separated by commas.
	Servers string
	// Org is the organisation.
	Org string
	// Creds is a file of credentials, and CA a file of certificate authorities; "" is none.
	Creds, CA string

	host string // the name of the token, if there is one
}

// ParseAddress reads an address such as nats://HOST:4222/ORG?creds=FILE&ca=FILE. Servers of
// a cluster are separated by commas; the organisation and the files follow the last.
func ParseAddress(text string) (Address, error) {
	a := Address{Org: DefaultOrg}
	var servers []string
	for _, one := range strings.Split(text, ",") {
		u, err := url.Parse(one)
		switch {
		case err != nil || u.Host == "" || u.Scheme != "nats" && u.Scheme != "tls":
			return a, fmt.Errorf("invalid address of a hub %q: want nats://HOST:PORT or tls://HOST:PORT", redacted(one))
		case u.User != nil:
			return a, fmt.Errorf("the address of the hub %s has a password: name a file with ?creds=FILE", u.Host)
		}
		for key := range u.Query() {
			if key != "creds" && key != "ca" {
				return a, fmt.Errorf("the address of a hub takes creds=FILE and ca=FILE, not %q", key)
			}
		}
		a.Creds, a.CA = u.Query().Get("creds"), u.Query().Get("ca")
		a.Org = cmp.Or(strings.Trim(u.Path, "/"), DefaultOrg)
		servers = append(servers, u.Scheme+"://"+u.Host)
	}
	a.Servers = strings.Join(servers, ",")
	if a.Org != Word(a.Org) {
		return a, fmt.Errorf("invalid name of an organisation %q: want letters, digits, - and _", a.Org)
	}
	return a, nil
}

// redacted returns an invalid address without what may be a password.
func redacted(text string) string {
	if at := strings.LastIndexByte(text, '@'); at >= 0 {
		return "…" + text[at:]
	}
	return text
}

// Word turns any text into a word of a subject.
func Word(text string) string {
	return cmp.Or(strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		}
		return '-'
	}, text[:min(len(text), 64)]), "-")
}

// host returns the name of this machine in subjects.
func host() string {
	name, _ := os.Hostname() // "-" will do
	return Word(name)
}

// State returns the folder of the user's state, for spools and hubs.
func State(getenv func(string) string) (string, error) {
	folder, err := history.Open(getenv)
	if err != nil {
		return "", err
	}
	return filepath.Dir(folder.Dir), nil
}

// A Policy says what happens to frames if the network is too slow.
type Policy string

// The policies.
const (
	// Lossy drops and counts them.
	Lossy Policy = "lossy"
	// Lossless keeps them on disk until the hub has them.
	Lossless Policy = "lossless"
)

// Policies lists every policy, the default first.
var Policies = []Policy{Lossy, Lossless}

// An Info describes a session. Its counts are those of the last beat.
type Info struct {
	ID  string `json:"id"`
	Org string `json:"org"`
	// Host is the name of the machine, or of the token with which it sends.
	Host string `json:"host"`
	// Kind is the command that sends it: relay, serve.
	Kind string `json:"kind"`
	// Name is the name of its tap.
	Name       string        `json:"name"`
	Started    time.Time     `json:"started"`
	Ended      time.Time     `json:"ended,omitzero"`
	Protocol   string        `json:"protocol,omitempty"`
	Framing    string        `json:"framing,omitempty"`
	Controller string        `json:"controller,omitempty"`
	Unit       string        `json:"unit,omitempty"`
	Level      history.Level `json:"level"`
	Policy     Policy        `json:"policy"`
	Frames     int64         `json:"frames"`
	Bytes      int64         `json:"bytes"` // of frames
	Lost       int64         `json:"lost,omitempty"`
	// Cut says that the sender was killed.
	Cut bool `json:"cut,omitempty"`
	// Calls, Failures and Findings are counted by the hub; nil if it does not answer searches.
	Calls    *int64 `json:"calls,omitempty"`
	Failures *int64 `json:"failures,omitempty"`
	Findings *int64 `json:"findings,omitempty"`
	// Live says that the session is being sent.
	Live bool `json:"live,omitempty"`
}

// Key returns the key of the session in the buckets.
func (i *Info) Key() string { return strings.Join([]string{i.Org, i.Host, i.Kind, i.ID}, ".") }

// IsKey reports whether a key consists of four words. In others, a part with a dot could name
// the host of another sender, and a wildcard means several sessions.
func IsKey(key string) bool {
	words := strings.Split(key, ".")
	return len(words) == 4 && !slices.ContainsFunc(words, func(word string) bool { return word != Word(word) })
}

// ParseInfo reads a message of [Summaries]. It returns false if the message is not about the
// session of its key. No time is later than the hub stored it, whatever the sender's clock says.
func ParseInfo(m *nats.Msg) (i Info, ok bool) {
	_, subjects := Bucket(Summaries)
	if err := json.Unmarshal(m.Data, &i); err != nil || !IsKey(i.Key()) || m.Header.Get("Nats-Subject") != subjects+i.Key() {
		return i, false
	}
	if stored, err := time.Parse(time.RFC3339Nano, m.Header.Get("Nats-Time-Stamp")); err == nil {
		for _, t := range []*time.Time{&i.Started, &i.Ended} {
			if t.After(stored) {
				*t = stored
			}
		}
	}
	return i, true
}

// SharedBytes bounds what brokers share.
const SharedBytes = 64 << 20

// SharedStream returns the bucket of what brokers share. Its entries do not expire: the
// state of a budget must stay until its period ends.
func SharedStream(replicas int) jetstream.StreamConfig {
	return BucketStream(Shared, "What brokers share", replicas, 0, SharedBytes)
}

// BucketStream returns the stream of a bucket whose entries expire at an age; 0 is never.
func BucketStream(name, about string, replicas int, age time.Duration, maxBytes int64) jetstream.StreamConfig {
	stream, subjects := Bucket(name)
	return jetstream.StreamConfig{
		Name: stream, Description: about, Subjects: []string{subjects + ">"},
		Storage: jetstream.FileStorage, Replicas: replicas, AllowDirect: true,
		Discard: jetstream.DiscardNew, MaxMsgsPerSubject: 1, MaxAge: age, MaxBytes: maxBytes,
	}
}

// Commands begins the subjects on which senders get commands; the key of the session
// follows.
const Commands = "wirectl.c."

// An answer is the answer of a sender to a command.
type answer struct {
	Notes []tap.Note `json:"notes,omitempty"`
	Error string     `json:"error,omitempty"`
}

// errNoCommands is the answer of a relay without --hub-control.
var errNoCommands = errors.New("this session is read-only: start its relay with --hub-control to send it commands")

var errStarting = errors.New("the relay is still starting: try again")

// Obey makes the sender pass commands of viewers to c.
func (t *Sender) Obey(c tap.Controller) { t.controller.Store(&c) }

// listen answers commands until the end, one at a time.
func (t *Sender) listen() {
	defer func() { _ = t.commands.Unsubscribe() }() // it fails if the connection is closed
	for {
		m, err := t.commands.NextMsgWithContext(t.ctx)
		if err != nil {
			return
		}
		text, err := json.Marshal(t.obey(m.Data))
		if most := t.conn.MaxPayload(); err == nil && int64(len(text)) > most {
			text, err = json.Marshal(answer{Error: fmt.Sprintf("the answer is larger than the %d bytes that the hub takes", most)})
		}
		if err == nil {
			_ = m.Respond(text) // it fails if the viewer has gone
		}
	}
}

func (t *Sender) obey(line []byte) (a answer) {
	c, err := tap.ParseCommand(line)
	switch controller := t.controller.Load(); {
	case err != nil:
	case controller != nil:
		a.Notes, err = (*controller).Control(t.ctx, c)
	case t.o.Control:
		err = errStarting
	default:
		err = errNoCommands
	}
	for i := range a.Notes {
		if err == nil {
			err = t.redactNote(&a.Notes[i])
		}
	}
	if err != nil {
		a = answer{Error: err.Error()}
	}
	return a
}

// redactNote redacts the frame in a note like the frames of the session.
func (t *Sender) redactNote(n *tap.Note) error {
	payload := []byte(n.Payload)
	if payload == nil {
		payload = n.Data
	}
	if len(payload) == 0 {
		return nil
	}
	var kept keeper
	dir, _ := frame.ParseDir(n.Dir)
	x := t.o.redaction()
	s := capture.Session{Protocol: t.info.Protocol}
	r := capture.Record{Kind: capture.Frame, Protocol: t.info.Protocol, Frame: frame.Frame{Raw: payload, End: len(payload), Dir: dir, Conn: n.Conn}}
	if err := capture.Redact(&kept, &s, x).Write(&r); err != nil {
		return err
	}
	if n.Payload, n.Data = nil, kept.payload; json.Valid(kept.payload) {
		n.Payload, n.Data = kept.payload, nil
	}
	return nil
}

// A keeper keeps the payload of a record.
type keeper struct{ payload []byte }

func (k *keeper) Write(r *capture.Record) error {
	if r.Kind == capture.Frame {
		k.payload = append(k.payload, r.Payload()...)
	}
	return nil
}

// commandTime is how long a sender may take to answer a command.
const commandTime = 5 * time.Second

// Refuses returns why the session takes no commands; "" if it may take some.
func (r *Reader) Refuses() string {
	switch why := r.refused.Load(); {
	case !r.session.Live && !r.session.Ended.IsZero(): // without an end, its sender may come back, or has just begun
		return "this session has ended"
	case why != nil:
		return *why
	}
	return ""
}

// Do gives a command to the sender of the session, and waits for the answer.
func (r *Reader) Do(ctx context.Context, c tap.Command) ([]tap.Note, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	nc := r.conn.nats
	sub, unsubscribe, err := r.conn.request(Commands+r.session.Key(), c)
	if err != nil {
		return nil, err
	}
	defer unsubscribe()
	if err := nc.FlushWithContext(ctx); err != nil {
		return nil, err
	}
	if errors.Is(nc.LastError(), nats.ErrPermissionViolation) { // which the server tells before it answers the flush
		return nil, r.refuse("the token does not allow control: make one with wirectl hub token --control")
	}
	m, err := sub.NextMsgWithContext(ctx)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return nil, errors.New("nothing sends this session now")
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("%s: no answer from the relay within %v", c.Do, commandTime)
	case err != nil:
		return nil, err
	}
	var a answer
	if err := json.Unmarshal(m.Data, &a); err != nil {
		return nil, fmt.Errorf("the answer of the relay: %w", err)
	}
	switch a.Error {
	case "":
		return a.Notes, nil
	case errNoCommands.Error():
		return nil, r.refuse(a.Error)
	}
	return nil, errors.New(a.Error)
}

// refuse remembers why no command is obeyed.
func (r *Reader) refuse(why string) error {
	r.refused.Store(&why)
	return errors.New(why)
}
