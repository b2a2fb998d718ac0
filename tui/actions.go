package tui

import (
	"cmp"
	"strings"
	"sync"

	"github.com/charmbracelet/bubbles/key"
	tea "github.com/charmbracelet/bubbletea"

	"github.com/wirectl/wirectl/store"
)

// A pending is an action that awaits confirmation.
type pending struct {
	question string
	then     func() tea.Cmd
}

func (m *Model) confirm(k tea.KeyMsg) tea.Cmd {
	p := m.pending
	m.pending = nil
	if k.String() != "y" && k.String() != "Y" {
		m.notice = "nothing was done"
		return nil
	}
	return p.then()
}

// changes are requested changes to the store, in the order of the requests. The first
// goroutine to come carries them out.
type changes struct {
	doing sync.Mutex // held while something is done

	mu   sync.Mutex
	todo []func()
}

func (c *changes) addChange(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.todo = append(c.todo, do)
}

// settle carries out the pending changes, and waits for those that another goroutine is
// making.
func (c *changes) settle() {
	c.doing.Lock()
	defer c.doing.Unlock()
	c.mu.Lock()
	todo := c.todo
	c.todo = nil
	c.mu.Unlock()
	for _, do := range todo {
		do()
	}
}

// change returns the command that changes what the store keeps, and then asks for the
// screen. The store may make it wait for a batch. A key that quits does not wait for
// commands: the change is made all the same, when the monitor has ended.
func (m *Model) change(do func()) tea.Cmd {
	m.changes.addChange(do)
	return m.askStore()
}

// lasting returns a command whose effect is visible outside the monitor, such as a file. It
// is completed even if the monitor has ended.
func (m *Model) lasting(do func() tea.Msg) tea.Cmd {
	once := sync.OnceValue(do)
	m.outside = append(m.outside, once)
	return once
}

// applyChanges carries out the requested changes, and waits for those under way.
func (m *Model) applyChanges() {
	m.changes.settle()
	for _, do := range m.outside {
		do()
	}
}

// bookmark turns the bookmark of a frame on or off.
func (m *Model) bookmark(seq int64) tea.Cmd {
	s := m.store
	return m.change(func() { s.Bookmark(seq) })
}

// exchangeKey handles a key for an exchange, which may be nil.
func (m *Model) exchangeKey(k tea.KeyMsg, x *store.Exchange) tea.Cmd {
	keys := &m.keys
	if x == nil {
		if key.Matches(k, keys.Note, keys.Bookmark, keys.Write, keys.Diff, keys.Cancel, keys.Resend, keys.Copy) {
			m.notice = "select an exchange first"
		}
		return nil
	}
	switch {
	case key.Matches(k, keys.Note):
		return m.askFor("note on "+idOf(x.ID)+" ", x.Note, func(text string) tea.Cmd {
			s := m.store
			return m.change(func() { s.Note(x.Mark, text) })
		})
	case key.Matches(k, keys.Bookmark):
		return m.bookmark(x.First)
	case key.Matches(k, keys.Write):
		return m.askForFile(x.First, x.Mark)
	case key.Matches(k, keys.Diff):
		if x.Last == x.First {
			return m.openFrame(x.First)
		}
		return m.openBeside(x.First, x.Last)
	case key.Matches(k, keys.Copy):
		return m.withRequest(x, m.copyRequest)
	case key.Matches(k, keys.Resend) && m.config.Repeat != nil && (m.config.Wire == nil || m.config.Wire.Refuses() != ""):
		return m.withRequest(x, m.askForServer)
	case key.Matches(k, keys.Cancel) && x.Refusal != "" && m.changeable():
		m.notice, m.wrong = "no cancel: "+x.Refusal, true
	case key.Matches(k, keys.Cancel):
		return m.act("cancel "+x.Kind+" "+idOf(x.ID), func(w Wire) error { return w.Cancel(x.Conn, x.ID) })
	case key.Matches(k, keys.Resend):
		return m.act("send "+x.Kind+" "+idOf(x.ID)+" again", func(w Wire) error { return w.Resend(x.First) })
	}
	return nil
}

// requestMsg is a request that was read, and what to do with it.
type requestMsg struct {
	*store.Request
	err  error
	then func(*store.Request) tea.Cmd
}

// requested goes on with a request.
func (m *Model) requested(msg requestMsg) tea.Cmd {
	if m.reading = false; msg.err != nil {
		return m.refuse(msg.err.Error())
	}
	return msg.then(msg.Request)
}

// withRequest reads the request of an exchange.
func (m *Model) withRequest(x *store.Exchange, then func(*store.Request) tea.Cmd) tea.Cmd {
	s, first := m.store, x.First
	m.reading = true
	return func() tea.Msg {
		r, err := s.Request(first)
		return requestMsg{r, err, then}
	}
}

// copyRequest copies a request as a command.
func (m *Model) copyRequest(r *store.Request) tea.Cmd {
	command := r.Command(m.config.Speaks)
	if command == "" {
		return m.refuse("no command sends " + r.Protocol + " " + r.Method + ": open it (enter) and copy its payload")
	}
	return m.copy([]byte(command), "copied "+command)
}

// askForServer asks which server a request of a record is for, and sends it there.
func (m *Model) askForServer(r *store.Request) tea.Cmd {
	if why := r.Refuses(m.config.Speaks); why != "" {
		return m.refuse(why)
	}
	cmd := m.askFor("send "+r.Method+" to ", cmp.Or(m.server, m.config.Server), func(server string) tea.Cmd {
		if server = strings.TrimSpace(server); server == "" {
			return nil
		}
		m.server, m.notice = server, "waiting for the answer of "+server
		s, repeat := m.store, m.config.Repeat
		return tea.Batch(m.change(func() { s.KeepServer(server) }), func() tea.Msg {
			answer, err := repeat(r.Args(server))
			if err != nil {
				return saidMsg{text: err.Error(), wrong: true}
			}
			return saidMsg{text: r.Method + " answers: " + answer}
		})
	})
	m.prompt.hint = "http://…, or the command of a server"
	if r.Server != "" { // of a record, which may come from anybody: it is not there to be run
		m.prompt.hint += "; recorded: " + r.Server
	}
	return cmd
}

// holdKey handles a key for frames that are held, and reports whether it was one.
func (m *Model) holdKey(k tea.KeyMsg) (tea.Cmd, bool) {
	keys, held := &m.keys, m.page.overview.Held
	switch {
	case key.Matches(k, keys.Hold):
		if !m.changeable() {
			return nil, true
		}
		return m.askFor("hold frames that match (empty: release all) ", m.filter, func(where string) tea.Cmd {
			what := "hold frames that match " + where
			if where == "" {
				what = "stop holding frames"
			}
			return m.act(what, func(w Wire) error { return w.Hold(where) })
		}), true
	case len(held) == 0:
		return nil, false
	case key.Matches(k, keys.Release):
		return m.letGo("release frame "+count(held[0].Number), held[0].Number, Wire.Release), true
	case key.Matches(k, keys.Drop):
		return m.letGo("drop frame "+count(held[0].Number), held[0].Number, Wire.Drop), true
	case key.Matches(k, keys.Edit):
		return m.edit(held[0]), true
	}
	return nil, false
}

// edit asks for a replacement for a held frame.
func (m *Model) edit(h store.Held) tea.Cmd {
	return m.askFor("frame "+count(h.Number)+" becomes ", h.Text, func(text string) tea.Cmd {
		payload, err := h.Edited(text)
		if err != nil {
			return m.refuse(err.Error())
		}
		return m.letGo("change frame "+count(h.Number), h.Number, func(w Wire, held int64) error { return w.Edit(held, payload) })
	})
}

// letGo releases a held frame. The next key applies to the frame after it, even if the
// wire reports that frame later.
func (m *Model) letGo(what string, held int64, do func(w Wire, held int64) error) tea.Cmd {
	s := m.store
	return m.act(what, func(w Wire) error {
		err := do(w, held)
		if err == nil {
			s.Let(held)
		}
		return err
	})
}

// changeable reports whether frames on the wire can be changed, and says why not.
func (m *Model) changeable() bool {
	why := "this session is read-only: only the tap of a relay takes commands"
	if m.config.Wire != nil {
		why = m.config.Wire.Refuses()
	}
	if why != "" {
		m.notice, m.wrong = why, true
	}
	return why == ""
}

// act changes frames on the wire after two confirmations.
func (m *Model) act(what string, do func(Wire) error) tea.Cmd {
	if !m.changeable() {
		return nil
	}
	w := m.config.Wire
	m.pending = &pending{"this changes live traffic: " + what + "?", func() tea.Cmd {
		m.pending = &pending{"The peers will see the change, and the session will be marked as altered. Really " + what + "?", func() tea.Cmd {
			return m.done(what, func() error { return do(w) })
		}}
		return nil
	}}
	return nil
}

// done changes the wire, and reports the outcome.
func (m *Model) done(what string, do func() error) tea.Cmd {
	m.acting++
	return m.lasting(func() tea.Msg {
		if err := do(); err != nil {
			return saidMsg{text: err.Error(), wrong: true, wire: true}
		}
		return saidMsg{text: "done: " + what, wire: true}
	})
}

// A scope is a set of records that can be written to a file.
type scope struct {
	what    string
	records func() *store.Records
}

// scopes returns the scopes for a selected frame: its exchange, the frame alone, and all
// that are listed.
func (m *Model) scopes(seq int64, mark uint32) (list []scope) {
	s, o := m.store, &m.page.overview
	if mark != 0 {
		list = append(list, scope{"the exchange", func() *store.Records { return s.RecordsOf(seq, mark) }})
	}
	list = append(list, scope{"frame #" + count(seq), func() *store.Records { return s.RecordsOf(seq, 0) }})
	all := "all " + count(o.Frames-o.Dropped) + " frames"
	if m.filter != "" {
		all = "the " + count(o.Matches) + " frames that match"
	}
	return append(list, scope{all, s.Listed})
}

// askForFile asks for a scope and a file to write it to.
func (m *Model) askForFile(seq int64, mark uint32) tea.Cmd {
	write := m.config.Write
	if write == nil {
		return nil
	}
	scopes, at := m.scopes(seq, mark), 0
	cmd := m.askFor("", "", func(name string) tea.Cmd {
		if name == "" {
			return nil
		}
		records := scopes[at].records
		return m.lasting(func() tea.Msg {
			r := records()
			if err := write(name, r); err != nil {
				return saidMsg{text: err.Error(), wrong: true}
			}
			if r.Gone() > 0 {
				return saidMsg{text: "wrote " + count(int64(r.Len()-r.Gone())) + " frames to " + name + "; the bytes of " + count(int64(r.Gone())) + " are no longer kept", wrong: true}
			}
			n := int64(r.Len())
			return saidMsg{text: "wrote " + count(n) + plural(n, " frame to ", " frames to ") + name}
		})
	})
	p := m.prompt
	p.hint = ".ndjson, .pcapng(.zst) or a folder"
	p.turn = func() {
		at = (at + 1) % len(scopes)
		p.label = "write " + scopes[at].what + " (tab: " + scopes[(at+1)%len(scopes)].what + ") to "
	}
	at = len(scopes) - 1
	p.turn() // to the first
	return cmd
}
