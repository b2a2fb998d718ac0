package capture

import (
	"strconv"
	"strings"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
)

// AppendMeta appends a frame's carrier metadata as a JSON object, without the payload and the
// framing. The fields of a head become members of one object, under their names in lower
// case. Fields of the same name are joined by ", ".
func AppendMeta(dst []byte, m *frame.Meta) []byte {
	o := object{dst: append(dst, '{')}
	o.addText("signal", string(m.Signal))
	if h := m.Head; h != nil {
		o.addText("start", h.Start)
		o.key("headers")
		o.dst = appendFields(o.dst, h.Fields)
	}
	o.addText("opcode", m.Opcode.String())
	o.addText("encoding", m.Encoding)
	o.addText("event", m.Event)
	o.addText("event_id", m.EventID)
	if m.Code != 0 {
		o.key("code")
		o.dst = strconv.AppendUint(o.dst, uint64(m.Code), 10)
	}
	o.addText("text", m.Text)
	return append(o.dst, '}')
}

// An object is a JSON object under construction.
type object struct {
	dst  []byte
	next bool
}

func (o *object) key(name string) {
	if o.next {
		o.dst = append(o.dst, ',')
	}
	o.next = true
	o.dst = jsonscan.AppendQuote(o.dst, []byte(name))
	o.dst = append(o.dst, ':')
}

func (o *object) addText(name, value string) {
	if value != "" {
		o.key(name)
		o.dst = jsonscan.AppendQuote(o.dst, []byte(value))
	}
}

func appendFields(dst []byte, fields []frame.Field) []byte {
	o := object{dst: append(dst, '{')}
	for _, f := range joined(fields) {
		o.key(f.Name)
		o.dst = jsonscan.AppendQuote(o.dst, []byte(f.Value))
	}
	return append(o.dst, '}')
}

// joined returns each name once, in lower case and at its first position, with all its
// values.
func joined(fields []frame.Field) []frame.Field {
	var all []frame.Field
	place := make(map[string]int, len(fields))
	for _, f := range fields {
		name := strings.ToLower(f.Name)
		if i, seen := place[name]; seen {
			all[i].Value += ", " + f.Value
			continue
		}
		place[name] = len(all)
		all = append(all, frame.Field{Name: name, Value: f.Value})
	}
	return all
}

// ParseMeta parses the output of AppendMeta. It normalizes fields that were written in
// another way. Unknown members are dropped; rest, if not nil, is called with them.
func ParseMeta(text []byte, rest func(key, value []byte)) (*frame.Meta, error) {
	m := &frame.Meta{}
	var s jsonscan.Scanner
	s.Init(text)
	for ok := s.Object(); ok && s.Next(); {
		key, value := s.Key(), s.Value()
		str, _ := jsonscan.Unquote(value)
		switch string(key) {
		case "signal":
			m.Signal = frame.Signal(str)
		case "start":
			head(m).Start = string(str)
		case "headers":
			head(m).Fields = parseFields(value)
		case "opcode":
			m.Opcode = opcodeOf(string(str))
		case "encoding":
			m.Encoding = string(str)
		case "event":
			m.Event = string(str)
		case "event_id":
			m.EventID = string(str)
		case "code":
			n, _ := strconv.ParseUint(string(value), 10, 32)
			m.Code = uint32(n)
		case "text":
			m.Text = string(str)
		default:
			if rest != nil {
				rest(key, value)
			}
		}
	}
	return m, s.End()
}

// head returns the head of m, creating it if necessary.
func head(m *frame.Meta) *frame.Head {
	if m.Head == nil {
		m.Head = &frame.Head{}
	}
	return m.Head
}

func parseFields(text []byte) (fields []frame.Field) {
	var s jsonscan.Scanner
	s.Init(text)
	for ok := s.Object(); ok && s.Next(); {
		name := string(s.Key())
		value, _ := jsonscan.Unquote(s.Value())
		fields = append(fields, frame.Field{Name: name, Value: string(value)})
	}
	return joined(fields)
}

func opcodeOf(name string) frame.Opcode {
	for _, o := range []frame.Opcode{frame.TextMsg, frame.BinMsg} {
		if o.String() == name {
			return o
		}
	}
	return frame.NoOpcode
}
