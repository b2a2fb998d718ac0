package render

import "fmt"

// bytesPerLine is the number of bytes in a line, in two groups.
const bytesPerLine = 16

// A Hex is a view of the bytes of a frame, as hexdump -C shows them.
type Hex struct {
	// Base is the offset that is shown for the first byte.
	Base int64
	// Start and End bound the payload. The wrapper around it is painted [Style.Dim].
	Start, End int
	// Prefix begins every line.
	Prefix string
}

// Append appends data as lines with an offset, sixteen bytes and their ASCII characters, or
// dots for other bytes. A nil Style paints nothing.
func (h Hex) Append(dst, data []byte, st *Style) []byte {
	if st == nil {
		st = &Style{}
	}
	for at := 0; at < len(data); at += bytesPerLine {
		dst = h.line(dst, data, at, st)
	}
	return dst
}

// line appends the line that begins with data[at].
func (h Hex) line(dst, data []byte, at int, st *Style) []byte {
	dst = append(dst, h.Prefix...)
	dst = append(dst, st.Offset.On...)
	dst = fmt.Appendf(dst, "%08x", h.Base+int64(at))
	dst = append(dst, st.Offset.Off...)

	b := brush{Hex: h, paint: st.Dim}
	end := min(at+bytesPerLine, len(data))
	for i := at; i < end; i++ {
		dst = append(dst, gap(i-at)...)
		dst = b.move(dst, i)
		dst = append(dst, hexDigits[data[i]>>4], hexDigits[data[i]&0xF])
	}
	dst = b.lift(dst)
	for column := end - at; column < bytesPerLine; column++ {
		dst = append(dst, gap(column)...)
		dst = append(dst, "  "...)
	}

	dst = append(dst, "  |"...)
	for i := at; i < end; i++ {
		dst = b.move(dst, i)
		dst = append(dst, visible(data[i]))
	}
	dst = b.lift(dst)
	return append(dst, "|\n"...)
}

// gap returns the space before the byte in the given column.
func gap(column int) string {
	if column%(bytesPerLine/2) == 0 {
		return "  "
	}
	return " "
}

func visible(c byte) byte {
	if isPrintable(c) {
		return c
	}
	return '.'
}

// A brush paints the bytes of the wrapper, but not of the payload.
type brush struct {
	Hex
	paint Paint
	down  bool
}

// move puts the brush down or lifts it for the byte at i.
func (b *brush) move(dst []byte, i int) []byte {
	if i >= b.Start && i < b.End {
		return b.lift(dst)
	}
	if !b.down {
		b.down = true
		dst = append(dst, b.paint.On...)
	}
	return dst
}

func (b *brush) lift(dst []byte) []byte {
	if b.down {
		b.down = false
		dst = append(dst, b.paint.Off...)
	}
	return dst
}
