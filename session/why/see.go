package why

import (
	"bytes"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/llm"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/session"
)

// A Frame is a frame with its meaning, as a reader sees it. Nothing of it is kept.
type Frame struct {
	*frame.Frame
	Seq      int64
	Time     time.Time
	Protocol protocol.Protocol
	Message  *protocol.Message // nil if there is none
	Body     []byte            // the payload, without its compression
	Outlined bool              // without its texts: then equal ones may have been different
}

// See reads a frame, before the trackers do.
func (r *Reader) See(f Frame) {
	if r.note(f.Time); r.first.IsZero() {
		r.first, r.Log.First = f.Time, f.Time
	}
	if f.Gap {
		return
	}
	if f.Meta != nil && f.Meta.Framing == frame.HTTP {
		r.streams.see(&f)
		if !f.Outlined {
			r.auth.see(&f)
		}
	}
	if f.Message == nil || f.Outlined {
		return
	}
	r.offer.AddMessage(f.Seq, f.Message, f.Body)
	spec := all.Of(f.Protocol)
	switch isModel := spec.API != nil || spec.Live != protocol.NotLive; {
	case isModel && f.Dir != frame.U2C && f.Message.Phase == protocol.Open:
		r.uses.seePrompt(&f)
	case !isModel:
		r.uses.see(&f)
	}
}

// A use is a call of a tool with a hash of its arguments and, once it was answered, of its result.
type use struct {
	arguments, result uint64
	answered          bool
}

// uses are the calls of tools, as far as their arguments and results are on a wire: the last ones of each tool.
type uses struct {
	seed maphash.Seed
	open map[string]*use   // on the wires of servers, by connection and id
	last map[int64]*use    // the same, by the number of the request's frame
	old  map[int64]*use    // before those
	back map[string]result // given to models, by the id of the tool call
	body map[int64]uint64  // hashes of requests to models, by the number of the frame
	// hidden means that some tools were offered within others, or are loaded later.
	hidden bool
}

// A result is one that was given to a model.
type result struct {
	hash  uint64
	frame int64
	ended string // true if it says that the tool failed, false if that it did not
	error string // its text then
}

const maxUses = 1 << 12

func (u *uses) init() {
	if u.open == nil {
		u.seed = maphash.MakeSeed()
		u.open, u.last, u.back, u.body = map[string]*use{}, map[int64]*use{}, map[string]result{}, map[int64]uint64{}
	}
}

func keyOf(f *Frame, id protocol.Token) string {
	return string(append(append(make([]byte, 0, 32), byte(f.Conn), byte(f.Conn>>8), byte(f.Conn>>16)), id.Text...))
}

// see reads a message on the wire of a server, or in what a program tells about itself.
func (u *uses) see(f *Frame) {
	m := f.Message
	id := m.ID
	if m.Phase.Ends() && !m.Ref.IsZero() && m.Ref.Space == protocol.SpaceID {
		id = m.Ref
	}
	if id.IsZero() || m.Phase != protocol.Open && !m.Phase.Ends() {
		return
	}
	u.init()
	key := keyOf(f, id)
	if m.Phase == protocol.Open {
		if m.Label == nil {
			return
		}
		if len(u.last) >= maxUses {
			u.old, u.last, u.open = u.last, map[int64]*use{}, map[string]*use{}
		}
		x := &use{}
		if !slices.ContainsFunc(all.Of(f.Protocol).Joins, func(j protocol.Join) bool { return j.As == protocol.WithArguments }) {
			x.arguments = protocol.HashOfArguments(m.Text) // others are in the links of the call
		}
		u.open[key], u.last[f.Seq] = x, x
		return
	}
	if x := u.open[key]; x != nil {
		delete(u.open, key)
		x.answered, x.result = !all.Rules(f.Protocol).NoOutput, maphash.Bytes(u.seed, m.Text) // the output of a process is not known
	}
}

// of returns the use that a request began; nil if it is unknown.
func (u *uses) of(seq int64) *use {
	if x := u.last[seq]; x != nil {
		return x
	}
	return u.old[seq]
}

// seePrompt reads the results of tools in a request to a model, which most APIs repeat each time.
func (u *uses) seePrompt(f *Frame) {
	if len(f.Body) == 0 || f.Body[0] != '{' {
		return
	}
	u.init()
	if len(u.body) < maxUses {
		u.body[f.Seq] = maphash.Bytes(u.seed, f.Body)
	}
	for part, message := range llm.Prompt(f.Body) {
		if part == llm.ToolPart {
			_, holds := jsonscan.Get(message, "tools")
			_, later := jsonscan.Get(message, "defer_loading")
			u.hidden = u.hidden || holds || later
		}
		if part != llm.MessagePart {
			continue
		}
		for r := range llm.ToolResults(message) {
			if _, known := u.back[r.ID]; !known && r.ID != "" && len(u.back) < maxUses {
				content := essence(r.Content)
				back := result{hash: maphash.Bytes(u.seed, content), frame: f.Seq, ended: string(r.Failed)}
				if back.ended == "true" {
					var s jsonscan.Scanner
					s.Init(content)
					text, _ := jsonscan.Unquote(llm.LastText(&s))
					text = bytes.TrimPrefix(bytes.TrimSpace(text), []byte("<tool_use_error>"))
					back.error = session.OneLine(bytes.TrimSuffix(text, []byte("</tool_use_error>")))
				}
				u.back[strings.Clone(r.ID)] = back
			}
		}
	}
}

// essence returns the result of a tool without what differs each time: what Claude Code adds, such as how many
// tokens are left, and the head that Codex puts before the output of a command.
func essence(content []byte) []byte {
	if head, output, found := bytes.Cut(content, []byte(`\nOutput:\n`)); found && bytes.HasPrefix(head, []byte(`"Chunk ID: `)) {
		_, status, _ := bytes.Cut(head, []byte(`\nProcess exited`))
		content = slices.Concat([]byte(`"`), status, output)
	}
	begin, end := []byte("<system-reminder>"), []byte("</system-reminder>")
	if !bytes.Contains(content, begin) {
		return content
	}
	var kept []byte
	for {
		before, rest, found := bytes.Cut(content, begin)
		kept = append(kept, before...)
		_, after, ended := bytes.Cut(rest, end)
		if !found || !ended {
			return kept
		}
		content = after
	}
}

// streams are when the responses over HTTP began, and when the last piece of each came.
type streams struct {
	open map[exchange]*stream
	of   map[int64]*stream // by the number of the request's frame
}

// An exchange is a request of HTTP with its response.
type exchange struct {
	conn   int
	stream int64
}

type stream struct {
	request    int64
	head, last int64 // frames; 0 for none yet
	lastAt     time.Time
	status     string
	ended      bool
}

func (st *streams) see(f *Frame) {
	at, head := exchange{f.Conn, f.Stream}, f.Meta.Head
	switch {
	case head.Method() != "":
		if st.open == nil || len(st.of) >= maxUses {
			st.open, st.of = map[exchange]*stream{}, map[int64]*stream{}
		}
		s := &stream{request: f.Seq}
		st.open[at], st.of[f.Seq] = s, s
	case f.Dir == frame.U2C:
		s := st.open[at]
		if s == nil {
			return
		}
		if head != nil && s.head == 0 && !strings.HasPrefix(head.Status(), "1") {
			s.head, s.status = f.Seq, head.Status()
		}
		s.last, s.lastAt = f.Seq, f.Time
		if f.Meta.Signal == frame.End || f.Meta.Signal == frame.Reset {
			s.ended = true
			delete(st.open, at)
		}
	case f.Meta.Signal == frame.NoSignal: // in HTTP/2, the body of the request
		if s := st.open[at]; s != nil {
			st.of[f.Seq] = s
		}
	}
}
