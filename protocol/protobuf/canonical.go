package protobuf

import (
	"bytes"
	"encoding/base64"
	"math"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// A canonical writes the JSON form of a message in one walk, if the message is as most encoders
// write it: known fields in ascending order, each once and in its shortest form, none of them a
// default that need not be written. Then AppendWire restores it from that form. Its methods return
// false for any other message, and for floats, keys that are no strings, groups, and types with forms
// of their own.
type canonical struct {
	reader
	dst []byte
}

// maxCanonical bounds the nesting.
const maxCanonical = 32

func (c *canonical) message(md protoreflect.MessageDescriptor, end, depth int) bool {
	if depth > maxCanonical || md.FullName().Parent() == "google.protobuf" {
		return false
	}
	c.dst = append(c.dst, '{')
	fields := md.Fields()
	var last, open protoreflect.FieldDescriptor // open is an unpacked list or a map that may go on
	var ends, key []byte                        // of the open one: its last byte in JSON, and the latest key
	var chosen []protoreflect.OneofDescriptor
	for c.pos < end {
		tag, ok := c.shortest(end)
		num, typ := protowire.DecodeTag(tag)
		if !ok || num < protowire.MinValidNumber {
			return false
		}
		fd := fields.ByNumber(num)
		switch {
		case fd == nil || fd.IsPacked() != (typ != wireTypes[fd.Kind()]):
			return false
		case fd == open:
			c.dst = append(c.dst, ',')
		case last != nil && (num <= last.Number() || fd.Index() <= last.Index()), fields.ByJSONName(fd.JSONName()) != fd:
			return false
		default:
			if oneof := fd.ContainingOneof(); oneof != nil {
				if slices.Contains(chosen, oneof) {
					return false
				}
				chosen = append(chosen, oneof)
			}
			if c.dst = append(c.dst, ends...); last != nil {
				c.dst = append(c.dst, ',')
			}
			c.dst = append(jsonscan.AppendQuote(c.dst, []byte(fd.JSONName())), ':')
			switch open, ends, key = nil, nil, nil; {
			case fd.IsMap():
				open, ends, c.dst = fd, []byte{'}'}, append(c.dst, '{')
			case fd.IsList() && !fd.IsPacked():
				open, ends, c.dst = fd, []byte{']'}, append(c.dst, '[')
			}
		}
		switch last = fd; {
		case fd.IsMap():
			key, ok = c.entry(fd, key, end, depth)
		case fd.IsPacked():
			ok = c.packed(fd, typ, end)
		default:
			ok = c.value(fd, end, depth, fd.HasPresence() || fd.IsList())
		}
		if !ok {
			return false
		}
	}
	c.dst = append(append(c.dst, ends...), '}')
	return true
}

// entry writes an entry of a map, whose key follows after, and returns the key.
func (c *canonical) entry(fd protoreflect.FieldDescriptor, after []byte, end, depth int) (key []byte, ok bool) {
	stop, ok := c.extent(end)
	if !ok || fd.MapKey().Kind() != protoreflect.StringKind || !c.has(0x0a, stop) {
		return nil, false
	}
	ends, ok := c.extent(stop)
	if !ok {
		return nil, false
	}
	key, c.pos = c.wire[c.pos:ends], ends
	if c.dst, ok = jsonscan.AppendQuoteUTF8(c.dst, key); !ok || after != nil && bytes.Compare(after, key) >= 0 {
		return nil, false
	}
	c.dst = append(c.dst, ':')
	value := fd.MapValue()
	ok = c.has(byte(protowire.EncodeTag(2, wireTypes[value.Kind()])), stop) && c.value(value, stop, depth, true)
	return key, ok && c.pos == stop
}

// has reads a tag of one byte.
func (c *canonical) has(tag byte, end int) bool {
	c.pos++
	return c.pos <= end && c.wire[c.pos-1] == tag
}

func (c *canonical) packed(fd protoreflect.FieldDescriptor, typ protowire.Type, end int) bool {
	stop, ok := c.extent(end)
	if !ok || typ != protowire.BytesType || stop == c.pos {
		return false
	}
	for separator := byte('['); c.pos < stop; separator = ',' {
		if c.dst = append(c.dst, separator); !c.value(fd, stop, 0, true) {
			return false
		}
	}
	c.dst = append(c.dst, ']')
	return true
}

func (c *canonical) value(fd protoreflect.FieldDescriptor, end, depth int, mayBeZero bool) bool {
	var n uint64
	var ok bool
	switch wireTypes[fd.Kind()] {
	case protowire.VarintType:
		n, ok = c.shortest(end)
	case protowire.Fixed32Type:
		var short uint32
		short, ok = c.fixed32(end)
		n = uint64(short)
	case protowire.Fixed64Type:
		n, ok = c.fixed64(end)
	case protowire.BytesType:
		stop, ok := c.extent(end)
		if !ok || stop == c.pos && !mayBeZero {
			return false
		}
		switch value := c.wire[c.pos:stop]; {
		case fd.Kind() == protoreflect.StringKind:
			c.pos = stop
			c.dst, ok = jsonscan.AppendQuoteUTF8(c.dst, value)
			return ok
		case fd.Kind() == protoreflect.BytesKind:
			c.pos = stop
			c.dst = append(base64.StdEncoding.AppendEncode(append(c.dst, '"'), value), '"')
			return true
		}
		return c.message(fd.Message(), stop, depth+1)
	}
	return ok && (n != 0 || mayBeZero) && c.number(fd, n)
}

// number writes a number of a field that fits it.
func (c *canonical) number(fd protoreflect.FieldDescriptor, n uint64) bool {
	switch fd.Kind() {
	case protoreflect.BoolKind:
		c.dst = strconv.AppendBool(c.dst, n == 1)
		return n <= 1
	case protoreflect.EnumKind:
		enum := fd.Enum()
		if name := enum.Values().ByNumber(protoreflect.EnumNumber(n)); name != nil {
			c.dst = append(append(append(c.dst, '"'), name.Name()...), '"')
		} else if c.dst = strconv.AppendInt(c.dst, int64(n), 10); enum.IsClosed() {
			return false
		}
		return n == uint64(int32(n)) && enum.FullName().Parent() != "google.protobuf"
	case protoreflect.Int32Kind:
		c.dst = strconv.AppendInt(c.dst, int64(n), 10)
		return n == uint64(int32(n))
	case protoreflect.Sint32Kind:
		c.dst = strconv.AppendInt(c.dst, protowire.DecodeZigZag(n), 10)
		return n <= math.MaxUint32
	case protoreflect.Sfixed32Kind:
		c.dst = strconv.AppendInt(c.dst, int64(int32(n)), 10)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		c.dst = strconv.AppendUint(c.dst, n, 10)
		return n <= math.MaxUint32
	case protoreflect.Int64Kind, protoreflect.Sfixed64Kind:
		c.dst = append(strconv.AppendInt(append(c.dst, '"'), int64(n), 10), '"')
	case protoreflect.Sint64Kind:
		c.dst = append(strconv.AppendInt(append(c.dst, '"'), protowire.DecodeZigZag(n), 10), '"')
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		c.dst = append(strconv.AppendUint(append(c.dst, '"'), n, 10), '"')
	default:
		return false
	}
	return true
}

// shortest reads a number that is written with as few bytes as possible.
func (c *canonical) shortest(end int) (n uint64, ok bool) {
	from := c.pos
	n, ok = c.varint(end)
	return n, ok && c.pos-from == protowire.SizeVarint(n)
}

// extent reads the length of a value, and returns where that ends.
func (c *canonical) extent(end int) (stop int, ok bool) {
	n, ok := c.shortest(end)
	return c.pos + int(min(n, math.MaxInt32)), ok && n <= uint64(end-c.pos)
}
