// Package hub collects the sessions of many machines. A [Sender] reads a tap like a viewer,
// and publishes what it reads to NATS; a [Reader] reads a session as a capture. NATS stores
// and replicates the sessions. The server and the rights are in hub/server.
package hub

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/wirectl/wirectl/capture/history"
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
