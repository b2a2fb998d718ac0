package pcapng

import "encoding/binary"

// The methods in this file append to the writer's buffer, in little-endian order. The methods
// for tags are in tags.go.

func (w *Writer) u16(v uint16) { w.buf = binary.LittleEndian.AppendUint16(w.buf, v) }
func (w *Writer) u32(v uint32) { w.buf = binary.LittleEndian.AppendUint32(w.buf, v) }
func (w *Writer) u64(v uint64) { w.buf = binary.LittleEndian.AppendUint64(w.buf, v) }

// pad appends zeros that round n bytes up to a multiple of four.
func (w *Writer) pad(n int) { w.buf = append(w.buf, "\x00\x00\x00"[:padding(n)]...) }

// beginBlock begins a block and returns its start, which endBlock needs.
func (w *Writer) beginBlock(kind uint32) (start int) {
	start = len(w.buf)
	w.u32(kind)
	w.u32(0)
	return start
}

// endBlock writes the length of the block that begins at start.
func (w *Writer) endBlock(start int) {
	n := uint32(len(w.buf) - start + 4)
	binary.LittleEndian.PutUint32(w.buf[start+4:], n)
	w.u32(n)
}

// option appends an option. The value must not be longer than maxOption.
func (w *Writer) option(code uint16, value []byte) {
	w.u16(code)
	w.u16(uint16(len(value)))
	w.buf = append(w.buf, value...)
	w.pad(len(value))
}

// word appends an option that consists of one 32-bit number.
func (w *Writer) word(code uint16, value uint32) {
	w.u16(code)
	w.u16(4)
	w.u32(value)
}

// custom appends a part that is specific to wirectl.
func (w *Writer) custom(part byte, value []byte) {
	w.u16(optCustom)
	w.u16(uint16(4 + 1 + len(value)))
	w.u32(pen)
	w.buf = append(w.buf, part)
	w.buf = append(w.buf, value...)
	w.pad(1 + len(value))
}
