// Package pcapng reads and writes captures as standard pcapng, so that Wireshark and tshark
// open them with no plugin. docs/capture-format.md is the specification. This package does
// not interpret payloads.
//
// Files, pipes and live taps carry the same stream, and one [Reader] serves all three. It
// never seeks, and it returns a record as soon as its bytes have arrived.
package pcapng

import (
	"bytes"
	"math/bits"

	"github.com/wirectl/wirectl/protocol"
)

// Version is the version of the format that a [Writer] writes. A [Reader] rejects newer
// versions.
const Version = 1

// Block types of pcapng.
const (
	sectionHeader   = 0x0A0D0D0A
	interfaceBlock  = 1
	enhancedPacket  = 6
	customBlock     = 0x00000BAD
	byteOrderMagic  = 0x1A2B3C4D
	blockOverhead   = 12 // type, and the length at both ends
	linkExportedPDU = 252
)

// Options of pcapng.
const (
	optEnd      = 0
	optComment  = 1
	optIfName   = 2 // of an interface
	optFlags    = 2 // of a packet
	optUserAppl = 4
	optTSResol  = 9
	optCustom   = 2989 // binary; programs that copy the block keep it
)

// pen is the private enterprise number that marks data specific to wirectl. RFC 5612 reserves
// it for documentation.
const pen = 32473

// Parts of a packet that are specific to wirectl. The first byte is the type.
const (
	partFrame = 1
	partFlaw  = 2
	partRaw   = 3
	partMeta  = 4
)

// Flags of partFrame.
const (
	flagCompressed = 1 << iota
	flagGap
	flagWhole // the packet holds the whole frame, not only its payload
	flagApart // the packet holds the payload; partRaw holds the frame, which does not contain it
)

// Directions in epb_flags.
const (
	inbound  = 1 // unit to controller
	outbound = 2 // controller to unit
)

// Sizes of the fixed parts after the enterprise number, in bytes.
const (
	frameSize = 44
	eventSize = 24
)

// maxOption is the longest option, in bytes.
const maxOption = 0xFFFF

// noInterface is the interface of a record that belongs to no connection.
const noInterface = 0xFFFFFFFF

// magic is the beginning of every pcapng file.
const magic = "\x0a\x0d\x0d\x0a"

// Is reports whether data begins as pcapng or zstd data does. It needs four bytes.
func Is(data []byte) bool { return bytes.HasPrefix(data, []byte(magic)) || isZstd(data) }

// IsSection reports whether data begins with an uncompressed section header that has a valid
// byte-order magic. It needs twelve bytes.
func IsSection(data []byte) bool {
	var b blocks
	return bytes.HasPrefix(data, []byte(magic)) && len(data) >= 12 && b.setOrder(data) == nil
}

// Dissector names the Wireshark dissector for payloads of an encoding.
func Dissector(e protocol.Encoding) string {
	switch e {
	case protocol.JSON:
		return "json"
	case protocol.Protobuf:
		return "protobuf"
	}
	return "data"
}

// padding returns how many bytes round n up to a multiple of four.
func padding(n int) int { return -n & 3 }

// order decodes integers in the byte order of one section.
type order struct{ big bool }

func (o order) u16(b []byte) uint16 {
	v := uint16(b[0]) | uint16(b[1])<<8
	if o.big {
		return bits.ReverseBytes16(v)
	}
	return v
}

func (o order) u32(b []byte) uint32 {
	v := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
	if o.big {
		return bits.ReverseBytes32(v)
	}
	return v
}

func (o order) u64(b []byte) uint64 {
	lo, hi := uint64(o.u32(b)), uint64(o.u32(b[4:]))
	if o.big {
		lo, hi = hi, lo
	}
	return hi<<32 | lo
}
