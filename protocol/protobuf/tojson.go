package protobuf

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/wirectl/wirectl/protocol/jsonscan"
)

// A printer writes messages in memory as JSON, as the protobuf JSON mapping defines
// it: fields in the order of the schema, extensions behind them, map entries by key.
type printer struct {
	dst   []byte
	types resolver
}

// formless says why a message cannot be written as JSON.
func formless(format string, args ...any) error {
	return &Error{Offset: -1, Msg: fmt.Sprintf(format, args...)}
}

// message writes a message in the form that its type has.
func (p *printer) message(m protoreflect.Message) error {
	if s := specialOf(m.Descriptor()); s != nil {
		return s.print(p, m)
	}
	return p.object(m, "")
}

// object writes an object of the fields that are present, with the URL of its type
// ahead of them if that is not empty.
func (p *printer) object(m protoreflect.Message, url string) error {
	if isMessageSet(m.Descriptor()) {
		return formless("%s is a message set, which JSON has no form for", m.Descriptor().FullName())
	}
	p.dst = append(p.dst, '{')
	if url != "" {
		p.key(typeKey)
		if err := p.text(url); err != nil {
			return err
		}
	}
	for _, fd := range present(m) {
		p.key(fd.JSONName())
		if err := p.field(m.Get(fd), fd); err != nil {
			return within(fd, err)
		}
	}
	p.dst = append(p.dst, '}')
	return nil
}

// present returns the fields that m has, in the order in which they are written.
func present(m protoreflect.Message) []protoreflect.FieldDescriptor {
	var all []protoreflect.FieldDescriptor
	m.Range(func(fd protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		all = append(all, fd)
		return true
	})
	slices.SortFunc(all, func(a, b protoreflect.FieldDescriptor) int {
		switch {
		case a.IsExtension() && b.IsExtension():
			return cmp.Compare(a.FullName(), b.FullName())
		case a.IsExtension():
			return 1
		case b.IsExtension():
			return -1
		}
		return cmp.Compare(a.Index(), b.Index())
	})
	return all
}

func (p *printer) field(v protoreflect.Value, fd protoreflect.FieldDescriptor) error {
	switch {
	case fd.IsList():
		return p.list(v.List(), fd)
	case fd.IsMap():
		return p.entries(v.Map(), fd)
	}
	return p.value(v, fd)
}

func (p *printer) list(l protoreflect.List, fd protoreflect.FieldDescriptor) error {
	p.dst = append(p.dst, '[')
	for i := range l.Len() {
		p.dst = appendComma(p.dst)
		if err := p.value(l.Get(i), fd); err != nil {
			return err
		}
	}
	p.dst = append(p.dst, ']')
	return nil
}

func (p *printer) entries(m protoreflect.Map, fd protoreflect.FieldDescriptor) error {
	var keys []protoreflect.MapKey
	m.Range(func(k protoreflect.MapKey, _ protoreflect.Value) bool {
		keys = append(keys, k)
		return true
	})
	slices.SortFunc(keys, compareKeys)
	p.dst = append(p.dst, '{')
	for _, k := range keys {
		p.key(k.String())
		if err := p.value(m.Get(k), fd.MapValue()); err != nil {
			return err
		}
	}
	p.dst = append(p.dst, '}')
	return nil
}

// compareKeys orders the keys of one map.
func compareKeys(a, b protoreflect.MapKey) int {
	switch a.Interface().(type) {
	case int32, int64:
		return cmp.Compare(a.Int(), b.Int())
	case uint32, uint64:
		return cmp.Compare(a.Uint(), b.Uint())
	}
	return cmp.Compare(a.String(), b.String())
}

// value writes one value of a field.
func (p *printer) value(v protoreflect.Value, fd protoreflect.FieldDescriptor) error {
	switch x := v.Interface().(type) {
	case protoreflect.Message:
		return p.message(x)
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
