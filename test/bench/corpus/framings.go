package corpus

import (
	"encoding/binary"

	"google.golang.org/protobuf/encoding/protowire"
)

// A wrapping delimits payloads: head begins the file, and appendFrame appends
// one payload with its delimiter.
type wrapping struct {
	head        []byte
	appendFrame func(dst, payload []byte) []byte
}

var wrappings = map[string]wrapping{
	"len32": {appendFrame: appendLen32},
	"line":  {appendFrame: appendLine},
	"pcap":  {head: pcapHead(), appendFrame: appendPcap},
}

func appendLen32(dst, payload []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(payload)))
	return append(dst, payload...)
}

func appendLine(dst, payload []byte) []byte {
	return append(append(dst, payload...), '\n')
}

// rawIP is the link type of packets that begin with their IP header.
const rawIP = 101

// pcapHead is the file header of libpcap's format: magic, version 2.4, time
// zone, accuracy, the longest packet, link type.
func pcapHead() []byte {
	h := binary.LittleEndian.AppendUint32(nil, 0xa1b2c3d4)
	h = binary.LittleEndian.AppendUint16(h, 2)
	h = binary.LittleEndian.AppendUint16(h, 4)
	for _, field := range []uint32{0, 0, 1 << 16, rawIP} {
		h = binary.LittleEndian.AppendUint32(h, field)
	}
	return h
}

// The UDP ports by which tshark is told which message a packet carries.
const (
	requestPort  = 7001
	responsePort = 7002
)

const udpHeaders = 20 + 8

// appendPcap appends a packet: a latis payload in UDP in IPv4, without
// checksums.
func appendPcap(dst, payload []byte) []byte {
	size := udpHeaders + len(payload)
	for _, field := range []int{0, 0, size, size} {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(field))
	}
	port := requestPort
	if latisResponse(payload) {
		port = responsePort
	}
	for _, field := range []int{
		0x4500, size, 0, 0, 64<<8 | 17, 0, 127 << 8, 1, 127 << 8, 1, // IPv4
		7000, port, size - 20, 0, // UDP
	} {
		dst = binary.BigEndian.AppendUint16(dst, uint16(field))
	}
	return append(dst, payload...)
}

// latisResponse checks the number of the field after the id, which differs between the two
// messages of latis.
func latisResponse(payload []byte) bool {
	_, _, id := protowire.ConsumeField(payload)
	number, _, _ := protowire.ConsumeTag(payload[max(id, 0):])
	return number >= 20 && number != 30
}
