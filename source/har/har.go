// Package har reads HTTP archives: exports of browsers, proxies and wirectl itself, and the flows of
// mitmproxy. The exchanges become connections of HTTP/1.1 again, whatever the program spoke, because an
// archive has decoded bodies. The form of archives is HAR 1.2, with the members of Chromium for messages of
// WebSockets and for server-sent events.
package har

import (
	"bytes"
	"cmp"
	"container/heap"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/source"
)

// Form is that of archives.
var Form = &source.Form{
	Name: "har", About: "an HTTP archive (HAR)",
	Document: []string{"log.version log.entries", "log.version log.creator", "log.entries.0.request log.entries.0.response"},
	// The first member of the log may be longer than what is examined.
	Is:   func(h *source.Head) bool { return !h.Whole && startPattern.Match(h.Text()) && len(h.Document()) == 2 },
	Open: open,
}

var startPattern = regexp.MustCompile(`^\{\s*"log"\s*:\s*\{\s*"(comment|browser|pages|entries)"\s*:`)

const (
	// maxEntry bounds an entry, in bytes.
	maxEntry = 32 << 20
	// maxHeld bounds the records that are sorted by their times, in bytes: entries begin in any order,
	// and overlap.
	maxHeld = 32 << 20
	// maxShared bounds the connections that several entries name.
	maxShared = 1 << 12
	// maxWait bounds what an entry says about durations.
	maxWait = 30 * 24 * time.Hour
)

type program struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

func (p program) String() string { return strings.TrimSpace(p.Name + " " + p.Version) }

type entry struct {
	Started    string          `json:"startedDateTime"`
	Request    request         `json:"request"`
	Response   response        `json:"response"`
	Timings    timings         `json:"timings"`
	Connection string          `json:"connection"`
	Messages   []socketMessage `json:"_webSocketMessages"`
	Events     []sentEvent     `json:"_eventSourceMessages"`
	Error      string          `json:"_error"`
}

type request struct {
	Method  string   `json:"method"`
	URL     string   `json:"url"`
	Version string   `json:"httpVersion"`
	Headers []field  `json:"headers"`
	Body    *content `json:"postData"`
}

type response struct {
	Status  float64  `json:"status"`
	Text    string   `json:"statusText"`
	Headers []field  `json:"headers"`
	Body    content  `json:"content"`
	Size    *float64 `json:"bodySize"`
	Error   string   `json:"_error"`
	Failure string   `json:"_failureText"`
}

type field struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type content struct {
	Size     *float64 `json:"size"`
	Type     string   `json:"mimeType"`
	Text     *string  `json:"text"`
	Encoding string   `json:"encoding"`
	Params   []field  `json:"params"`
}

// Times are in milliseconds; -1 is unknown.
type timings struct {
	Blocked float64 `json:"blocked"`
	DNS     float64 `json:"dns"`
	Connect float64 `json:"connect"`
	Send    float64 `json:"send"`
	Wait    float64 `json:"wait"`
	Receive float64 `json:"receive"`
}

type socketMessage struct {
	Type   string  `json:"type"` // send or receive
	Time   float64 `json:"time"`
	Opcode float64 `json:"opcode"`
	Data   string  `json:"data"`

	plain []byte // instead of Data; nil for none
}

type sentEvent struct {
	Time float64 `json:"time"` // in seconds
	Name string  `json:"eventName"`
	ID   string  `json:"eventId"`
	Data string  `json:"data"`
}

// A reader yields the records of entries, or of flows.
type reader struct {
	json   *json.Decoder
	input  *bounded
	more   func() // reads the next entry into the held records
	packed bool   // bodies are as they were sent, with the encoding of their content
	idle   bool   // a file that grows has no more for now
	about  source.About
	number int       // entries
	latest time.Time // the beginning of the entry before
	conns  int
	shared map[string]*conn
	held   held
	order  int // records
	size   int // of the held records
	failed error
}

// A conn is a connection that several entries may name.
type conn struct {
	number int
	free   time.Time // when its last exchange has ended
}

func open(f *source.File) (source.Reader, error) {
	in := &bounded{r: f.Reader}
	r := &reader{input: in, json: json.NewDecoder(in), shared: map[string]*conn{}}
	r.more = r.readEntry
	err := r.enter("log")
	if err == nil {
		err = r.enter("entries")
	}
	if err == nil {
		var t json.Token
		if t, err = r.json.Token(); err == nil && t != json.Delim('[') {
			err = errors.New("its entries are not a list")
		}
	}
	if err == nil {
		r.readEntry()
		return r, nil
	}
	return nil, r.fault(err)
}

// A bounded reader fails when a value is too large.
type bounded struct {
	r    io.Reader
	left int
}

var errTooLarge = fmt.Errorf("it is over %d MiB", maxEntry>>20)

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLarge
	}
	n, err := b.r.Read(p)
	b.left -= n
	return n, err
}

// enter reads up to the value of that member of an object.
func (r *reader) enter(member string) error {
	r.input.left = maxEntry
	if t, err := r.json.Token(); err != nil || t != json.Delim('{') {
		return cmp.Or(err, errors.New("an object is missing"))
	}
	return r.seek(member)
}

// seek skips members of an object up to that one. It notes what the others say about the archive.
func (r *reader) seek(member string) error {
	for r.json.More() {
		r.input.left = maxEntry
		key, err := r.json.Token()
		if err != nil || key == member {
			return err
		}
		var value json.RawMessage
		if err := r.json.Decode(&value); err != nil {
			return err
		}
		var p program
		if key != "creator" && key != "browser" || json.Unmarshal(value, &p) != nil {
			continue
		}
		if key == "browser" || r.about.Controller == "" && p.Name != "wirectl" {
			r.about.Controller = p.String()
		}
	}
	if _, err := r.json.Token(); err != nil { // the end of the object, unless the text is cut
		return err
	}
	return fmt.Errorf("it has no %s", member)
}

// About describes the archive.
func (r *reader) About() source.About { return r.about }

// Next reads the next record; see [source.Reader].
func (r *reader) Next(rec *source.Record) error {
	for r.failed == nil && !r.idle && (len(r.held) == 0 || r.size < maxHeld) {
		r.more()
	}
	switch {
	case len(r.held) > 0:
	case r.failed != nil:
		return r.failed
	default:
		r.idle = false
		*rec = source.Record{Kind: source.Idle}
		return nil
	}
	next := heap.Pop(&r.held).(heldRecord)
	r.size -= sizeOf(&next.Record)
	*rec = next.Record
	return nil
}

// readEntry reads the next entry into the held records.
func (r *reader) readEntry() {
	r.input.left = maxEntry
	if !r.json.More() {
		_, err := r.json.Token()
		r.failed = cmp.Or(r.fault(err), io.EOF)
		return
	}
	r.number++
	var e entry
	err := r.json.Decode(&e)
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		err = nil // the rest was read
	}
	if err != nil {
		r.failed = r.fault(err)
		return
	}
	r.takeEntry(&e)
}

// fault returns an error with its place.
func (r *reader) fault(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return source.ErrCut
	case r.number == 0:
		return err
	}
	return fmt.Errorf("entry %d: %w", r.number, err)
}

// A heldRecord waits for its turn: the earliest first, and else as they were read.
type heldRecord struct {
	source.Record
	number int
}

type held []heldRecord

func (h held) Len() int { return len(h) }
func (h held) Less(i, j int) bool {
	if d := h[i].Time.Compare(h[j].Time); d != 0 {
		return d < 0
	}
	return h[i].number < h[j].number
}
func (h held) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *held) Push(x any)   { *h = append(*h, x.(heldRecord)) }
func (h *held) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

func sizeOf(r *source.Record) int { return len(r.Data) + 128 }

// An exchange is an entry that becomes records.
type exchange struct {
	*reader
	*entry
	conn                  int
	keeps                 bool // other exchanges may follow on the connection
	now                   time.Time
	started, answer, done time.Time
}

// takeEntry makes the records of an entry.
func (r *reader) takeEntry(e *entry) {
	x := &exchange{reader: r, entry: e}
	x.started = timeOf(e.Started, r.latest)
	x.answer = x.started.Add(millis(e.Timings.Send) + millis(e.Timings.Wait) + millis(e.Timings.Blocked) + millis(e.Timings.DNS) + millis(e.Timings.Connect))
	x.done = x.answer.Add(millis(e.Timings.Receive))
	x.unfold()
}

// unfold makes the records of an exchange whose times are known.
func (x *exchange) unfold() {
	r, e := x.reader, x.entry
	r.latest, x.now = x.started, x.started
	address, err := url.Parse(e.Request.URL)
	if err == nil && !slices.Contains([]string{"", "http", "https", "ws", "wss"}, address.Scheme) {
		return // data in the page, or an extension of the browser
	}
	if err != nil || !httpguts.ValidHeaderFieldName(e.Request.Method) || len(e.Request.Method) > 16 {
		x.conn = 0
		x.emit(source.Note, frame.DirUnknown, fmt.Appendf(nil, "entry %d has no request: %.40q %.200q", r.number, e.Request.Method, e.Request.URL))
		return
	}
	if r.about.Unit == "" {
		r.about.Unit, r.about.Created = address.Host, x.started
	}
	socket := len(e.Messages) > 0 || e.Response.Status == 101
	x.connect(address.Host, !socket && strings.HasPrefix(strings.ToLower(cmp.Or(e.Request.Version, "h")), "http/1"))
	x.sendRequest(address, socket)
	switch {
	case socket:
		x.switchProtocols()
	case e.Response.Status >= 200 && e.Response.Status < 1000:
		x.sendResponse()
	default:
		x.emit(source.Lost, frame.U2C, fmt.Appendf(nil, "no answer to %s %.200s: %.200s", e.Request.Method, e.Request.URL,
			cmp.Or(e.Response.Failure, e.Response.Error, e.Error, "the archive does not say why")))
	}
	if !socket && !x.keeps { // an archive does not say how a WebSocket ends
		x.emit(source.Ended, frame.U2C, nil)
		x.emit(source.Ended, frame.C2U, nil)
	}
}

func timeOf(text string, otherwise time.Time) time.Time {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999Z0700", "2006-01-02T15:04:05.999999999"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t
		}
	}
	return otherwise
}

func millis(ms float64) time.Duration {
	return time.Duration(math.Round(min(max(ms, 0), float64(maxWait/time.Millisecond))*1e3)) * time.Microsecond
}

// connect chooses the connection of the exchange: that which the entry names if nothing overlaps there.
func (x *exchange) connect(host string, keeps bool) {
	c := x.shared[x.Connection]
	if keeps && c != nil && !x.started.Before(c.free) {
		x.conn, x.keeps, c.free = c.number, true, x.done
		return
	}
	x.conns++
	x.conn = x.conns
	if keeps && x.Connection != "" && c == nil && len(x.shared) < maxShared {
		x.keeps, x.shared[x.Connection] = true, &conn{x.conn, x.done}
	}
	x.announce(host)
}

// announce begins the connection.
func (x *exchange) announce(host string) {
	x.emit(source.Opened, frame.DirUnknown, []byte(cmp.Or(x.about.Controller, "client")+" → "+host))
}

// emit adds a record. Times on a connection do not go back.
func (x *exchange) emit(kind source.Kind, dir frame.Dir, data []byte) {
	rec := source.Record{Kind: kind, Conn: x.conn, Dir: dir, Time: x.now, Data: data}
	x.order++
	x.size += sizeOf(&rec)
	heap.Push(&x.held, heldRecord{rec, x.order})
}

func (x *exchange) at(t time.Time) *exchange {
	if t.After(x.now) {
		x.now = t
	}
	return x
}

// unwanted are fields about how a body was transferred.
var unwanted = []string{"Content-Encoding", "Transfer-Encoding", "Content-Length", "Trailer"}

// head returns the head of a message. One that has a body states its length; -1 is none.
func (x *exchange) head(start string, fields []field, length int, extra ...string) []byte {
	b := fmt.Appendf(nil, "%s\r\n", start)
	omitted := unwanted
	if x.packed {
		omitted = unwanted[1:]
	}
	for _, f := range fields {
		if !httpguts.ValidHeaderFieldName(f.Name) || slices.ContainsFunc(omitted, func(name string) bool { return strings.EqualFold(name, f.Name) }) {
			continue
		}
		for value := range strings.SplitSeq(f.Value, "\n") { // Chromium joins fields of one name
			if value = strings.TrimSpace(value); httpguts.ValidHeaderFieldValue(value) {
				b = fmt.Appendf(b, "%s: %s\r\n", f.Name, value)
			}
		}
	}
	for _, line := range extra {
		b = fmt.Appendf(b, "%s\r\n", line)
	}
	if length >= 0 {
		b = fmt.Appendf(b, "Content-Length: %d\r\n", length)
	}
	return append(b, "\r\n"...)
}

func get(fields []field, name string) string {
	for _, f := range fields {
		if strings.EqualFold(f.Name, name) {
			return f.Value
		}
	}
	return ""
}

func (x *exchange) sendRequest(address *url.URL, socket bool) {
	q := &x.Request
	var extra []string
	q.Headers = slices.DeleteFunc(q.Headers, func(f field) bool { return strings.EqualFold(f.Name, "Host") && !httpguts.ValidHostHeader(f.Value) })
	if get(q.Headers, "Host") == "" {
		extra = append(extra, "Host: "+cmp.Or(address.Host, "unknown"))
	}
	length := -1
	body, _ := q.Body.bytes()
	switch {
	case socket:
		q.Method, body = "GET", nil
		extra = append(extra, upgrade(q.Headers)...)
	case len(body) > 0 || !slices.Contains([]string{"GET", "HEAD", "OPTIONS", "DELETE", "CONNECT"}, q.Method):
		length = len(body)
	}
	target := address.RequestURI()
	if q.Method == "CONNECT" {
		q.Method, target = "GET", cmp.Or(target, "/") // what passes the tunnel is in entries of its own
	}
	x.emit(source.Bytes, frame.C2U, append(x.head(q.Method+" "+target+" HTTP/1.1", q.Headers, length, extra...), body...))
}

// upgrade returns the fields of an upgrade to WebSocket that are missing.
func upgrade(fields []field) (missing []string) {
	if get(fields, "Upgrade") == "" {
		missing = append(missing, "Upgrade: websocket")
	}
	if !strings.EqualFold(get(fields, "Connection"), "upgrade") {
		missing = append(missing, "Connection: Upgrade")
	}
	return missing
}

// bytes returns a body; false if the archive does not have it.
func (c *content) bytes() (body []byte, ok bool) {
	switch {
	case c == nil:
		return nil, false
	case c.Text == nil && len(c.Params) > 0:
		values := url.Values{}
		for _, p := range c.Params {
			values.Add(p.Name, p.Value)
		}
		return []byte(values.Encode()), true
	case c.Text == nil:
		return nil, false
	case strings.EqualFold(c.Encoding, "base64"):
		body, err := base64.StdEncoding.DecodeString(*c.Text)
		return body, err == nil
	}
	return []byte(*c.Text), true
}

func (x *exchange) statusLine() string {
	text := x.Response.Text
	if !httpguts.ValidHeaderFieldValue(text) {
		text = ""
	}
	return strings.TrimSpace(fmt.Sprintf("HTTP/1.1 %d %s", int(x.Response.Status), text))
}

func (x *exchange) sendResponse() {
	p := &x.Response
	body, there := p.Body.bytes()
	if status := int(p.Status); x.Request.Method == "HEAD" || status == 204 || status == 304 {
		x.at(x.answer).emit(source.Bytes, frame.U2C, x.head(x.statusLine(), p.Headers, -1))
		x.at(x.done)
		return
	}
	var extra []string
	if get(p.Headers, "Content-Type") == "" && p.Body.Type != "" && p.Body.Type != "x-unknown" && httpguts.ValidHeaderFieldValue(p.Body.Type) {
		extra = append(extra, "Content-Type: "+p.Body.Type)
	}
	pieces := x.pieces(body)
	empty := p.Body.Size != nil && *p.Body.Size == 0 || p.Size != nil && *p.Size == 0 || p.Status == 202
	if !there && len(pieces) == 0 && !empty {
		x.at(x.answer).emit(source.Bytes, frame.U2C, x.head(x.statusLine(), p.Headers, -1, append(extra, "Transfer-Encoding: chunked")...))
		x.emit(source.Lost, frame.U2C, fmt.Appendf(nil, "the body of the answer to %s %.200s is not in the archive", x.Request.Method, x.Request.URL))
		return
	}
	length := 0
	for _, piece := range pieces {
		length += len(piece.data)
	}
	x.at(x.answer).emit(source.Bytes, frame.U2C, x.head(x.statusLine(), p.Headers, length, extra...))
	for _, piece := range pieces {
		x.at(piece.at).emit(source.Bytes, frame.U2C, piece.data)
	}
	x.at(x.done)
}

// A piece of a body came at once.
type piece struct {
	at   time.Time
	data []byte
}

// pieces returns the pieces of a body: events at their times if the entry has these, or else all of it at
// its end.
func (x *exchange) pieces(body []byte) []piece {
	if len(x.Events) == 0 {
		if len(body) == 0 {
			return nil
		}
		return []piece{{x.done, body}}
	}
	clock := clockOf(x.Events[0].Time, x.answer)
	var own [][]byte // the events in the body, which have everything as it was written
	for rest := body; len(rest) > 0; {
		_, after, _ := bytes.Cut(rest, []byte("\n\n"))
		own, rest = append(own, rest[:len(rest)-len(after)]), after
	}
	var list []piece
	for i, e := range x.Events {
		p := piece{at: clock(e.Time)}
		if len(own) == len(x.Events) {
			p.data = own[i]
		} else {
			if e.Name != "" && e.Name != "message" {
				p.data = fmt.Appendf(p.data, "event: %s\n", oneLine(e.Name))
			}
			if e.ID != "" {
				p.data = fmt.Appendf(p.data, "id: %s\n", oneLine(e.ID))
			}
			for line := range strings.SplitSeq(e.Data, "\n") {
				p.data = fmt.Appendf(p.data, "data: %s\n", line)
			}
			p.data = append(p.data, '\n')
		}
		list = append(list, p)
	}
	return list
}

func oneLine(s string) string { return strings.NewReplacer("\r", " ", "\n", " ").Replace(s) }

// clockOf returns how times are read that are like the first one: seconds, or milliseconds, since 1970, or
// else seconds since the first one, which is at start.
func clockOf(first float64, start time.Time) func(float64) time.Time {
	const isMillis, isSeconds, most = 1e11, 1e9, 1e13
	return func(t float64) time.Time {
		switch {
		case first > most || t > most:
			return start
		case first > isMillis:
			return time.UnixMicro(int64(t * 1e3)).UTC()
		case first > isSeconds:
			return time.UnixMicro(int64(t * 1e6)).UTC()
		}
		return start.Add(millis((t - first) * 1e3))
	}
}

func (x *exchange) switchProtocols() {
	x.Response.Status, x.Response.Text = 101, "Switching Protocols"
	x.at(x.answer).emit(source.Bytes, frame.U2C, x.head(x.statusLine(), x.Response.Headers, -1, upgrade(x.Response.Headers)...))
	if len(x.Messages) == 0 {
		return
	}
	clock := clockOf(x.Messages[0].Time, x.answer)
	for _, m := range x.Messages {
		data := []byte(m.Data)
		if m.plain != nil {
			data = m.plain
		}
		opcode := frame.Opcode(min(max(m.Opcode, 0), 15))
		if opcode > frame.TextMsg && m.plain == nil { // binary, and what controls the connection
			if plain, err := base64.StdEncoding.DecodeString(m.Data); err == nil {
				data = plain
			}
		}
		dir := frame.U2C
		if m.Type == "send" {
			dir = frame.C2U
		}
		x.at(clock(m.Time)).emit(source.Bytes, dir, message(dir, opcode, data))
	}
}

// message returns a message of a WebSocket. One of a client has a mask, which changes nothing.
func message(dir frame.Dir, opcode frame.Opcode, data []byte) []byte {
	const final, masked, control, mostOfControl = 0x80, 0x80, 8, 125
	switch {
	case opcode >= control && opcode <= control+2:
		data = data[:min(len(data), mostOfControl)]
	case opcode != frame.BinMsg:
		opcode = frame.TextMsg
	}
	b := []byte{final | byte(opcode), 0}
	switch n := len(data); {
	case n < 126:
		b[1] = byte(n)
	case n <= 0xffff:
		b[1] = 126
		b = binary.BigEndian.AppendUint16(b, uint16(n))
	default:
		b[1] = 127
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	if dir == frame.C2U {
		b[1] |= masked
		b = append(b, 0, 0, 0, 0)
	}
	return append(b, data...)
}
