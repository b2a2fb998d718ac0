package pcap

import (
	"bytes"
	"encoding/binary"
	"io"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/wirectl/wirectl/source"
)

// A segment that IP has cut into fragments, which come in any order, is read.
func TestFragments(t *testing.T) {
	request := []byte("POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Length: 40\r\n\r\n" + `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	ip := &layers.IPv4{Version: 4, TTL: 64, Id: 7, Protocol: layers.IPProtocolTCP, SrcIP: []byte{10, 0, 0, 1}, DstIP: []byte{10, 0, 0, 2}}
	tcp := &layers.TCP{SrcPort: 40000, DstPort: 80, Seq: 100, PSH: true, ACK: true, Window: 1000}
	options := gopacket.SerializeOptions{FixLengths: true}
	serialize := func(list ...gopacket.SerializableLayer) []byte {
		b := gopacket.NewSerializeBuffer()
		if err := gopacket.SerializeLayers(b, options, list...); err != nil {
			t.Fatal(err)
		}
		return bytes.Clone(b.Bytes())
	}
	segment := serialize(tcp, gopacket.Payload(request))
	const first = 64
	rest := *ip
	rest.FragOffset = first / 8
	ip.Flags = layers.IPv4MoreFragments
	r, err := openPackets(serialize(&rest, gopacket.Payload(segment[first:])), serialize(ip, gopacket.Payload(segment[:first])))
	if err != nil {
		t.Fatal(err)
	}
	var got []byte
	var rec source.Record
	for err = r.Next(&rec); err == nil; err = r.Next(&rec) {
		if rec.Kind == source.Bytes {
			got = append(got, rec.Data...)
		}
	}
	if err != io.EOF || !bytes.Equal(got, request) {
		t.Errorf("read %q, %v", got, err)
	}
}

// openPackets opens a capture of packets of IP.
func openPackets(packets ...[]byte) (source.Reader, error) {
	file := binary.LittleEndian.AppendUint32(nil, 0xa1b2c3d4)
	for _, n := range []uint32{2 | 4<<16, 0, 0, 65535, uint32(layers.LinkTypeRaw)} {
		file = binary.LittleEndian.AppendUint32(file, n)
	}
	for _, packet := range packets {
		for _, n := range []uint32{1, 0, uint32(len(packet)), uint32(len(packet))} {
			file = binary.LittleEndian.AppendUint32(file, n)
		}
		file = append(file, packet...)
	}
	return Open(&source.File{Reader: bytes.NewReader(file), Notice: func(string) {}})
}

// A connection of text without lines of JSON is left out: nothing of it is held as the beginning of a long line.
func TestTextIsUnknown(t *testing.T) {
	text := bytes.Repeat([]byte("x"), maxHead+1)
	ip := &layers.IPv4{Version: 4, TTL: 64, Protocol: layers.IPProtocolTCP, SrcIP: []byte{10, 0, 0, 1}, DstIP: []byte{10, 0, 0, 2}}
	tcp := &layers.TCP{SrcPort: 40000, DstPort: 80, Seq: 100, ACK: true, Window: 1000}
	b := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true}, ip, tcp, gopacket.Payload(text)); err != nil {
		t.Fatal(err)
	}
	const want = "none of its 1 connections holds a known protocol"
	if _, err := openPackets(b.Bytes()); err == nil || err.Error() != want {
		t.Errorf("opening it: %v, want %q", err, want)
	}
}
