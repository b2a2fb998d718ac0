package hub_test

import (
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wirectl/wirectl/hub"
)

// A line is the network between a sender and a hub. While it is cut it accepts no bytes and
// sends none.
type line struct {
	listener net.Listener
	to       string

	again  chan struct{} // a second connection was tried
	mu     sync.Mutex
	mended chan struct{} // closed while bytes may pass
	conns  []net.Conn
	copies sync.WaitGroup
}

func newLine(t *testing.T, to string) *line {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	l := &line{listener: listener, to: to, again: make(chan struct{}, 1), mended: make(chan struct{})}
	close(l.mended)
	l.copies.Go(l.accept)
	t.Cleanup(func() {
		listener.Close()
		l.mend()
		l.hangUp()
		l.copies.Wait()
	})
	return l
}

func (l *line) accept() {
	for {
		a, err := l.listener.Accept()
		if err != nil {
			return
		}
		b, err := net.Dial("tcp", l.to)
		if err != nil {
			a.Close()
			continue
		}
		l.mu.Lock()
		if l.conns = append(l.conns, a, b); len(l.conns) > 2 {
			select {
			case l.again <- struct{}{}:
			default:
			}
		}
		l.mu.Unlock()
		l.copies.Go(func() { l.pass(a, b) })
		l.copies.Go(func() { l.pass(b, a) })
	}
}

// pass copies bytes from one end to the other.
func (l *line) pass(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		l.mu.Lock()
		mended := l.mended
		l.mu.Unlock()
		<-mended
		if _, werr := to.Write(buf[:n]); err != nil || werr != nil {
			return
		}
	}
}

func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mended = make(chan struct{})
}

// mend lets bytes pass again, starting with the delayed ones.
func (l *line) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.mended:
	default:
		close(l.mended)
	}
}

// hangUp closes all connections and discards the delayed bytes.
func (l *line) hangUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		c.Close()
	}
	l.conns = nil
}

// A lossless session loses nothing when the network is cut, whether its connections survive
// or not, and the session reports the interruption. After three beats of silence, the sender
// gives its connection up by itself.
func TestNetworkIsCut(t *testing.T) {
	t.Parallel()
	for name, until := range map[string]func(*line){
		"connections last":  func(*line) {},
		"connections break": (*line).hangUp,
		"silence":           func(l *line) { <-l.again },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := start(t, t.TempDir(), "")
			l := newLine(t, listens(h))
			f := send(t, "nats://"+l.listener.Addr().String(), func(o *hub.Sending) {
				if o.Policy = hub.Lossless; name == "silence" {
					o.Beat = 250 * time.Millisecond
				}
			})
			f.writeMany(1000)
			opened(t, h, f).Close() // it has arrived at least in part
			l.cut()
			f.writeMany(1000)
			f.warned.await(t, "accepts nothing")
			f.writeMany(1000)
			until(l)
			l.mend()
			f.warned.await(t, "accepts the session again")
			f.writeMany(1000)
			f.end()
			frames, notes := read(t, h.Conn(), f.sender.Info().ID)
			isWhole(t, frames, 4000)
			if len(notes) != 1 || !strings.Contains(notes[0], "could not be reached") {
				t.Errorf("notes: %q", notes)
			}
		})
	}
}
