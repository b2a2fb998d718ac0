package protobuf

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// Error describes a fault of a message in the wire format, or in JSON, and its place.
type Error struct {
	// Path names the field, from the outermost message inwards, by the names of the schema;
	// without a schema by numbers. A long path begins with an ellipsis. It is the name of
	// the message itself if no field is to blame, and may be empty.
	Path   string
	Offset int // in the payload; negative if no byte is to blame
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
	case errors.Is(err, protowire.ParseError(math.MinInt)): // an error without a word of its own
		e.Msg = fmt.Sprintf("groups nested deeper than %d", protowire.DefaultRecursionLimit)
	default:
		e.Msg = plain(err)
	}
	return e
}

// plain returns the text of an error of the protobuf module without its
// prefix, whose white space differs from build to build on purpose.
func plain(err error) string {
	text := strings.ReplaceAll(err.Error(), "\u00a0", " ")
	return strings.TrimPrefix(text, "proto: ")
}

// maxPath bounds a path, in bytes, which names the fields next to the fault.
const maxPath = 200

// within puts the name of the faulty field before the path of e, if there is one.
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

// cut replaces the fields that a path does not name.
const cut = "…."

// of names the message if no field is named.
func (e *Error) of(s *Schema) *Error {
	if e.Path == "" {
		e.Path = s.name
	}
	return e
}
