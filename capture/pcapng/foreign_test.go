package pcapng_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/pcapng"
)

// split cuts a little-endian capture into its blocks.
func split(data []byte) [][]byte {
	var blocks [][]byte
	for len(data) > 0 {
		n := binary.LittleEndian.Uint32(data[4:])
		blocks = append(blocks, bytes.Clone(data[:n]))
		data = data[n:]
	}
	return blocks
}

// fixed has the size of each block's fixed part, including type and length, and the offsets
// of its integers that are not four bytes long.
var fixed = map[uint32]struct {
	size int
	wide map[int]int
}{
	0x0A0D0D0A: {24, map[int]int{12: 2, 14: 2, 16: 8}},
	1:          {16, map[int]int{8: 2, 10: 2}},
	6:          {28, nil},
	0xBAD:      {36, map[int]int{12: 1, 13: 1, 14: 1, 15: 1, 20: 8}},
}

// bigEndian converts a little-endian capture to big-endian.
func bigEndian(data []byte) []byte {
	var out []byte
	for _, b := range split(data) {
		kind := binary.LittleEndian.Uint32(b)
		options := fixed[kind].size
		switch kind {
		case 6:
			n := int(binary.LittleEndian.Uint32(b[20:]))
			options += (n + 3) &^ 3
		case 0xBAD:
			options = len(b)
		}
		swapOptions(b[options:])
		for i := 0; i < fixed[kind].size; {
			n := max(1, fixed[kind].wide[i])
			if fixed[kind].wide[i] == 0 {
				n = 4
			}
			slices.Reverse(b[i : i+n])
			i += n
		}
		slices.Reverse(b[len(b)-4:])
		out = append(out, b...)
	}
	return out
}

// swapOptions changes the byte order of a block's options, up to its length.
func swapOptions(b []byte) {
	for len(b) > 4 {
		code, n := binary.LittleEndian.Uint16(b), int(binary.LittleEndian.Uint16(b[2:]))
		slices.Reverse(b[0:2])
		slices.Reverse(b[2:4])
		value := b[4 : 4+n]
		switch {
		case code == 2 && n == 4:
			slices.Reverse(value)
		case code == 2989:
			slices.Reverse(value[:4])
			if value[4] == 1 {
				for _, at := range [][2]int{{8, 12}, {12, 16}, {16, 24}, {24, 32}, {32, 40}, {40, 48}} {
					slices.Reverse(value[at[0]:at[1]])
				}
			}
		}
		b = b[4+(n+3)&^3:]
	}
}

// Another writer may use the other byte order; joined captures may use both.
func TestByteOrders(t *testing.T) {
	data := write(t, session, records())
	want := records()
	got, s, err := read(bytes.NewReader(bigEndian(data)))
	if err != io.EOF || s != session {
		t.Errorf("%v, session %+v", err, s)
	}
	if diff := cmp.Diff(want, got, same); diff != "" {
		t.Error(diff)
	}
	got, _, err = read(io.MultiReader(bytes.NewReader(bigEndian(data)), bytes.NewReader(data)))
	if diff := cmp.Diff(append(want, want...), got, same); diff != "" || err != io.EOF {
		t.Errorf("joined: %v %s", err, diff)
	}
}

// block returns a block with the given body.
func block(kind uint32, body string) []byte {
	n := uint32(len(body) + 12)
	b := binary.LittleEndian.AppendUint32(nil, kind)
	b = binary.LittleEndian.AppendUint32(b, n)
	return binary.LittleEndian.AppendUint32(append(b, body...), n)
}

// Blocks and options that other programs add to a capture are skipped.
func TestUnknownBlocksAreSkipped(t *testing.T) {
	blocks := split(write(t, session, records()))
	strangers := slices.Concat(
		block(5, "interface statistics"),
		block(0x80000001, ""),
		block(0xBAD, "\x01\x00\x00\x00another enterprise.."),
		block(0xBAD, "\xd9\x7e\x00\x00\xc8\x00\x00\x00a kind of a later version..."),
	)
	got, _, err := read(bytes.NewReader(bytes.Join(blocks, strangers)))
	if diff := cmp.Diff(records(), got, same); diff != "" || err != io.EOF {
		t.Errorf("%v %s", err, diff)
	}
}

// For unreadable input, the error says where it fails and what the input looks like.
func TestRefusals(t *testing.T) {
	capt := write(t, session, small())
	section, iface := split(capt)[0], split(capt)[2]
	packet := split(capt)[4]
	edit := func(b []byte, at int, with string) []byte {
		b = bytes.Clone(b)
		copy(b[at:], with)
		return b
	}
	after := func(b ...[]byte) []byte { return slices.Concat(append([][]byte{section}, b...)...) }
	foreign := block(0x0A0D0D0A, "\x4d\x3c\x2b\x1a\x01\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff")
	var lines bytes.Buffer
	if w, err := zstd.NewWriter(&lines, zstd.WithEncoderConcurrency(1)); err != nil {
		t.Fatal(err)
	} else if _, err = io.WriteString(w, `{"jsonrpc":"2.0","id":1}`+"\n"); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	newer := bytes.Replace(section, []byte(`{"wirectl":1`), []byte(`{"wirectl":9`), 1)

	for name, test := range map[string]struct {
		data []byte
		want error
		text string
	}{
		"empty":            {nil, capture.ErrCut, "byte 0: the capture is cut: it is empty"},
		"text":             {[]byte("HTTP/1.1 200 OK\r\n"), capture.ErrForeign, "this looks like an HTTP response"},
		"classic pcap":     {[]byte("\xd4\xc3\xb2\xa1\x02\x00\x04\x00" + strings.Repeat("\x00", 20)), capture.ErrForeign, "a packet capture"},
		"packed lines":     {lines.Bytes(), capture.ErrForeign, "there is JSON text in the zstd data: decompress it first"},
		"another program":  {foreign, capture.ErrForeign, "written by another program"},
		"newer":            {newer, capture.ErrForeign, "format is version 9"},
		"bad magic":        {edit(section, 8, "abcd"), capture.ErrMalformed, "byte-order magic"},
		"length not of 4":  {after(edit(iface, 4, "\x0d")), capture.ErrMalformed, "13 is not a block length"},
		"length too small": {after(edit(iface, 4, "\x08\x00\x00\x00")), capture.ErrMalformed, "8 is not a block length"},
		"lengths differ":   {after(edit(iface, len(iface)-4, "\x01")), capture.ErrMalformed, "ends with the length"},
		"too large":        {after([]byte("\x06\x00\x00\x00\xfc\xff\xff\xff.................")), capture.ErrTooLarge, "4294967292"},
		"no interface":     {after(packet), capture.ErrMalformed, "there is no interface 0"},
		"snapped":          {after(iface, edit(packet, 20, "\x01")), capture.ErrMalformed, "was cut to 1 of"},
		"no end of tags":   {after(iface, edit(packet, 30, "\xff\xff")), capture.ErrMalformed, "have no end"},
		"rewritten":        {after(iface, bytes.Replace(packet, []byte("\xd9\x7e\x00\x00"), []byte("\xd9\x7e\x00\x01"), 1)), capture.ErrMalformed, "another program rewrote"},
	} {
		_, _, err := read(bytes.NewReader(test.data))
		if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Memory is allocated for bytes that arrive, not for a claimed length.
func TestHostileLengthTakesNoMemory(t *testing.T) {
	data := append(write(t, session, nil), "\x06\x00\x00\x00\x00\x00\x00\x04"...) // 64 MiB
	data = append(data, make([]byte, 100)...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _, err := read(bytes.NewReader(data))
	runtime.ReadMemStats(&after)
	if !errors.Is(err, capture.ErrCut) {
		t.Error(err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 2<<20 {
		t.Errorf("%d bytes were allocated for %d", used, len(data))
	}
}

// The limit applies to the block and can be set.
func TestLimit(t *testing.T) {
	data := write(t, session, frames(1, 1000))
	for limit, want := range map[int]error{1000: capture.ErrTooLarge, 2000: io.EOF} {
		r, err := pcapng.NewReader(bytes.NewReader(data), limit)
		var rec capture.Record
		for err == nil {
			err = r.Next(&rec)
		}
		if !errors.Is(err, want) {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
}
