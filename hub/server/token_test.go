package server_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/capture/journal"
	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/hub"
	"github.com/wirectl/wirectl/hub/server"
)

func check(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// A secured is a hub that requires a token of every client.
type secured struct {
	*server.Hub
	dir, ca string
	warned  []string // to be read once it is closed
}

// beyond starts a hub with TLS that listens on all interfaces.
func beyond(t *testing.T) *secured {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	check(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	check(t, err)
	dir := t.TempDir()
	s := &secured{dir: filepath.Join(dir, "hub"), ca: filepath.Join(dir, "cert.pem")}
	keyFile := filepath.Join(dir, "key.pem")
	check(t,
		os.WriteFile(s.ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600),
		os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600),
	)
	var mu sync.Mutex
	o := server.Options{Dir: s.dir, Listen: "0.0.0.0:0", MaxBytes: 1 << 30, MaxAge: time.Hour, Warn: func(text string) {
		mu.Lock()
		defer mu.Unlock()
		s.warned = append(s.warned, text)
		t.Log(text)
	}}
	if _, err := server.Start(t.Context(), o); err == nil || !strings.Contains(err.Error(), "--tls-cert") {
		t.Fatalf("without TLS: %v", err)
	}
	o.TLSCert, o.TLSKey = s.ca, keyFile
	s.Hub, err = server.Start(t.Context(), o)
	check(t, err)
	t.Cleanup(func() { check(t, s.Close()) })
	return s
}

// address returns the hub's address with a new token, or without one if name is "".
func (s *secured) address(t *testing.T, name string, right server.Right) string {
	t.Helper()
	q := url.Values{"ca": {s.ca}}
	if name != "" {
		creds, err := server.NewToken(s.dir, name, right)
		check(t, err)
		file := filepath.Join(t.TempDir(), name)
		check(t, os.WriteFile(file, creds, 0o600))
		q.Set("creds", file)
	}
	u, err := url.Parse(s.URL())
	check(t, err)
	return "tls://127.0.0.1:" + u.Port() + "?" + q.Encode()
}

// raw is a NATS client with a token. The channel has the errors for what the server denies.
func (s *secured) raw(t *testing.T, right server.Right) (*nats.Conn, string, chan error) {
	t.Helper()
	creds, err := server.NewToken(s.dir, "raw-"+string(right), right)
	check(t, err)
	pair, err := nkeys.ParseDecoratedNKey(creds)
	check(t, err)
	public, err := pair.PublicKey()
	check(t, err)
	denied := make(chan error, 100)
	u, err := url.Parse(s.URL())
	check(t, err)
	nc, err := nats.Connect("tls://127.0.0.1:"+u.Port(), nats.RootCAs(s.ca), nats.Nkey(public, pair.Sign), nats.CustomInboxPrefix(hub.Inbox+public),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { denied <- err }))
	check(t, err)
	t.Cleanup(nc.Close)
	return nc, public, denied
}

// sendOne sends a session with one frame.
func sendOne(t *testing.T, address string) hub.Info {
	t.Helper()
	a, err := hub.ParseAddress(address)
	check(t, err)
	o := hub.Sending{Address: a, Policy: hub.Lossless, Level: history.Full, Kind: "relay", State: t.TempDir(), Say: func(string) {}, Warn: func(text string) { t.Log(text) }}
	j := journal.New(capture.Session{Created: time.Now(), Protocol: "mcp", Framing: "line"}, journal.Options{})
	s, err := o.Open(j, "one")
	check(t, err)
	raw := []byte("{}\n")
	check(t, j.Write(&capture.Record{Kind: capture.Frame, Seq: 1, Frame: frame.Frame{Raw: raw, End: 2, Dir: frame.C2U}}))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	check(t, j.Close())
	check(t, s.Close(ctx))
	return s.(*hub.Sender).Info()
}

// stored returns the number of messages at the hub.
func stored(t *testing.T, s *secured) (n uint64) {
	t.Helper()
	js, err := jetstream.New(s.Conn().NATS())
	check(t, err)
	presence, _ := hub.Bucket(hub.Presence)
	summaries, _ := hub.Bucket(hub.Summaries)
	for _, name := range []string{hub.Stream, presence, summaries} {
		stream, err := js.Stream(t.Context(), name)
		check(t, err)
		n += stream.CachedInfo().State.LastSeq
	}
	return n
}

// One token can send and another can view. Without a token there is no access.
func TestRights(t *testing.T) {
	s := beyond(t)
	info := sendOne(t, s.address(t, "build", server.Publish))
	a, err := hub.ParseAddress(s.address(t, "eyes", server.View))
	check(t, err)
	c, err := hub.Dial(a)
	check(t, err)
	defer c.Close()
	if found, err := c.Find(t.Context(), "one"); err != nil || found.ID != info.ID || found.Frames != 1 {
		t.Errorf("found %+v, %v", found, err)
	}
	if f, err := c.Search(t.Context(), hub.Query{Where: "protocol==mcp"}, nil); err != nil || len(f.Sessions) != 1 || f.Sessions[0].ID != info.ID {
		t.Errorf("the index has %+v, %v", f, err)
	}
	nobody, err := hub.ParseAddress(s.address(t, "", ""))
	check(t, err)
	if c, err := hub.Dial(nobody); err == nil || !strings.Contains(err.Error(), "wirectl hub token") {
		t.Errorf("without a token: %v, %v", c, err)
	}
}

// A viewer cannot publish: neither directly, nor by a reply to the subjects of sessions,
// nor by a consumer that delivers there.
func TestViewersCannotPublish(t *testing.T) {
	s := beyond(t)
	info := sendOne(t, s.address(t, "build", server.Publish))
	nc, _, denied := s.raw(t, server.View)
	before := stored(t, s)
	subject := hub.Segments + "main.evil.relay.0123456789abcdef"
	_, keys := hub.Bucket(hub.Summaries)
	get, err := json.Marshal(map[string]any{"seq": 1, "next_by_subj": hub.Segments + ">", "batch": 10})
	check(t, err)
	consumer := []byte(`{"stream_name":"WIRECTL","config":{"deliver_subject":"` + keys + `main.evil.relay.x","ack_policy":"none"}}`)
	check(t,
		nc.Publish(subject, []byte("evil")),
		nc.Publish(keys+"main.evil.relay.x", []byte("{}")),
		nc.PublishRequest("$JS.API.CONSUMER.CREATE."+hub.Stream, nc.NewInbox(), consumer),
		nc.PublishRequest("$JS.API.STREAM.PURGE."+hub.Stream, nc.NewInbox(), nil),
		nc.PublishRequest("$JS.API.DIRECT.GET."+hub.Stream, subject, get),
		nc.PublishRequest("$JS.API.DIRECT.GET."+hub.Stream, "$JS.API.STREAM.PURGE."+hub.Stream, get),
		nc.Flush(),
	)
	for range 4 {
		awaitDenied(t, denied)
	}
	// Once this is answered, so are the earlier requests.
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	check(t, err, nc.PublishRequest("$JS.API.DIRECT.GET."+hub.Stream, inbox, get))
	if _, err := sub.NextMsg(time.Minute); err != nil {
		t.Fatal(err)
	}
	if after := stored(t, s); after != before {
		t.Errorf("the hub has stored %d messages more", after-before)
	}
	if i, err := s.Conn().Find(t.Context(), info.ID); err != nil || i.Frames != 1 {
		t.Errorf("the session is %+v, %v", i, err)
	}
}

func awaitDenied(t *testing.T, denied chan error) {
	t.Helper()
	select {
	case err := <-denied:
		if !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("denied: %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the server denies nothing")
	}
}

// A publisher cannot read. It can neither make requests nor subscribe to other publishers'
// messages and replies, and a receipt cannot be mistaken for a command.
func TestPublishersCannotRead(t *testing.T) {
	s := beyond(t)
	sendOne(t, s.address(t, "build", server.Publish))
	nc, public, denied := s.raw(t, server.Publish)
	all := make(chan *nats.Msg, 100)
	for _, subject := range []string{">", hub.Segments + ">", "$KV.>", "_INBOX.>", hub.Inbox + ">", "$JS.>"} {
		_, err := nc.ChanSubscribe(subject, all)
		check(t, err, nc.Flush())
		awaitDenied(t, denied)
	}
	own, err := nc.SubscribeSync(hub.Inbox + public + ".>")
	check(t, err)
	get := []byte(`{"seq":1,"next_by_subj":"wirectl.s.>","batch":10}`)
	for _, subject := range []string{"$JS.API.DIRECT.GET." + hub.Stream, "$JS.API.STREAM.MSG.GET." + hub.Stream, "$JS.API.STREAM.INFO." + hub.Stream, "$JS.API.CONSUMER.CREATE." + hub.Stream, hub.Find + hub.DefaultOrg} {
		check(t, nc.PublishRequest(subject, nc.NewInbox(), get), nc.Flush())
		awaitDenied(t, denied)
	}
	_, facts := hub.Bucket(hub.Facts) // only the hub says what is in a session
	for _, key := range []string{"main.raw-publish.relay.b", "position"} {
		check(t, nc.Publish(facts+key, []byte("{}")), nc.Flush())
		awaitDenied(t, denied)
	}
	before := stored(t, s)
	check(t, nc.PublishRequest(hub.Segments+"main.raw-publish.relay.b", "$JS.API.STREAM.PURGE."+hub.Stream, []byte("x")))
	js, err := jetstream.New(nc)
	check(t, err)
	ack, err := js.Publish(t.Context(), hub.Segments+"main.raw-publish.relay.b", []byte("y")) // sent after the first
	check(t, err)
	if ack.Sequence < 3 {
		t.Errorf("stored as %d", ack.Sequence)
	}
	sendOne(t, s.address(t, "another", server.Publish)) // invisible to this client
	if after := stored(t, s); after <= before+2 {
		t.Errorf("%d messages, and before %d", after, before)
	}
	stream, err := mustStream(t, s).Info(t.Context())
	check(t, err)
	if stream.State.Msgs != stream.State.LastSeq {
		t.Errorf("of %d messages %d are left", stream.State.LastSeq, stream.State.Msgs)
	}
	if m, err := own.NextMsg(time.Millisecond); err == nil && !strings.Contains(string(m.Data), `"seq"`) {
		t.Errorf("%s: %s", m.Subject, m.Data) // only the receipt is for this client
	}
	if len(all) > 0 {
		t.Errorf("it sees %d messages", len(all))
	}
}

func mustStream(t *testing.T, s *secured) jetstream.Stream {
	t.Helper()
	js, err := jetstream.New(s.Conn().NATS())
	check(t, err)
	stream, err := js.Stream(t.Context(), hub.Stream)
	check(t, err)
	return stream
}

var _ tap.Sender = (*hub.Sender)(nil)

// A hub that cannot start says why at once, and does not touch the other hub's data.
func TestStartsOnce(t *testing.T) {
	o := server.Options{Dir: t.TempDir(), Listen: "127.0.0.1:0", MaxBytes: 1 << 30, MaxAge: time.Hour, Warn: func(text string) { t.Log(text) }}
	h, err := server.Start(t.Context(), o)
	check(t, err)
	if _, err := server.Start(t.Context(), o); err == nil || !strings.Contains(err.Error(), "another hub uses "+o.Dir) {
		t.Errorf("in the same folder: %v", err)
	}
	o.Dir, o.Listen = t.TempDir(), strings.TrimPrefix(h.URL(), "nats://")
	if _, err := server.Start(t.Context(), o); err == nil || !strings.Contains(err.Error(), o.Listen+": address already in use: stop the program") {
		t.Errorf("at the same port: %v", err)
	}
	check(t, h.Close())
	h, err = server.Start(t.Context(), o)
	check(t, err, h.Close())
}

// obeys records its commands.
type obeys struct{ done []string }

func (o *obeys) Control(_ context.Context, c tap.Command) ([]tap.Note, error) {
	o.done = append(o.done, c.Do)
	switch c.Do {
	case tap.Waiting:
		return []tap.Note{{Tap: tap.Held, Held: 7, Payload: json.RawMessage(`{"jsonrpc":"2.0","id":1,"method":"a","params":{"password":"hunter2","text":"shown"}}`)}}, nil
	case tap.Drop:
		return nil, errors.New("no frame 9 waits")
	}
	return nil, nil
}

// With the right to control, clients can send commands to a relay that accepts them. Each
// command is executed or rejected with a reason.
func TestControl(t *testing.T) {
	s := beyond(t)
	a, err := hub.ParseAddress(s.address(t, "build", server.Publish))
	check(t, err)
	var controllers [2]*obeys
	var names []string
	for i := range controllers {
		o := hub.Sending{Address: a, Policy: hub.Lossless, Level: history.Full, Kind: "relay", State: t.TempDir(), Say: func(string) {}, Warn: func(text string) { t.Log(text) }}
		j := journal.New(capture.Session{Created: time.Now(), Protocol: "mcp", Framing: "line"}, journal.Options{})
		sender, err := o.Open(j, "one")
		check(t, err)
		if i == 0 {
			controllers[0] = &obeys{}
			sender.Obey(controllers[0])
		}
		info := sender.(*hub.Sender).Info()
		if info.Host != "build" {
			t.Errorf("its host is %q, want the name of the token", info.Host)
		}
		names = append(names, info.ID)
		defer func() { check(t, j.Close(), sender.Close(t.Context())) }()
	}
	open := func(right server.Right, name string) *hub.Reader {
		t.Helper()
		a, err := hub.ParseAddress(s.address(t, "token-"+string(right), right))
		check(t, err)
		c, err := hub.Dial(a)
		check(t, err)
		t.Cleanup(c.Close)
		for {
			r, err := c.Open(t.Context(), name)
			if none := (*hub.NotFoundError)(nil); errors.As(err, &none) {
				continue
			}
			check(t, err)
			if r.Refuses() == "" {
				return r
			}
		}
	}
	r := open(server.Control, names[0])
	notes, err := r.Do(t.Context(), tap.Command{Do: tap.Waiting})
	check(t, err)
	if len(notes) != 1 || notes[0].Held != 7 || strings.Contains(string(notes[0].Payload), "hunter2") || !strings.Contains(string(notes[0].Payload), "shown") {
		t.Errorf("waiting: %+v", notes)
	}
	for _, c := range []struct {
		do   tap.Command
		want string
	}{
		{tap.Command{Do: tap.Cancel, ID: json.RawMessage("3")}, ""},
		{tap.Command{Do: tap.Hold, Where: "kind==tools/call"}, ""},
		{tap.Command{Do: tap.Edit, Held: 7, Payload: json.RawMessage("{}")}, ""},
		{tap.Command{Do: tap.Drop, Held: 9}, "no frame 9 waits"},
		{tap.Command{Do: tap.Release}, `release needs "held"`},
	} {
		_, err := r.Do(t.Context(), c.do)
		if c.want == "" {
			check(t, err)
		} else if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.do.Do, err, c.want)
		}
	}
	if got := strings.Join(controllers[0].done, " "); got != "waiting cancel hold edit drop" {
		t.Errorf("done: %s", got)
	}
	// So does the page of the hub itself.
	own, err := s.Conn().Open(t.Context(), names[0])
	check(t, err)
	_, err = own.Do(t.Context(), tap.Command{Do: tap.Waiting})
	check(t, err)
	// A relay without the flag rejects commands. Without the right, the server rejects them.
	for _, c := range []struct {
		right      server.Right
		name, want string
	}{{server.Control, names[1], "--hub-control"}, {server.View, names[0], "does not allow control"}} {
		r := open(c.right, c.name)
		if _, err := r.Do(t.Context(), tap.Command{Do: tap.Waiting}); err == nil || !strings.Contains(err.Error(), c.want) || r.Refuses() != err.Error() {
			t.Errorf("%v, and then %q, want %q", err, r.Refuses(), c.want)
		}
	}
	if got := len(controllers[0].done); got != 6 {
		t.Errorf("%d commands were done", got)
	}
}

// A publisher can send only as itself. It cannot write to the sessions of another host, nor
// receive commands for that host.
func TestPublishersAreThemselves(t *testing.T) {
	s := beyond(t)
	nc, _, denied := s.raw(t, server.Publish) // with the token raw-publish
	_, keys := hub.Bucket(hub.Summaries)
	before := stored(t, s)
	for _, subject := range []string{
		hub.Segments + "main.build.relay.x", keys + "main.build.relay.x", hub.Commands + "main.raw-publish.relay.x",
		// A part with a dot could make it another host of another organisation.
		hub.Segments + "main.raw-publish.build.relay.x", keys + "main.raw-publish.build.relay.x", keys + "main.raw-publish.x",
	} {
		check(t, nc.Publish(subject, []byte("{}")), nc.Flush())
		awaitDenied(t, denied)
	}
	for _, subject := range []string{hub.Commands + ">", hub.Commands + "main.build.relay.x"} {
		_, err := nc.SubscribeSync(subject)
		check(t, err, nc.Flush())
		awaitDenied(t, denied)
	}
	if after := stored(t, s); after != before {
		t.Errorf("the hub has stored %d messages", after-before)
	}
}

// What a publisher may not do is told, but only some times, and then counted.
func TestRefusalsAreCounted(t *testing.T) {
	s := beyond(t)
	nc, _, denied := s.raw(t, server.Publish)
	const tries = 100
	for range tries {
		check(t, nc.Publish(hub.Segments+"main.build.relay.x", []byte("{}")), nc.Flush())
		awaitDenied(t, denied)
	}
	nc.Close()
	check(t, s.Close())
	told, counted := 0, 0
	for _, text := range s.warned {
		if strings.Contains(text, "Publish Violation") {
			told++
		}
		_, _ = fmt.Sscanf(text, "nats: %d more warnings were not shown", &counted)
	}
	if told == 0 || told > 20 || told+counted < tries {
		t.Errorf("%d are told, %d are counted, of %d:\n%s", told, counted, tries, strings.Join(s.warned, "\n"))
	}
}
