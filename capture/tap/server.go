package tap

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/wirectl/wirectl/capture/journal"
	"github.com/wirectl/wirectl/internal/nearest"
)

// A Server sends the records of a journal to viewers of the same user.
type Server struct {
	journal *journal.Journal
	control Controller
	dir     string
	info    Info
	socket  *net.UnixListener

	ctx     context.Context // of commands
	stop    context.CancelFunc
	serving sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

const (
	// maxName is the maximum length of a name in bytes, since socket paths must be short.
	maxName = 40
	// maxViewers bounds the number of simultaneous viewers.
	maxViewers = 64
	// grace is the time that viewers have to read the end of a session.
	grace = 500 * time.Millisecond
	// maxLine is the maximum length of a command in bytes.
	maxLine = 32 << 20
)

// Listen opens a tap in the folder from [Dir]. It appends the process id to the name in info.
// If control is nil, commands are rejected.
func Listen(dir string, info Info, j *journal.Journal, control Controller) (*Server, error) {
	info.Pid, info.Control = os.Getpid(), control != nil
	if info.Started.IsZero() {
		info.Started = time.Now()
	}
	s := &Server{journal: j, control: control, dir: dir, conns: make(map[net.Conn]struct{})}
	if err := s.listen(info); err != nil {
		return nil, err
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.serving.Go(s.accept)
	return s, nil
}

// listen opens the socket under a free name and writes the description.
func (s *Server) listen(info Info) error {
	if _, err := List(s.dir, nil); err != nil { // removes stale taps
		return err
	}
	base := fmt.Sprintf("%s-%d", cleaned(info.Name), info.Pid)
	info.Name = base
	for n := 2; ; n++ {
		path := filepath.Join(s.dir, info.Name+listens)
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err == nil {
			s.socket, s.info = l, info
			break
		}
		if _, missing := os.Lstat(path); missing != nil || n == 1000 {
			return err
		}
		info.Name = fmt.Sprintf("%s-%d", base, n)
	}
	if err := describe(s.dir, info); err != nil {
		s.socket.Close()
		return err
	}
	return nil
}

// cleaned converts any text into a file name that is easy to type.
func cleaned(name string) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '.':
			return r
		}
		return '-'
	}, name)
	clean = strings.Trim(clean[:min(len(clean), maxName)], "-.")
	if clean == "" || !utf8.ValidString(clean) {
		return "tap"
	}
	return clean
}

// Name returns the name of the tap.
func (s *Server) Name() string { return s.info.Name }

// Close ends the session of the journal, waits a short time for viewers to read the rest, and
// removes the tap.
func (s *Server) Close() error {
	s.journal.Close()
	s.stop()
	_ = os.Remove(filepath.Join(s.dir, s.info.Name+describes))
	err := s.socket.Close()
	s.mu.Lock()
	for c := range s.conns {
		_ = c.SetWriteDeadline(time.Now().Add(grace)) // fails if the viewer has gone
	}
	s.mu.Unlock()
	s.serving.Wait()
	return err
}

func (s *Server) accept() {
	for {
		c, err := s.socket.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // for example too many open files
			select {
			case <-time.After(grace):
			case <-s.ctx.Done():
			}
			continue
		}
		if checkPeer(c) != nil || !s.enter(c) {
			c.Close()
			continue
		}
		s.serving.Go(func() { s.serveViewer(c) })
	}
}

// enter registers a viewer. It returns false if there are too many.
func (s *Server) enter(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.conns) == maxViewers {
		return false
	}
	s.conns[c] = struct{}{}
	if s.ctx.Err() != nil {
		_ = c.SetWriteDeadline(time.Now().Add(grace))
	}
	return true
}

func (s *Server) leave(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// serveViewer serves one viewer until it leaves or the session ends.
func (s *Server) serveViewer(c net.Conn) {
	defer s.leave(c)
	v := View(s.journal)
	var listening sync.WaitGroup
	listening.Go(func() {
		s.listenTo(c, v)
		v.Close()
	})
	_ = v.Send(c) // fails if the viewer has left
	v.Close()
	c.Close()
	listening.Wait()
}

// listenTo executes the commands of a viewer in order, until it leaves.
func (s *Server) listenTo(c net.Conn, v *journal.Cursor) {
	lines := bufio.NewScanner(c)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		if len(lines.Bytes()) > 0 {
			s.do(lines.Bytes(), v)
		}
	}
}

func (s *Server) do(line []byte, v *journal.Cursor) {
	cmd, err := ParseCommand(line)
	if err == nil && s.control == nil {
		err = ErrNoCommands
	}
	answer := Note{Tap: Answer, Do: cmd.Do, Tag: cmd.Tag}
	if err == nil {
		var notes []Note
		notes, err = s.control.Control(s.ctx, cmd)
		for _, n := range notes {
			v.Post(n.Record())
		}
	}
	if err != nil {
		answer.Error = err.Error()
	}
	v.Post(answer.Record())
}

// A Command is a request from a viewer to a tap's owner: one line of JSON.
type Command struct {
	// Do is the verb: one of the verbs below.
	Do string `json:"do"`
	// Tag is returned with the answer.
	Tag string `json:"tag,omitempty"`
	// Conn is the connection; 0 if there is only one.
	Conn int `json:"conn,omitempty"`
	// To is the receiver of a frame: "unit" or "controller".
	To string `json:"to,omitempty"`
	// Payload is a JSON payload; [Conn.Send] removes its white space. Data is any other
	// payload.
	Payload json.RawMessage `json:"payload,omitempty"`
	Data    []byte          `json:"data,omitempty"`
	// ID is the id of an exchange, as it was written on the wire.
	ID json.RawMessage `json:"id,omitempty"`
	// Seq is the number of a recorded frame; Held is the number of a held frame.
	Seq  int64 `json:"seq,omitempty"`
	Held int64 `json:"held,omitempty"`
	// Where is a condition in the language of --where.
	Where string `json:"where,omitempty"`
}

// ErrNoCommands is the answer of a tap whose owner has no Controller.
var ErrNoCommands = errors.New("this tap is read-only: start the relay or the run of rlm with --control to send it commands")

// A Controller executes commands.
type Controller interface {
	// Control executes a valid command. The notes are sent to the viewer before the
	// answer. It is called concurrently.
	Control(ctx context.Context, c Command) ([]Note, error)
}

// The verbs of commands.
const (
	Inject  = "inject"  // To, Payload or Data: send a new frame
	Cancel  = "cancel"  // ID: send the protocol's cancel of an exchange
	Resend  = "resend"  // Seq: send a frame again
	Hold    = "hold"    // Where: hold frames that match; "" holds none
	Release = "release" // Held: send a held frame
	Edit    = "edit"    // Held, Payload or Data: send another frame instead
	Drop    = "drop"    // Held: discard a held frame
	Waiting = "waiting" // list the held frames, as [Held] notes
)

// needs are the required members of a command.
type needs struct{ to, payload, id, seq, held bool }

var verbs = []struct {
	name string
	needs
}{
	{Inject, needs{to: true, payload: true}},
	{Cancel, needs{id: true}},
	{Resend, needs{seq: true}},
	{Hold, needs{}},
	{Release, needs{held: true}},
	{Edit, needs{held: true, payload: true}},
	{Drop, needs{held: true}},
	{Waiting, needs{}},
}

// verbNames lists the verbs of commands.
func verbNames() (names []string) {
	for _, v := range verbs {
		names = append(names, v.name)
	}
	return names
}

// ParseCommand parses a complete command.
func ParseCommand(line []byte) (c Command, err error) {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return c, fmt.Errorf("invalid command: want an object on one line: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return c, fmt.Errorf("invalid command: more follows the object on its line")
	}
	return c, c.check()
}

// check returns an error if a command lacks a member.
func (c *Command) check() error {
	for _, v := range verbs {
		if v.name != c.Do {
			continue
		}
		switch {
		case v.to && c.To != "unit" && c.To != "controller":
			return fmt.Errorf(`%s: "to" is unit or controller, and not %q`, c.Do, c.To)
		case v.payload && (c.Payload == nil) == (len(c.Data) == 0):
			return fmt.Errorf(`%s needs either "payload" or "data"`, c.Do)
		case v.id && c.ID == nil:
			return fmt.Errorf(`%s needs the "id" of an exchange`, c.Do)
		case v.seq && c.Seq <= 0:
			return fmt.Errorf(`%s needs "seq", the number of a frame`, c.Do)
		case v.held && c.Held <= 0:
			return fmt.Errorf(`%s needs "held", the number of a frame that waits`, c.Do)
		}
		return nil
	}
	return fmt.Errorf(`"do" is one of %s, not %q%s`, strings.Join(verbNames(), ", "), c.Do, nearest.Question(c.Do, verbNames()))
}

// Bytes returns the payload that a command carries.
func (c *Command) Bytes() []byte {
	if c.Payload != nil {
		return c.Payload
	}
	return c.Data
}
