package har

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/source"
)

// Flows is the form of what mitmproxy saves: a value of tnetstrings for each flow, tried with version 17 of
// them (mitmproxy 8.1.1). Members are found by their names, so newer versions may have others.
var Flows = &source.Form{
	Name: "mitmproxy", About: "a file of flows of mitmproxy", Is: isFlows, Open: openFlows,
	Instead: "convert it (mitmdump -nr FILE --set hardump=flows.har)",
}

// oldestFlow is the first version whose flows are read.
const oldestFlow = 17

var flowPattern = regexp.MustCompile(`^[0-9]{1,12}:[0-9]+:`)

// isFlows recognizes a tnetstring with the keys of a flow.
func isFlows(h *source.Head) bool {
	return flowPattern.Match(h.Bytes) && bytes.Contains(h.Bytes, []byte("4:type;")) && bytes.Contains(h.Bytes, []byte("7:version;"))
}

// A flowReader cuts a file into flows.
type flowReader struct {
	*reader
	file   *source.File
	buf    []byte // that was read; buf[:at] is done
	at     int
	offset int64 // of buf[0]
	err    error
}

func openFlows(f *source.File) (source.Reader, error) {
	r := &flowReader{reader: &reader{shared: map[string]*conn{}, packed: true}, file: f}
	r.more = r.readFlow
	if r.readFlow(); r.failed != nil && r.failed != io.EOF && len(r.held) == 0 {
		return nil, r.failed
	}
	return r.reader, nil
}

// readFlow reads the next flow into the held records.
func (r *flowReader) readFlow() {
	v, size, err := cutValue(r.buf[r.at:])
	switch {
	case err != nil:
		r.failed = fmt.Errorf("byte %d: %w", r.offset+int64(r.at), err)
	case size > 0 && v.kind != '}':
		r.failed = fmt.Errorf("byte %d: it is no flow", r.offset+int64(r.at))
	case size > 0:
		r.at += size
		r.number++
		r.takeFlow(v)
	case r.err == io.EOF && len(r.buf) > r.at:
		r.failed = &source.CutError{Offset: r.offset + int64(r.at)}
	case r.err != nil:
		r.failed = r.err
	default:
		r.fill()
	}
}

// fill reads more of the file.
func (r *flowReader) fill() {
	const least = 64 << 10
	r.offset += int64(r.at)
	r.buf, r.at = append(r.buf[:0], r.buf[r.at:]...), 0
	if free := cap(r.buf) - len(r.buf); free < least {
		r.buf = append(make([]byte, 0, 2*cap(r.buf)+least), r.buf...)
	}
	var n int
	n, r.err = r.file.Reader.Read(r.buf[len(r.buf):cap(r.buf)])
	r.buf = r.buf[:len(r.buf)+n]
	r.idle = n == 0 && r.err == nil && r.file.Live
}

// A value is one of tnetstrings: LENGTH:DATA and a byte for its kind.
type value struct {
	kind byte
	data []byte
}

// cutValue returns the value at the beginning of data, and its size there; 0 if there is more of it to come.
func cutValue(data []byte) (v value, size int, err error) {
	const mostDigits = 12
	digits, _, whole := bytes.Cut(data[:min(len(data), mostDigits+1)], []byte(":"))
	n, err := strconv.ParseUint(string(digits), 10, 62)
	switch {
	case len(digits) == 0 && !whole:
		return v, 0, nil
	case err != nil || !whole && len(digits) > mostDigits:
		return v, 0, errors.New("it is no tnetstring")
	case whole && n > maxEntry:
		return v, 0, errTooLarge
	case !whole || len(data) < len(digits)+1+int(n)+1:
		return v, 0, nil
	}
	end := len(digits) + 1 + int(n)
	return value{data[end], data[len(digits)+1 : end]}, end + 1, nil
}

// values yields the elements of a list, or the keys and values of a dictionary.
func (v value) values() iter.Seq[value] {
	return func(yield func(value) bool) {
		if v.kind != ']' && v.kind != '}' {
			return
		}
		for rest := v.data; ; {
			item, size, err := cutValue(rest)
			if err != nil || size == 0 || !yield(item) {
				return
			}
			rest = rest[size:]
		}
	}
}

// get returns the value at a path of keys; the zero value if there is none.
func (v value) get(path ...string) value {
	for _, key := range path {
		var found value
		var last []byte
		isValue := false
		for item := range v.values() {
			if isValue && v.kind == '}' && string(last) == key {
				found = item
				break
			}
			last, isValue = item.data, !isValue
		}
		v = found
	}
	return v
}

// plainText returns a text or bytes, or "".
func (v value) plainText() string {
	if v.kind == ';' || v.kind == ',' {
		return string(v.data)
	}
	return ""
}

// number returns a number, or 0.
func (v value) number() float64 {
	n, err := strconv.ParseFloat(string(v.data), 64)
	if v.kind != '#' && v.kind != '^' || err != nil || math.IsNaN(n) {
		return 0
	}
	return n
}

func (v value) isTrue() bool { return v.kind == '!' && string(v.data) == "true" }

// time returns a time in seconds since 1970, and otherwise one that is not known.
func (v value) time(otherwise time.Time) time.Time {
	const most = 1e11
	if s := v.number(); s > 0 && s < most {
		return time.UnixMicro(int64(s * 1e6)).UTC()
	}
	return otherwise
}

// elements returns the first elements of a list.
func (v value) elements(n int) []value {
	list := make([]value, n)
	i := 0
	for item := range v.values() {
		if i == n {
			break
		}
		list[i] = item
		i++
	}
	return list
}

// takeFlow makes the records of a flow.
func (r *flowReader) takeFlow(flow value) {
	switch version := flow.get("version").number(); {
	case version < oldestFlow:
		r.failed = fmt.Errorf("version %v of flows is too old", version)
	case flow.get("type").plainText() == "http":
		r.takeHTTP(flow)
	case flow.get("type").plainText() == "tcp":
		r.takeTCP(flow)
	default:
		x := &exchange{reader: r.reader, now: flow.get("timestamp_created").time(r.latest)}
		x.emit(source.Note, frame.DirUnknown, fmt.Appendf(nil, "flow %d is left out: it is of %.20q", r.number, flow.get("type").plainText()))
	}
}

func (r *flowReader) takeHTTP(flow value) {
	asked, answered, socket := flow.get("request"), flow.get("response"), flow.get("websocket")
	e := &entry{Connection: flow.get("client_conn", "id").plainText(), Error: flow.get("error", "msg").plainText()}
	e.Request = request{
		Method: asked.get("method").plainText(), Version: asked.get("http_version").plainText(), Headers: fieldsOf(asked), Body: bodyOf(asked),
	}
	host := cmp.Or(asked.get("authority").plainText(), get(e.Request.Headers, "Host"), addressOf(asked.get("host"), asked.get("port")))
	address := url.URL{Scheme: cmp.Or(asked.get("scheme").plainText(), "http"), Host: host}
	e.Request.URL = address.String() + "/" + strings.TrimPrefix(asked.get("path").plainText(), "/")
	e.Response = response{Status: answered.get("status_code").number(), Text: answered.get("reason").plainText(), Headers: fieldsOf(answered)}
	if body := bodyOf(answered); body != nil {
		e.Response.Body = *body
	}
	for m := range socket.get("messages").values() {
		part := m.elements(4) // opcode, whether the client sent it, bytes, time
		message := socketMessage{Opcode: part[0].number(), Time: part[3].number(), plain: []byte(part[2].plainText())}
		if part[1].isTrue() {
			message.Type = "send"
		}
		e.Messages = append(e.Messages, message)
	}
	if code := socket.get("close_code"); code.kind == '#' {
		e.Messages = append(e.Messages, closing(socket, code.number()))
	}
	x := &exchange{reader: r.reader, entry: e}
	x.started = asked.get("timestamp_start").time(r.latest)
	x.answer = answered.get("timestamp_start").time(x.started)
	x.done = answered.get("timestamp_end").time(x.answer)
	x.unfold()
}

// closing returns the message that closed a WebSocket.
func closing(socket value, code float64) socketMessage {
	const closeMsg, withoutCode = 8, 1005
	m := socketMessage{Opcode: closeMsg, Time: socket.get("timestamp_end").number(), plain: []byte{}}
	if socket.get("closed_by_client").isTrue() {
		m.Type = "send"
	}
	if n := int(code); n != withoutCode && n > 0 && n <= math.MaxUint16 {
		m.plain = append(m.plain, byte(n>>8), byte(n))
		m.plain = append(m.plain, socket.get("close_reason").plainText()...)
	}
	return m
}

func addressOf(host, port value) string {
	return net.JoinHostPort(host.plainText(), strconv.Itoa(int(port.number())))
}

func fieldsOf(message value) (list []field) {
	for pair := range message.get("headers").values() {
		part := pair.elements(2)
		list = append(list, field{part[0].plainText(), part[1].plainText()})
	}
	return list
}

// bodyOf returns a body; nil if it was not saved.
func bodyOf(message value) *content {
	c := message.get("content")
	if c.kind != ',' && c.kind != ';' {
		return nil
	}
	text, size := c.plainText(), float64(len(c.data))
	return &content{Text: &text, Size: &size}
}

// takeTCP makes the records of a connection without HTTP.
func (r *flowReader) takeTCP(flow value) {
	x := &exchange{reader: r.reader, now: flow.get("client_conn", "timestamp_start").time(r.latest)}
	r.latest = x.now
	peer := flow.get("server_conn", "address").elements(2)
	host := addressOf(peer[0], peer[1])
	if r.about.Unit == "" {
		r.about.Unit, r.about.Created = host, x.now
	}
	x.conns++
	x.conn = x.conns
	x.announce(host)
	for m := range flow.get("messages").values() {
		part := m.elements(3) // whether the client sent it, bytes, time
		dir := frame.U2C
		if part[0].isTrue() {
			dir = frame.C2U
		}
		x.at(part[2].time(x.now)).emit(source.Bytes, dir, []byte(part[1].plainText()))
	}
	if text := flow.get("error", "msg").plainText(); text != "" {
		x.emit(source.Note, frame.DirUnknown, fmt.Appendf(nil, "the connection failed: %.200s", text))
	}
	x.emit(source.Ended, frame.C2U, nil)
	x.emit(source.Ended, frame.U2C, nil)
}
