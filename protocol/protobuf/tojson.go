package protobuf

import (
	"fmt"
	"strconv"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/wirectl/wirectl/protocol/jsonscan"
)

// A printer writes messages in memory as JSON, as the protobuf JSON mapping defines
// it: members and map entries in the order of the wire that a message was read from,
// which it is given as the bodies of the records that were merged into the message.
type printer struct {
	dst     []byte
	types   resolver
	nesting int // of JSON objects and arrays
}

// formless says why a message cannot be written as JSON.
func formless(format string, args ...any) error {
	return &Error{Offset: -1, Msg: fmt.Sprintf(format, args...)}
}

// message writes a message in the form that its type has.
func (p *printer) message(m protoreflect.Message, bodies [][]byte) error {
	if s := specialOf(m.Descriptor()); s != nil {
		return s.print(p, m, bodies)
	}
	return p.object(m, bodies, "")
}

// object writes an object of the fields that are present, with the URL of its type
// ahead of them if that is not empty.
func (p *printer) object(m protoreflect.Message, bodies [][]byte, url string) error {
	if isMessageSet(m.Descriptor()) {
		return formless("%s is a message set, which JSON has no form for", m.Descriptor().FullName())
	}
	if err := p.open('{'); err != nil {
		return err
	}
	if url != "" {
		p.key(typeKey)
		if err := p.text(url); err != nil {
			return err
		}
	}
	for _, f := range membersOf(m, bodies) {
		p.key(f.fd.JSONName())
		if err := p.field(m.Get(f.fd), f); err != nil {
			return within(f.fd, err)
		}
	}
	p.close('}')
	return nil
}

func (p *printer) field(v protoreflect.Value, f *member) error {
	switch {
	case f.fd.IsList():
		return p.list(v.List(), f)
	case f.fd.IsMap():
		return p.entries(v.Map(), f)
	}
	return p.value(v, f.fd, f.bodies)
}

func (p *printer) list(l protoreflect.List, f *member) error {
	if err := p.open('['); err != nil {
		return err
	}
	for i := range l.Len() {
		p.dst = appendComma(p.dst)
		var bodies [][]byte
		if f.fd.Message() != nil {
			bodies = f.bodies[i : i+1]
		}
		if err := p.value(l.Get(i), f.fd, bodies); err != nil {
			return err
		}
	}
	p.close(']')
	return nil
}

func (p *printer) entries(m protoreflect.Map, f *member) error {
	if err := p.open('{'); err != nil {
		return err
	}
	for _, e := range entriesOf(f.fd, f.bodies) {
		p.key(e.key.String())
		if err := p.value(m.Get(e.key), f.fd.MapValue(), e.bodies); err != nil {
			return err
		}
	}
	p.close('}')
	return nil
}

// value writes one value of a field, of which a message has bodies.
func (p *printer) value(v protoreflect.Value, fd protoreflect.FieldDescriptor, bodies [][]byte) error {
	switch x := v.Interface().(type) {
	case protoreflect.Message:
		return p.message(x, bodies)
	case string:
		return p.text(x)
	case []byte:
		p.dst = appendBase64(p.dst, x)
	case bool:
		p.dst = strconv.AppendBool(p.dst, x)
	case protoreflect.EnumNumber:
		p.enum(x, fd)
	case int32:
		p.dst = strconv.AppendInt(p.dst, int64(x), 10)
	case uint32:
		p.dst = strconv.AppendUint(p.dst, uint64(x), 10)
	case float32:
		p.dst = appendFloat(p.dst, float64(x), 32)
	case float64:
		p.dst = appendFloat(p.dst, x, 64)
	default: // an integer of 64 bits
		p.dst = append(append(append(p.dst, '"'), v.String()...), '"')
	}
	return nil
}

func (p *printer) enum(n protoreflect.EnumNumber, fd protoreflect.FieldDescriptor) {
	switch named := fd.Enum().Values().ByNumber(n); {
	case isNull(fd):
		p.dst = append(p.dst, "null"...)
	case named != nil:
		p.dst = append(p.dst, quote(string(named.Name()))...)
	default:
		p.dst = strconv.AppendInt(p.dst, int64(n), 10)
	}
}

// open is [decoder.open].
func (p *printer) open(bracket byte) error {
	p.dst = append(p.dst, bracket)
	if p.nesting++; p.nesting > jsonscan.MaxDepth {
		return formless(tooDeep)
	}
	return nil
}

func (p *printer) close(bracket byte) {
	p.dst = append(p.dst, bracket)
	p.nesting--
}

// key writes the key of the next member.
func (p *printer) key(name string) {
	p.dst = append(jsonscan.AppendQuote(appendComma(p.dst), []byte(name)), ':')
}

func (p *printer) text(s string) error {
	var ok bool
	if p.dst, ok = jsonscan.AppendQuoteUTF8(p.dst, []byte(s)); !ok {
		return formless("invalid UTF-8")
	}
	return nil
}
