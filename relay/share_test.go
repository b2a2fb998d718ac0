package relay_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/protocol/latis"
	"github.com/wirectl/wirectl/relay"
)

// A sharing is a shared unit and its controllers, all played by the test.
type sharing struct {
	*memory
	t       *testing.T
	shared  *relay.Shared
	unit    *net.TCPConn
	altered chan struct{} // closed at the first change
	cfg     relay.Config
	running sync.WaitGroup
	conns   int
}

func share(t *testing.T, framing frame.Framing, p protocol.Protocol) *sharing {
	t.Helper()
	s := &sharing{memory: &memory{}, t: t, altered: make(chan struct{})}
	s.cfg = relay.Config{Framing: framing, Protocol: p, Sink: s.sink(), Warn: s.warn}
	s.shared = relay.NewShared(relay.SharedConfig{
		Framing: framing, Protocol: p, Sink: s.cfg.Sink, Altered: func() { close(s.altered) },
	})
	unit, far := pair(t)
	s.unit = unit
	ctx, cancel := context.WithCancel(t.Context())
	s.running.Go(func() {
		_, _ = relay.Run(ctx, relay.Config{Controller: s.shared.Unit(), Unit: far, Framing: framing, Protocol: p})
	})
	t.Cleanup(func() { cancel(); s.running.Wait() })
	return s
}

// join connects another controller.
func (s *sharing) join() *net.TCPConn {
	s.t.Helper()
	controller, near := pair(s.t)
	s.conns++
	cfg := s.cfg
	cfg.Controller, cfg.Unit, cfg.Conn = near, s.shared.Join(s.conns), s.conns
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan struct{})
	s.running.Go(func() {
		defer close(done)
		if _, err := relay.Run(ctx, cfg); err != nil && !errors.Is(err, context.Canceled) {
			s.warn(err.Error())
		}
	})
	s.t.Cleanup(func() { cancel(); <-done })
	return controller
}

// changed reports whether the session was reported as altered.
func (s *sharing) changed() bool {
	select {
	case <-s.altered:
		return true
	default:
		return false
	}
}

const list, done = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}` + "\n", `{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}` + "\n"

// Two controllers that use the same id each get the answer to their own request under that id,
// in whatever order the answers arrive.
func TestSharedSameID(t *testing.T) {
	s := share(t, nil, nil)
	a, b := s.join(), s.join()
	say(t, a, list)
	hear(t, s.unit, list)
	if s.changed() {
		t.Error("altered, though nothing was renamed")
	}
	say(t, b, list)
	hear(t, s.unit, `{"jsonrpc":"2.0","id":1000000001,"method":"tools/list"}`+"\n")
	if !s.changed() {
		t.Error("not altered, though an id was renamed")
	}
	say(t, s.unit, `{"jsonrpc":"2.0","id":1000000001,"result":{"for":"b"}}`+"\n"+done)
	hear(t, b, `{"jsonrpc":"2.0","id":1,"result":{"for":"b"}}`+"\n")
	hear(t, a, done)
	say(t, b, list) // nobody else uses it any more
	hear(t, s.unit, list)
}

// Progress goes to the controller that requested it. A late cancel does not affect requests of
// others.
func TestSharedProgressAndCancel(t *testing.T) {
	const (
		call     = `{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"slow","_meta":{"progressToken":7}}}` + "\n"
		progress = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1}}` + "\n"
		cancel   = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x"}}` + "\n"
		result   = `{"jsonrpc":"2.0","id":"x","result":{"content":[]}}` + "\n"
	)
	renamed := strings.NewReplacer(`"x"`, `"x~1"`, `Token":7`, `Token":1000000002`)
	s := share(t, frame.Line, jsonrpc.MCP)
	a, b := s.join(), s.join()
	say(t, a, call)
	hear(t, s.unit, call)
	say(t, b, call)
	hear(t, s.unit, renamed.Replace(call))
	say(t, s.unit, renamed.Replace(progress)+progress)
	hear(t, a, progress)
	hear(t, b, progress)
	say(t, b, cancel)
	hear(t, s.unit, renamed.Replace(cancel))
	say(t, s.unit, renamed.Replace(result)) // it was already under way
	hear(t, b, result)
	say(t, b, cancel)
	hear(t, s.unit, strings.ReplaceAll(cancel, `"x"`, `"x~3"`))
	say(t, s.unit, result)
	hear(t, a, result)
}

// Messages of the unit that answer nothing go to all controllers. A request of the unit goes to
// one of them, and its answer returns under the original id.
func TestSharedUnitSpeaks(t *testing.T) {
	const (
		changed = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` + "\n"
		roots   = `{"jsonrpc":"2.0","id":1,"method":"roots/list"}` + "\n"
		answer  = `{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}` + "\n"
	)
	s := share(t, frame.Line, jsonrpc.MCP)
	a, b := s.join(), s.join()
	say(t, b, list)
	hear(t, s.unit, list)
	say(t, s.unit, roots+changed)
	hear(t, a, roots+changed)
	hear(t, b, changed)
	say(t, a, answer)
	hear(t, s.unit, answer)
	say(t, s.unit, done)
	hear(t, b, done)
}

// Requests of the unit that are never answered are eventually forgotten. So are those that it
// cancels itself: its messages about them go to all.
func TestSharedUnitAsksMuch(t *testing.T) {
	const more = 1 << 16
	ask := func(id int) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`+"\n", id) }
	cancel := func(id int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`+"\n", id)
	}
	s := relay.NewShared(relay.SharedConfig{Framing: frame.Line, Protocol: jsonrpc.MCP})
	unit, a, b := s.Unit(), s.Join(1), s.Join(2)
	for id := range more + 1 {
		say(t, unit, ask(id))
		hear(t, a, ask(id))
	}
	say(t, unit, cancel(1)+cancel(0)+cancel(more)+cancel(1))
	unit.Close()
	hear(t, a, cancel(1)+cancel(0)+cancel(more)+cancel(1))
	hear(t, b, cancel(0)+cancel(1))
	a.Close()
	b.Close()
}

// Old sessions are forgotten too, except for those in use.
func TestSharedManySessions(t *testing.T) {
	const more = 1 << 16
	use := func(id int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s%d"}}`+"\n", id)
	}
	update := func(id int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s%d","update":{}}}`+"\n", id)
	}
	s := relay.NewShared(relay.SharedConfig{Framing: frame.Line, Protocol: jsonrpc.ACP})
	unit, a, b := s.Unit(), s.Join(1), s.Join(2)
	using := func(m *relay.Member, id int) {
		say(t, m, use(id))
		hear(t, unit, use(id))
	}
	using(b, 0)
	using(b, 1)
	for id := range more {
		using(a, 2+id)
		if id == more/2 {
			using(b, 1)
		}
	}
	say(t, unit, update(1)+update(0))
	unit.Close()
	hear(t, b, update(1)+update(0))
	hear(t, a, update(0))
	a.Close()
	b.Close()
}

// A unit that sends much before the grammar is known blocks until then, and nothing is lost.
// The end wakes it.
func TestSharedUnitSpeaksFirst(t *testing.T) {
	const note = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"ready"}}` + "\n"
	text := strings.Repeat(note, 3<<20/len(note))
	for _, told := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := relay.NewShared(relay.SharedConfig{})
			unit := s.Unit()
			a := s.Join(1)
			failed := make(chan error, 1)
			go func() {
				_, err := io.WriteString(unit, text)
				failed <- err
			}()
			synctest.Wait()
			if len(failed) > 0 {
				t.Fatal("it was taken at once")
			}
			if told {
				say(t, a, list)
				hear(t, a, text)
			}
			unit.Close()
			if err := <-failed; (err == nil) != told {
				t.Errorf("told how to read it: %v; it was taken with %v", told, err)
			}
			a.Close()
		})
	}
}

// A unit whose process has ended does not block.
func TestSharedUnitEndsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := relay.NewShared(relay.SharedConfig{})
		unit := &babbler{grumbler{silent: silent{make(chan struct{})}}}
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = relay.Run(t.Context(), relay.Config{Controller: s.Unit(), Unit: unit, Stderr: io.Discard})
		}()
		synctest.Wait()
		close(unit.closed)
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Fatal("it waits for a controller")
		}
	})
}

// A babbler is a process that repeats the same output forever.
type babbler struct{ grumbler }

func (b *babbler) Read(p []byte) (int, error) { return len(p), nil }

// Updates of a session go to its users.
func TestSharedSessions(t *testing.T) {
	const (
		create = `{"jsonrpc":"2.0","id":0,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}` + "\n"
		made   = `{"jsonrpc":"2.0","id":0,"result":{"sessionId":"s1"}}` + "\n"
		update = `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"plan"}}}` + "\n"
		ask    = `{"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{"sessionId":"s1"}}` + "\n"
		all    = `{"jsonrpc":"2.0","method":"_example/all"}` + "\n"
	)
	s := share(t, frame.Line, jsonrpc.ACP)
	a, b := s.join(), s.join()
	say(t, b, create)
	hear(t, s.unit, create)
	say(t, s.unit, made+update+ask+all)
	hear(t, b, made+update+ask+all)
	hear(t, a, all)
}

// Latis ids are renamed inside their messages.
func TestSharedLatis(t *testing.T) {
	framed := func(json string) string {
		payload, err := latis.Protocol.AppendPayload(nil, []byte(json))
		if err != nil {
			t.Fatal(err)
		}
		raw, _ := frame.Append(nil, frame.Len32, payload)
		return string(raw)
	}
	ask := framed(`{"id":"p","promptSend":{"content":"hi"}}`)
	end := framed(`{"id":"p","responseComplete":{"requestId":"p"}}`)
	s := share(t, nil, nil)
	a, b := s.join(), s.join()
	say(t, a, ask)
	hear(t, s.unit, ask)
	say(t, b, ask)
	hear(t, s.unit, framed(`{"id":"p~1","promptSend":{"content":"hi"}}`))
	say(t, s.unit, framed(`{"id":"p~1","responseComplete":{"requestId":"p~1"}}`)+end)
	hear(t, b, end)
	hear(t, a, end)
}

// When a controller leaves, its requests are cancelled and their answers dropped. The others
// continue.
func TestSharedLeaves(t *testing.T) {
	s := share(t, frame.Line, jsonrpc.MCP)
	a, b := s.join(), s.join()
	say(t, a, list)
	hear(t, s.unit, list)
	if err := a.SetLinger(0); err != nil { // a reset, as when a process is killed
		t.Fatal(err)
	}
	a.Close()
	hear(t, s.unit, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`+"\n")
	say(t, b, strings.ReplaceAll(list, "1,", "2,"))
	hear(t, s.unit, strings.ReplaceAll(list, "1,", "2,"))
	say(t, s.unit, done+strings.ReplaceAll(done, "1,", "2,"))
	hear(t, b, strings.ReplaceAll(done, "1,", "2,"))
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.records {
		if r.Kind == capture.Note && strings.Contains(string(r.Text), "the controller left") && r.Conn == 1 {
			return
		}
	}
	t.Error("no note says that a request was cancelled")
}

// A controller that has closed its side still gets its answers, then the end. The unit's input
// stays open for the others. The unit's end ends all.
func TestSharedEnds(t *testing.T) {
	s := share(t, frame.Line, jsonrpc.MCP)
	a, b := s.join(), s.join()
	say(t, a, list)
	shut(t, a)
	hear(t, s.unit, list)
	say(t, s.unit, done)
	hear(t, a, done)
	ended(t, a)
	say(t, b, list)
	hear(t, s.unit, list)
	say(t, s.unit, done)
	shut(t, s.unit)
	hear(t, b, done)
	ended(t, b)
	ended(t, s.unit)
}

// Requests that cannot be told apart are refused, and so are bytes that are not a frame.
func TestSharedRefuses(t *testing.T) {
	s := share(t, nil, nil)
	a := s.join()
	say(t, a, "no frames\n")
	shut(t, a)
	ended(t, a)
	await(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.told) > 0 && strings.Contains(s.told[0], relay.ErrNotShared.Error())
	})
	b := s.join()
	say(t, b, list)
	hear(t, s.unit, list)
}

// Bytes that are not a message end only the controller that sent them. The unit never sees
// them.
func TestSharedRefusesWhatIsNoMessage(t *testing.T) {
	for _, bad := range []string{"no message\n", "{\"jsonrpc\":\n", "7\n", "[]\n"} {
		s := share(t, frame.Line, jsonrpc.MCP)
		a, b := s.join(), s.join()
		say(t, a, list)
		hear(t, s.unit, list)
		say(t, b, bad)
		ended(t, b)
		say(t, s.unit, done)
		hear(t, a, done)
	}
}

// The messages of a batch are routed separately.
func TestSharedBatch(t *testing.T) {
	s := share(t, frame.Line, jsonrpc.Plain)
	a, b := s.join(), s.join()
	const x, y = `{"jsonrpc":"2.0","id":1,"method":"x"}`, `{"jsonrpc":"2.0","id":2,"method":"y"}`
	say(t, a, x+"\n")
	hear(t, s.unit, x+"\n")
	say(t, b, "["+x+","+y+"]\n")
	hear(t, s.unit, strings.ReplaceAll(x, "1,", "1000000001,")+"\n"+y+"\n")
	say(t, s.unit, `[{"jsonrpc":"2.0","id":2,"result":2},{"jsonrpc":"2.0","id":1,"result":1}]`+"\n")
	hear(t, a, `{"jsonrpc":"2.0","id":1,"result":1}`+"\n")
	hear(t, b, `{"jsonrpc":"2.0","id":2,"result":2}`+"\n")
}

// A batch element that is not a message ends only the controller that sent it. The elements
// before it are forwarded.
func TestSharedBatchOfNoMessage(t *testing.T) {
	const x, y = `{"jsonrpc":"2.0","id":1,"method":"x"}` + "\n", `{"jsonrpc":"2.0","id":2,"method":"y"}`
	for _, bad := range []string{`7`, `{"a":1}`, `[]`, `"text"`} {
		s := share(t, frame.Line, jsonrpc.Plain)
		a, b := s.join(), s.join()
		say(t, a, x)
		hear(t, s.unit, x)
		say(t, b, "["+y+","+bad+","+y+"]\n")
		ended(t, b)
		hear(t, s.unit, y+"\n")
		say(t, s.unit, `{"jsonrpc":"2.0","id":1,"result":1}`+"\n")
		hear(t, a, `{"jsonrpc":"2.0","id":1,"result":1}`+"\n")
		say(t, a, x)
		hear(t, s.unit, x)
	}
}
