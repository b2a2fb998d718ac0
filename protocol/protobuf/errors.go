package protobuf

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Error describes a fault in the wire format or JSON form of a message, and its place.
type Error struct {
	// Path names the field, from the outermost message inwards, by the names of the schema
	// or, without a schema, by numbers. A long path begins with an ellipsis. If no field is
	// at fault, it is the name of the message itself. It may be empty.
	Path   string
	Offset int // in the payload; negative if no byte is at fault
	Msg    string
}

func (e *Error) Error() string {
	switch {
	case e.Offset < 0:
		return fmt.Sprintf("%s: %s", e.Path, e.Msg)
	case e.Path == "":
		return fmt.Sprintf("byte %d: %s", e.Offset, e.Msg)
	}
	return fmt.Sprintf("%s at byte %d: %s", e.Path, e.Offset, e.Msg)
}

// WireError describes an error code of package protowire at an offset.
func WireError(at, code int) *Error {
	e := &Error{Offset: at}
	switch err := protowire.ParseError(code); {
	case errors.Is(err, io.ErrUnexpectedEOF):
		e.Msg = "truncated"
	case errors.Is(err, protowire.ParseError(math.MinInt)): // an error code without a text of its own
		e.Msg = fmt.Sprintf("groups nested deeper than %d", protowire.DefaultRecursionLimit)
	default:
		e.Msg = plain(err)
	}
	return e
}

// plain returns the text of an error of the protobuf module without its prefix. The module
// deliberately varies the white space of that prefix from build to build.
func plain(err error) string {
	text := strings.ReplaceAll(err.Error(), "\u00a0", " ")
	return strings.TrimPrefix(text, "proto: ")
}

// maxPath bounds a path, in bytes. The fields nearest to the fault are kept.
const maxPath = 200

// within prepends the name of the faulty field, if there is one, to the path of e.
func (e *Error) within(field string) {
	switch {
	case e == nil, strings.HasPrefix(e.Path, cut):
		return
	case len(e.Path)+len(field) >= maxPath:
		field = cut
	case e.Path != "":
		field += "."
	}
	e.Path = field + e.Path
}

// cut replaces the omitted fields of a path.
const cut = "…."

// of names the message if no field is named.
func (e *Error) of(md protoreflect.MessageDescriptor) *Error {
	if e.Path == "" {
		e.Path = string(md.FullName())
	}
	return e
}
