package ndjson_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/ndjson"
	"github.com/wirectl/wirectl/frame"
)

// reframe frames payloads as rlm does.
func reframe(dst []byte, r *ndjson.Record) ([]byte, error) {
	if string(r.Payload) == `"refuse"` {
		return nil, errors.New("refused")
	}
	r.Framing = "len32"
	return frame.Append(dst, frame.Len32, r.Payload)
}

func read(text string, limit int) ([]capture.Record, capture.Session, error) {
	r := ndjson.NewReader(strings.NewReader(text), limit, reframe)
	var all []capture.Record
	var rec capture.Record
	for {
		if err := r.Next(&rec); err != nil {
			return all, *r.Session(), err
		}
		all = append(all, rec.Clone())
	}
}

// Records are read as the frames they were made from, whether a line has the raw bytes or
// only the payload.
func TestReader(t *testing.T) {
	const at = `"time":"2026-11-20T09:00:00.000000001Z"`
	text := strings.Join([]string{
		`{"seq":1,` + at + `,"conn":3,"dir":"c2u","offset":0,"size":2,"framing":"len32","protocol":"rlm","payload":{}}`,
		`{"seq":2,` + at + `,"conn":3,"dir":"u2c","offset":7,"size":2,"framing":"line","raw":"e30NCg=="}`,
		`{"offset":20,"size":3,"framing":"line","kind":"skipped","raw":"CgoK","error":"blank lines"}`,
		``,
		`{"bare":"payload"}`,
		`{"seq":3,"offset":0,"size":2,"framing":"strange","raw":"e30="}`,
	}, "\n")
	when := time.Date(2026, 11, 20, 9, 0, 0, 1, time.UTC)
	want := []capture.Record{
		{Seq: 1, Time: when, Protocol: "rlm", Framing: "len32", Frame: frame.Frame{Conn: 3, Dir: frame.C2U, Raw: []byte("\x00\x00\x00\x02{}"), Start: 4, End: 6}},
		{Seq: 2, Time: when, Framing: "line", Frame: frame.Frame{Conn: 3, Dir: frame.U2C, Offset: 7, Raw: []byte("{}\r\n"), End: 2, Flaw: errors.New("the line ends in CRLF")}},
		{Framing: "line", Frame: frame.Frame{Offset: 20, Raw: []byte("\n\n\n"), Gap: true, Flaw: errors.New("blank lines")}},
		{Framing: "len32", Frame: frame.Frame{Raw: []byte("\x00\x00\x00\x12" + `{"bare":"payload"}`), Start: 4, End: 22}},
		{Seq: 3, Framing: "strange", Frame: frame.Frame{Raw: []byte("{}"), End: 2}},
	}
	got, session, err := read(text, 1<<20)
	if err != io.EOF || session.Protocol != "rlm" || session.Framing != "len32" || !session.Created.Equal(when) {
		t.Errorf("%v, session %+v", err, session)
	}
	flaws := cmp.Comparer(func(a, b error) bool { return (a == nil) == (b == nil) })
	if diff := cmp.Diff(want, got, flaws); diff != "" {
		t.Error(diff)
	}
}

// A truncated file is read up to the cut. The error for an invalid line names the line.
func TestReaderErrors(t *testing.T) {
	gaps := strings.Repeat("\n", 200_001)
	for text, want := range map[string]string{
		"":                        "EOF",
		"{}\n{}\n{\"a":            "byte 6: the capture is cut: the last line is not a whole record",
		"{}\nx\n":                 "byte 3: the capture is damaged: line 2: invalid JSON at byte 0: invalid character 'x' looking for a value",
		gaps + "x\n":              "byte 200001: the capture is damaged: line 200002: invalid JSON",
		"{}\n\n\"refuse\"\n":      "byte 4: the capture is damaged: line 3: refused",
		`{"raw":"!"}`:             `byte 0: the capture is damaged: line 1: raw: "!" is not base64 in a string`,
		strings.Repeat("x", 2000): "byte 0: a record is over the limit: a line is over the limit of 1000",
	} {
		_, _, err := read(text, 1000)
		if e := (*capture.Error)(nil); !strings.HasPrefix(err.Error(), want) || err != io.EOF && !errors.As(err, &e) {
			t.Errorf("%.20q: %v, want %s", text, err, want)
		}
	}
	if _, _, err := read("{}\n{", 1000); !errors.Is(err, capture.ErrCut) {
		t.Error(err)
	}
}

// An inconsistent record is not treated as a payload. A message whose keys happen to be keys
// of records is.
func TestParse(t *testing.T) {
	for line, want := range map[string]string{
		`{"seq":1,"payload":{}}`:                  "",
		`{"seq":1,"raw":"e30="}`:                  "",
		`{"seq":1,"type":"event","payload":{}}`:   "bare",
		`{"seq":1,"offset":0,"size":1}`:           "bare",
		`{"id":1,"error":{"code":1}}`:             "bare",
		`{"kind":"ping"}`:                         "bare",
		`{"seq":1,"framing":"len32"}`:             "the record has neither payload nor raw",
		`{"kind":"skipped"}`:                      "the record has neither payload nor raw",
		`{"framing":5,"payload":{}}`:              `framing: "5" is not a string`,
		`{"protocol":null,"payload":{}}`:          `protocol: "null" is not a string`,
		`{"kind":["a"],"raw":"e30="}`:             `kind: "[\"a\"]" is not a string`,
		`{"dir":1,"payload":{}}`:                  `dir: "1" is neither "c2u" nor "u2c"`,
		`{"framing":"line","payload":{},"new":1}`: "bare",
	} {
		var r ndjson.Record
		isRecord, err := r.Parse([]byte(line))
		got := ""
		switch {
		case err != nil:
			got = err.Error()
		case !isRecord:
			got = "bare"
		}
		if got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// A note is not a frame, although its raw bytes are present but empty.
func TestReaderOfNotes(t *testing.T) {
	all, _, err := read(`{"seq":1,"conn":2,"offset":0,"size":0,"kind":"note","summary":"linked","raw":""}`+"\n"+
		`{"seq":1,"offset":0,"framing":"ws","kind":"note","raw":""}`+"\n", 1<<10)
	if err != io.EOF || len(all) != 2 {
		t.Fatalf("%d records, %v", len(all), err)
	}
	if n := all[0]; n.Kind != capture.Note || n.Conn != 2 || string(n.Text) != "linked" {
		t.Errorf("a note came back as %+v", n)
	}
	if all[1].Kind != capture.Frame {
		t.Errorf("a frame of that kind came back as %v", all[1].Kind)
	}
}

// The payload's position is parsed regardless of white space in the JSON.
func TestReaderOfSpacedMeta(t *testing.T) {
	all, _, err := read(`{"raw": "Wzw+XQ==", "meta": { "at": [ 1 , 3 ] , "opcode": "text" }, "size": 2, "framing": "ws", "seq": 1}`, 1<<10)
	if err != io.EOF || len(all) != 1 || string(all[0].Payload()) != "<>" || all[0].Meta.Apart {
		t.Errorf("%+v, %v", all, err)
	}
}
