package store

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
)

// A Peer is a connection.
type Peer struct {
	Conn        int
	Name        string
	Frames      [3]int64 // by direction
	Bytes       [3]int64
	Half        [3]bool // the direction has ended
	Exit        string  // how the unit's process ended
	Failed      bool    // it ended by a signal or with a status other than 0
	Stall       [3]time.Duration
	StallTotal  [3]time.Duration
	Note        string // the last note on it, such as that it does not read
	Label       string // a short name, which no other connection has
	place, next string // of a connection of a run: its place, and the next cell
	short       string // the name, shortened
}

// label names a connection in a few words: by the program at its other end, or by its address.
// Its number follows if there are others of that name.
func (s *Store) label(p *Peer) string {
	name := p.short
	if name == "" && len(s.order) == 1 {
		name = ShortName(s.session.Unit)
	}
	switch {
	case name == "":
		return fmt.Sprintf("connection %d", max(p.Conn, 1))
	case s.named[name] > 1:
		return fmt.Sprintf("%s (%d)", name, p.Conn)
	}
	return name
}

// launchers run the program that is named after their flags.
var launchers = []string{"node", "npx", "bun", "bunx", "deno", "run", "python", "python3", "uv", "uvx", "sh", "bash"}

// packageScript is a script of a package.
var packageScript = regexp.MustCompile(`^.*node_modules[/\\]((?:@[^/\\]+[/\\])?[^/\\]+).*\.[cm]?[jt]s$`)

// ShortName shortens a command to its program and the words before the first flag after it:
// "node node_modules/@scope/server/dist/index.js --port 1" becomes "@scope/server".
func ShortName(command string) string {
	words := strings.Fields(command)
	program := ""
	for program == "" && len(words) > 0 {
		word := words[0]
		words = words[1:]
		name := word[strings.LastIndexAny(word, `/\`)+1:]
		switch {
		case strings.HasPrefix(word, "-"), len(words) > 0 && slices.Contains(launchers, strings.TrimSuffix(name, ".exe")):
		case strings.Contains(word, "://"), strings.HasPrefix(word, "@"):
			program = word
		case name != "":
			program = name
			if m := packageScript.FindStringSubmatch(word); m != nil {
				program = m[1]
			}
		}
	}
	for i, word := range words {
		if strings.HasPrefix(word, "-") {
			words = words[:i]
			break
		}
	}
	return strings.Join(append([]string{program}, words...), " ")
}

// State says whether the connection is open, or how it ended.
func (p *Peer) State() string {
	switch {
	case p.Exit != "":
		return p.Exit
	case p.Half[frame.C2U] && p.Half[frame.U2C]:
		return "closed"
	case p.Half[frame.C2U]:
		return "→ ended"
	case p.Half[frame.U2C]:
		return "← ended"
	}
	return "open"
}

// stalled is the time after which a frame that was not handed on counts as stalled: its
// receiver does not read.
const stalled = 10 * time.Millisecond

// peer returns a connection, which may be new.
func (s *Store) peer(conn int) *Peer {
	if p := s.lastPeer; p != nil && p.Conn == conn {
		return p
	}
	p := s.peers[conn]
	if p == nil {
		p = &Peer{Conn: conn}
		if len(s.peers) < maxPeers {
			s.peers[conn] = p
			s.order = append(s.order, conn)
		}
	}
	s.lastPeer = p
	return p
}

const maxPeers = 10_000

func (p *Peer) frame(e *entry) {
	d := e.dir()
	p.Frames[d]++
	p.Bytes[d] += int64(e.raw)
	if e.wrote == 0 {
		return
	}
	if took := time.Duration(e.wrote-1) * time.Microsecond; took > stalled {
		p.StallTotal[d] += took
		p.Stall[d] = max(p.Stall[d], took)
	}
}

// A Line is a line of standard error, or an event.
type Line struct {
	Time time.Time
	Conn int
	Peer string // its label
	Kind capture.Kind
	Text string
}

// IsStderr reports whether the line is from standard error.
func (l *Line) IsStderr() bool { return l.Kind == capture.Stderr }

// FramesUp is how many frames went to the unit, or in an unknown direction; BytesUp their bytes.
func (p *Peer) FramesUp() int64 { return p.Frames[frame.C2U] + p.Frames[0] }
func (p *Peer) BytesUp() int64  { return p.Bytes[frame.C2U] + p.Bytes[0] }

// FramesDown is how many frames came from the unit; BytesDown their bytes.
func (p *Peer) FramesDown() int64 { return p.Frames[frame.U2C] }
func (p *Peer) BytesDown() int64  { return p.Bytes[frame.U2C] }

const (
	maxLines = 5000
	maxLine  = 4096
)

func (p *Peer) addEvent(s *Store, r *capture.Record) {
	text := string(r.Text[:min(len(r.Text), maxLine)])
	switch r.Kind {
	case capture.Opened:
		s.named[p.short]--
		p.Name, p.short = text, ShortName(text)
		s.named[p.short]++
		text = "opened " + text
	case capture.HalfClosed:
		if r.Dir <= frame.U2C {
			p.Half[r.Dir] = true
		}
		text = "the " + side(r.Dir) + " has closed its side"
	case capture.Exited:
		if text != "" {
			p.Exit, p.Failed = "not started", true
			break
		}
		p.Exit, p.Failed = fmt.Sprintf("exit status %d", r.Status), r.Status != 0
		text = "the unit's process ended: " + p.Exit
	case capture.Signalled:
		p.Exit, p.Failed = "ended by "+text, true
		text = "the unit's process was " + p.Exit
	case capture.Note, capture.Lingering:
		if !strings.HasPrefix(text, "{") { // what a gate did to a frame
			p.Note = text
		}
	}
	s.log = append(s.log, Line{Time: r.Time, Conn: r.Conn, Kind: r.Kind, Text: text})
	if len(s.log) > maxLines {
		s.log = append(s.log[:0], s.log[maxLines/10:]...)
	}
}

func side(d frame.Dir) string {
	switch d {
	case frame.C2U:
		return "controller"
	case frame.U2C:
		return "unit"
	}
	return "peer"
}

// Peers are the connections, with standard error and events.
type Peers struct {
	Session capture.Session
	Peers   []Peer
	Lines   []Line // the last ones
	Total   int    // of lines
}

// Peers returns the connections and the last n lines.
func (s *Store) Peers(n int) Peers {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := Peers{Session: s.session, Total: len(s.log), Lines: slices.Clone(s.log[max(0, len(s.log)-n):])}
	for _, c := range s.order {
		p := *s.peers[c]
		if c == 0 && p.Frames == [3]int64{} {
			continue // it has events of the session as a whole
		}
		p.Label, p.Name = s.label(&p), cmp.Or(p.Name, s.session.Unit)
		out.Peers = append(out.Peers, p)
	}
	for i := range out.Lines {
		if p := s.peers[out.Lines[i].Conn]; p != nil {
			out.Lines[i].Peer = s.label(p)
		}
	}
	return out
}
