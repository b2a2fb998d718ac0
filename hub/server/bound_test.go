package server

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/nats-io/nats.go"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/pcapng"
	"github.com/wirectl/wirectl/frame"
)

// message returns a message with a part of the first segment, such as 1/9.
func message(data []byte, part string) *nats.Msg {
	m := nats.NewMsg("main.host.relay.0")
	m.Data = data
	for name, value := range map[string]string{"Number": "1", "Frames": "1", "Piece": part} {
		m.Header.Set("Wirectl-"+name, value)
	}
	return m
}

// Segments that are not complete are bounded for all sessions together: the largest is given up,
// and the user is told.
func TestPiecesAreBounded(t *testing.T) {
	x := &index{readings: map[string]*reading{}}
	var told []string
	piece := make([]byte, 8<<20)
	for n := range maxPieces/len(piece) + 1 {
		key := "main.host.relay." + strconv.Itoa(n)
		r := newReading(watch{}, key, func(why error) { told = append(told, key+": "+why.Error()) })
		x.readings[key] = r
		m := message(piece, "1/9")
		if n == 3 {
			m.Data = append(piece, "more"...)
		}
		r.take(uint64(n), m)
		x.bound()
	}
	if len(told) != 1 || !strings.HasPrefix(told[0], "main.host.relay.3: segment 1 is skipped: its pieces are over the limit") {
		t.Errorf("told: %q", told)
	}
}

// Calls that nobody answers are bounded: those of one session to a quarter of those of all.
func TestOpenCallsAreBounded(t *testing.T) {
	var plain, data bytes.Buffer
	w, err := pcapng.NewWriter(&plain, capture.Session{Protocol: "mcp", Framing: "line"}, nil)
	for id := 0; err == nil && id < maxInFlight/4+100; id++ {
		raw := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"ping"}`+"\n", id)
		err = w.Write(&capture.Record{Kind: capture.Frame, Time: time.Unix(0, 1), Frame: frame.Frame{Raw: raw, End: len(raw) - 1, Dir: frame.C2U, Conn: 1}})
	}
	z, _ := zstd.NewWriter(&data)
	if _, err2 := z.Write(plain.Bytes()); err != nil || err2 != nil || z.Close() != nil {
		t.Fatal(err, err2)
	}
	var told []string
	r := newReading(watch{}, "main.host.relay.0", func(why error) { told = append(told, why.Error()) })
	defer r.close()
	r.take(1, message(data.Bytes(), "1/1"))
	if n := r.inFlight(); n == 0 || n > maxInFlight/4 || len(told) != 1 || !strings.HasSuffix(told[0], "open calls are not counted: they are too many") {
		t.Errorf("%d are open; told: %q", n, told)
	}
}
