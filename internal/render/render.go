// Package render makes bytes from the wire safe to show on a terminal.
//
// Whatever a peer sends, the output has no control characters except the line feeds and
// colours of this package, and no characters that are invisible or reorder their neighbours:
// those are shown as escapes.
package render

// A Style is a palette. The zero Style paints nothing.
type Style struct {
	Key, String, Number, Literal, Punct Paint // JSON
	Offset, Dim                         Paint // positions, and less important bytes
	Kind, ID, Error                     Paint // columns of a record
}

// A Paint is a colour: the sequences that turn it on and off.
type Paint struct{ On, Off string }

// Append appends text between p.On and p.Off. Text must be safe already.
func (p Paint) Append(dst []byte, text string) []byte {
	dst = append(dst, p.On...)
	dst = append(dst, text...)
	return append(dst, p.Off...)
}

// Text is Append for strings.
func (p Paint) Text(text string) string { return p.On + text + p.Off }
