// Package render turns bytes from the wire into what a terminal may show.
//
// Whatever a peer sends, the output holds no control character but the line
// feeds and the colours that this package puts there itself, and no character
// that is unseen or reorders its neighbours: those are shown as escapes.
// What to show, and whether in colour, is the business of package commands.
package render

// A Style is a palette. The zero Style paints nothing.
type Style struct {
	Key, String, Number, Literal, Punct Paint // JSON
	Offset, Dim                         Paint // positions, and bytes that matter less
	Kind, ID, Error                     Paint // columns of a record
}

// A Paint is a colour: what turns it on and off on a terminal.
type Paint struct{ On, Off string }

// Append appends text between p.On and p.Off. It does not look at text, which
// must be safe already.
func (p Paint) Append(dst []byte, text string) []byte {
	dst = append(dst, p.On...)
	dst = append(dst, text...)
	return append(dst, p.Off...)
}
