// Package hub brings sessions of many machines together. A [Sender] reads a tap as a
// viewer does and publishes what it reads to NATS; a [Reader] gives a session back as
// a capture. What is stored, copied and kept alive is the business of NATS alone. The
// server, and who may do what, are in hub/server.
package hub

import (
	"cmp"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/wirectl/wirectl/capture/history"
)

// Names in NATS. A segment of a session is a message of [Stream], under
// "wirectl.s.ORG.HOST.KIND.ID". The two buckets have the key "ORG.HOST.KIND.ID".
const (
	Stream = "WIRECTL"
	// Segments begins the subjects of the stream.
	Segments = "wirectl.s."
	// Presence is the bucket of sessions that go on. An entry that is not renewed
	// within PresenceTime goes.
	Presence     = "wirectl_presence"
	PresenceTime = 3 * beat
	// Summaries is the bucket that has an [Info] for each session.
	Summaries = "wirectl_sessions"
	// Shared is the bucket of what brokers share: see package share.
	Shared = "wirectl_share"
	// Work begins the subjects between brokers and workers.
	Work = "wirectl.w."
	// Inbox begins the subjects of answers to a user with a token; the user's public
	// key follows, so that nobody else may listen there.
	Inbox = "_I."
)

// Bucket returns the stream of a bucket, and what begins the subjects of its keys.
func Bucket(name string) (stream, subjects string) { return "KV_" + name, "$KV." + name + "." }

// Headers of a segment.
const (
	headerNumber = "Wirectl-Number" // of the segment in its session, from 1
	headerFirst  = "Wirectl-First"  // number of the first, where a message has several
	headerFrames = "Wirectl-Frames" // frames of the session up to its end
	headerPiece  = "Wirectl-Piece"  // "2/5": a segment that no single message holds
	headerEnd    = "Wirectl-End"    // it is the last
)

// Variable names the environment variable that has the address of the hub.
const Variable = "WIRECTL_HUB"

// DefaultAddress is where readers look for a hub if nothing says where it is.
const DefaultAddress = "nats://127.0.0.1:4222"

// DefaultOrg is the organisation of an address that names none.
const DefaultOrg = "main"

// An Address says where a hub is, and as who to go there.
type Address struct {
	// Servers are one URL of NATS, or several with commas between them.
	Servers string
	// Org is the organisation.
	Org string
	// Creds is the file of credentials, and CA that of authorities to trust; "" is none.
	Creds, CA string

	host string // the name of the token; "" if there is none
}

// ParseAddress reads an address such as nats://HOST:4222/ORG?creds=FILE&ca=FILE. The
// servers of a cluster have commas between them; the last has the rest.
func ParseAddress(text string) (Address, error) {
	a := Address{Org: DefaultOrg}
	var servers []string
	for _, one := range strings.Split(text, ",") {
		u, err := url.Parse(one)
		switch {
		case err != nil || u.Host == "" || u.Scheme != "nats" && u.Scheme != "tls":
			return a, fmt.Errorf("%q is not an address of a hub: want nats://HOST:PORT or tls://HOST:PORT", redacted(one))
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
		return a, fmt.Errorf("%q is not a name of an organisation: want letters, digits, - and _", a.Org)
	}
	return a, nil
}

// redacted is an address that could not be read, without what could be a password.
func redacted(text string) string {
	if at := strings.LastIndexByte(text, '@'); at >= 0 {
		return "…" + text[at:]
	}
	return text
}

// Word makes of any text a word of a subject.
func Word(text string) string {
	return cmp.Or(strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		}
		return '-'
	}, text[:min(len(text), 64)]), "-")
}

// host is what this machine is called in subjects.
func host() string {
	name, _ := os.Hostname() // "-" will do
	return Word(name)
}

// State is the folder of the user's state, which spools and hubs are in.
func State(getenv func(string) string) (string, error) {
	folder, err := history.Open(getenv)
	if err != nil {
		return "", err
	}
	return filepath.Dir(folder.Dir), nil
}

// A Policy says what becomes of frames that the network is too slow for.
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

// An Info says what a session is. Its counts are those of its last beat.
type Info struct {
	ID  string `json:"id"`
	Org string `json:"org"`
	// Host is the name of the machine, or of the token with which it sends.
	Host string `json:"host"`
	// Kind is the command that sends it: relay, serve.
	Kind string `json:"kind"`
	// Name is what its tap is called.
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
	// Calls, Failures and Findings are those that the index of a hub has; nil where there
	// is none.
	Calls    *int64 `json:"calls,omitempty"`
	Failures *int64 `json:"failures,omitempty"`
	Findings *int64 `json:"findings,omitempty"`
	// Live says that a sender is there now.
	Live bool `json:"live,omitempty"`
}

// Key is the key of the session in the buckets.
func (i *Info) Key() string { return strings.Join([]string{i.Org, i.Host, i.Kind, i.ID}, ".") }
