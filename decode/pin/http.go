package pin

import (
	"context"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/journal"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
)

// A Follower shows a watch the servers that are reached over HTTP, on any number of connections. It gets their
// records, which it reads on a goroutine of its own.
type Follower struct {
	*journal.Journal
	watch  *Watch
	note   func(*capture.Record)
	done   chan struct{}
	places places
}

// places tell which server a message over HTTP is from.
type places struct {
	names   map[int]string    // of connections
	servers map[stream]string // of requests
}

func newPlaces() places { return places{map[int]string{}, map[stream]string{}} }

// placeOf returns the place of a frame.
func (p *places) placeOf(f *frame.Frame) Place {
	at := stream{f.Conn, f.Stream}
	if f.Meta != nil && f.Dir == frame.C2U && f.Meta.Head.Method() != "" {
		if len(p.servers) >= maxStreams {
			clear(p.servers)
		}
		p.servers[at] = addressOf(p.names[f.Conn], f.Meta.Head.Target())
	}
	return Place{Conn: f.Conn, Stream: int(f.Stream), Server: p.servers[at], Shared: true}
}

// A stream has a request and its answer.
type stream struct {
	conn   int
	number int64
}

const (
	waiting    = 64 << 20 // bytes of records that wait in memory
	maxStreams = 1 << 14
	closing    = 10 * time.Second
)

// Follow returns a follower of a session, which must be closed. Note gets the notes for the session's records.
func (w *Watch) Follow(s capture.Session, note func(*capture.Record)) *Follower {
	f := &Follower{
		Journal: journal.New(s, journal.Options{Bytes: 1, Memory: waiting}), watch: w, note: note, done: make(chan struct{}), places: newPlaces(),
	}
	cursor := f.Journal.Follow()
	go func() {
		defer close(f.done)
		defer cursor.Close()
		cfg := decode.Config{Workers: 1, Resync: true, Event: f.learnName}
		_, _ = decode.Run(context.Background(), decode.Input{Capture: cursor}, io.Discard, cfg, func() decode.View { return f.viewItem })
	}()
	return f
}

// learnName learns the names of connections.
func (f *Follower) learnName(r *capture.Record) {
	if r.Kind == capture.Opened && len(f.places.names) < maxStreams {
		f.places.names[r.Conn] = string(r.Text)
	}
}

// viewItem shows the watch an item.
func (f *Follower) viewItem(dst []byte, it *decode.Item) ([]byte, error) {
	of := it.Frame
	place := f.places.placeOf(of)
	if of.Meta == nil || all.Of(it.Protocol).Labels != protocol.Tools {
		return dst, nil
	}
	if d := f.watch.See(place, of, it.Payload); d != nil {
		d.Note.Conn, d.Note.Dir = of.Conn, of.Dir
		f.note(&d.Note)
	}
	return dst, nil
}

// Close ends the follower after all that it has got.
func (f *Follower) Close() {
	f.Journal.Close()
	select {
	case <-f.done:
	case <-time.After(closing):
		f.watch.say("not all lists of tools over HTTP were compared with their pins: too much was recorded")
	}
	f.watch.Close()
}

// addressOf returns the address of a server from that of its host and the target of a request.
func addressOf(host, target string) string {
	base, err := url.Parse(host)
	if err != nil || target == "/" && base.Path != "" { // which the relay in front of one server changes
		return Address(host)
	}
	to, err := base.Parse(target)
	if err != nil {
		return Address(host)
	}
	return Address(to.String())
}

// isOfSession reports whether a parameter of a URL names a session of the older transport.
func isOfSession(name string) bool {
	return strings.HasPrefix(strings.ToLower(name), "session")
}
