package pcapng_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/pcapng"
	"github.com/wirectl/wirectl/frame"
)

var began = time.Date(2026, time.November, 20, 9, 0, 0, 123456789, time.UTC)

var session = capture.Session{
	Created:    began,
	Protocol:   "latis",
	Framing:    "len32",
	Controller: "stdio",
	Unit:       "exec unit --verbose",
	Redacted:   true,
	Altered:    true,
	Comment:    "ein \"Vergleich\"\nin zwei Zeilen",
}

// records has every kind of record, and frames of every shape.
func records() []capture.Record {
	at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	latis := func(r capture.Record) capture.Record {
		r.Protocol, r.Framing, r.Conn = "latis", "len32", 1
		return r
	}
	return []capture.Record{
		{Kind: capture.Note, Time: at(0), Text: []byte("before any connection")},
		latis(capture.Record{Kind: capture.Opened, Time: at(0), Text: []byte("127.0.0.1:5000")}),
		latis(capture.Record{
			Seq: 1, Time: at(1), Written: at(2),
			Frame: frame.Frame{Dir: frame.C2U, Raw: []byte("\x00\x00\x00\x05\x0a\x01\x32\x62\x00"), Start: 4, End: 9},
		}),
		latis(capture.Record{
			Seq: 2, Time: at(3),
			Frame: frame.Frame{Dir: frame.U2C, Stream: 7, Offset: 1 << 40, Raw: []byte("\x00\x00\x00\x00"), Start: 4, End: 4},
		}),
		latis(capture.Record{Kind: capture.Stderr, Time: at(4), Text: []byte("warning: \xff\n")}),
		{
			Seq: 1, Time: at(5), Protocol: "mcp", Framing: "line",
			Frame: frame.Frame{Conn: 2, Dir: frame.C2U, Raw: []byte("\r\n{}\r\n"), Start: 2, End: 4, Flaw: errors.New("the line ends in CRLF")},
		},
		{
			Seq: 2, Time: at(6), Protocol: "mcp", Framing: "line",
			Frame: frame.Frame{Conn: 2, Dir: frame.C2U, Offset: 6, Raw: []byte("\n\n\n"), Gap: true, Flaw: errors.New("blank lines")},
		},
		{
			Seq: 3, Time: at(7), Protocol: "mcp", Framing: "line",
			Frame: frame.Frame{Conn: 2, Raw: append(bytes.Repeat([]byte("\n"), 60000), "{}\n"...), Start: 60000, End: 60002},
		},
		{
			Seq: 1, Framing: "grpc", Protocol: "latis",
			Frame: frame.Frame{Conn: 3, Dir: frame.U2C, Raw: []byte("\x01\x00\x00\x00\x02zz"), Start: 5, End: 7, Compressed: true},
		},
		{
			Seq: 1, Framing: "http", Protocol: "mcp",
			Frame: frame.Frame{
				Conn: 4, Dir: frame.C2U, Stream: 2, Raw: []byte("POST / HTTP/1.1\r\nA: b\r\nContent-Length: 2\r\n\r\n{}"), Start: 44, End: 46,
				Meta: &frame.Meta{Framing: "http", Head: &frame.Head{Start: "POST / HTTP/1.1", Fields: []frame.Field{{Name: "a", Value: "b"}, {Name: "content-length", Value: "2"}}}},
			},
		},
		{
			Seq: 1, Framing: "ws", Protocol: "mcp",
			Frame: frame.Frame{
				Conn: 4, Dir: frame.C2U, Offset: 46, Raw: bytes.Repeat([]byte("x"), 70000), Start: 70000, End: 70000,
				Meta: &frame.Meta{Framing: "ws", Opcode: frame.TextMsg, Encoding: "deflate", Apart: true, Data: []byte("{}")},
			},
		},
		{
			Seq: 1, Framing: "ws", Protocol: "ws",
			Frame: frame.Frame{
				Conn: 4, Dir: frame.U2C, Raw: []byte("\x88\x02\x03\xe8"), Start: 2, End: 4,
				Meta: &frame.Meta{Framing: "ws", Signal: frame.Close, Code: 1000, Text: "bye"},
			},
		},
		latis(capture.Record{Kind: capture.HalfClosed, Time: at(8), Frame: frame.Frame{Dir: frame.C2U}}),
		latis(capture.Record{Kind: capture.Exited, Time: at(9), Status: -3}),
		latis(capture.Record{Kind: capture.Signalled, Time: at(9), Status: 15, Text: []byte("SIGTERM")}),
	}
}

func write(t testing.TB, session capture.Session, records []capture.Record) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := pcapng.NewWriter(&b, session, label)
	if err != nil {
		t.Fatal(err)
	}
	for i := range records {
		if err := w.Write(&records[i]); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func label(r *capture.Record, l *pcapng.Label) {
	l.Dissector = "protobuf"
	l.Info = append(l.Info, "PING 7"...)
}

// read returns copies of all records, the session, and how the capture ended.
func read(r io.Reader) ([]capture.Record, capture.Session, error) {
	pr, err := pcapng.NewReader(r, 0)
	if err != nil {
		return []capture.Record{}, capture.Session{}, err
	}
	all := []capture.Record{}
	var rec capture.Record
	for {
		if err := pr.Next(&rec); err != nil {
			return all, *pr.Session(), err
		}
		all = append(all, rec.Clone())
	}
}

// same compares flaws by their messages, and bytes fast.
var same = cmp.Options{
	cmp.Comparer(func(a, b error) bool { return fmt.Sprint(a) == fmt.Sprint(b) }),
	cmp.Comparer(bytes.Equal),
}

func TestRoundTrip(t *testing.T) {
	data := write(t, session, records())
	for name, r := range map[string]io.Reader{
		"whole":    bytes.NewReader(data),
		"one byte": iotest.OneByteReader(bytes.NewReader(data)),
	} {
		got, s, err := read(r)
		if err != io.EOF {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(session, s); diff != "" {
			t.Errorf("%s: session: %s", name, diff)
		}
		if diff := cmp.Diff(records(), got, same); diff != "" {
			t.Errorf("%s: records: %s", name, diff)
		}
	}
}
