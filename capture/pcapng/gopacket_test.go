package pcapng_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
)

// tags reads the tags of an exported PDU. The rest is the payload.
func tags(t *testing.T, data []byte) (byCode map[uint16]string, payload []byte) {
	t.Helper()
	byCode = map[uint16]string{}
	for {
		code, n := binary.BigEndian.Uint16(data), int(binary.BigEndian.Uint16(data[2:]))
		if n%4 != 0 {
			t.Errorf("tag %d has %d bytes, which is not a multiple of four", code, n)
		}
		value := data[4 : 4+n]
		data = data[4+n:]
		if code == 0 {
			return byCode, data
		}
		byCode[code] = string(bytes.TrimRight(value, "\x00"))
		if code >= 25 && code <= 35 && code != 33 {
			byCode[code] = string(value)
		}
	}
}

// An independent reader finds the frames, their times and the tags for Wireshark.
func TestGopacketReadsIt(t *testing.T) {
	r, err := pcapgo.NewNgReader(bytes.NewReader(write(t, session, records())), pcapgo.NgReaderOptions{WantMixedLinkType: true})
	if err != nil {
		t.Fatal(err)
	}
	directions := map[frame.Dir]string{frame.C2U: "\x00\x00\x00\x00", frame.U2C: "\x00\x00\x00\x01"}
	for _, want := range frameRecords() {
		data, info, err := r.ReadPacketData()
		if err != nil {
			t.Fatal(err)
		}
		if !want.Time.IsZero() && !info.Timestamp.Equal(want.Time) {
			t.Errorf("frame %d: time %v, want %v", want.Seq, info.Timestamp, want.Time)
		}
		got, payload := tags(t, data)
		if got[12] != dissector(&want) || got[33] != want.Protocol || got[36] != "PING 7" || got[35] != directions[want.Dir] {
			t.Errorf("frame %d: tags %v", want.Seq, got)
		}
		if len(want.Raw) < 1000 && !want.Gap && !bytes.Equal(payload, want.Payload()) {
			t.Errorf("frame %d: payload %q", want.Seq, payload)
		}
		i, err := r.Interface(info.InterfaceIndex)
		if err != nil || i.LinkType != 252 || i.TimestampResolution != 9 {
			t.Errorf("frame %d: interface %+v, %v", want.Seq, i, err)
		}
	}
	if _, _, err := r.ReadPacketData(); err != io.EOF {
		t.Errorf("after the last frame: %v", err)
	}
	first, _ := r.Interface(0)
	if diff := cmp.Diff("127.0.0.1:5000", first.Name); diff != "" {
		t.Error(diff)
	}
}

// A session with more connections than the maximum number of interfaces continues in a new
// section with the same header. Earlier connections get a new interface there.
func TestSectionsOfASession(t *testing.T) {
	const limit = 1 << 16
	var all []capture.Record
	for i := range limit + 2 {
		all = append(all, frames(1, 1)[0])
		all[i].Seq, all[i].Conn = int64(i+1), i%(limit+1)+1
	}
	data := write(t, session, all)
	r, err := pcapgo.NewNgReader(bytes.NewReader(data), pcapgo.NgReaderOptions{WantMixedLinkType: true})
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		if _, info, err := r.ReadPacketData(); err != nil || info.InterfaceIndex != i%limit {
			t.Fatalf("frame %d: interface %d, %v", i+1, info.InterfaceIndex, err)
		}
	}
	got, s, err := read(bytes.NewReader(data))
	if err != io.EOF || s != session || len(got) != len(all) {
		t.Fatalf("%d records of %+v, %v", len(got), s, err)
	}
	for i := range got {
		if got[i].Conn != all[i].Conn || got[i].Seq != all[i].Seq || got[i].Protocol != session.Protocol {
			t.Fatalf("frame %d is %d of connection %d, %q", i+1, got[i].Seq, got[i].Conn, got[i].Protocol)
		}
	}
}

// dissector returns the dissector that the test's label function sets, or data if there is no
// readable payload.
func dissector(r *capture.Record) string {
	if r.Gap || r.Compressed {
		return "data"
	}
	return "protobuf"
}

func frameRecords() []capture.Record {
	var all []capture.Record
	for _, r := range records() {
		if r.Kind == capture.Frame {
			all = append(all, r)
		}
	}
	return all
}

// Times are preserved to the nanosecond, and the zero time does not become a time in 1970.
func TestTimes(t *testing.T) {
	for _, want := range []time.Time{{}, began, time.Unix(1, 1).UTC(), time.Date(2261, 1, 1, 0, 0, 0, 999999999, time.UTC)} {
		rec := capture.Record{Time: want, Written: want}
		got, _, err := read(bytes.NewReader(write(t, session, []capture.Record{rec})))
		if err != io.EOF || !got[0].Time.Equal(want) || !got[0].Written.Equal(want) {
			t.Errorf("%v: %v %v", want, got, err)
		}
	}
}
