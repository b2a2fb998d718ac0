package convert

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
	"github.com/wirectl/wirectl/internal/jsonscan"
)

// ErrNoHTTP is the error for a session that holds nothing for a HAR file.
var ErrNoHTTP = errors.New("no HTTP traffic: HAR can hold nothing else")

// WriteHAR writes the HTTP exchanges of r to w as an HTTP Archive 1.2: a request
// with its response is an entry. As in Chrome, the messages of a WebSocket belong to the
// entry of its upgrade, and server-sent events to that of their response. An entry of gRPC
// has only the sizes. Entries are written as they end; those that do not end are held up to
// the end of r. If r is cut, everything before the cut is written, and its error returned.
// The version is that of wirectl.
func WriteHAR(w io.Writer, r capture.Reader, version string) error {
	h := &archive{w: w, version: version, open: map[entryKey]*entry{}, last: map[int]*entry{}}
	var rec capture.Record
	var err error
	for err == nil {
		if err = r.Next(&rec); err == nil && rec.Kind == capture.Frame && !rec.Gap && rec.Meta != nil {
			err = h.frame(&rec)
		}
	}
	if err == io.EOF {
		err = nil
	}
	return errors.Join(err, h.writeRest())
}

// An archive is one that is being written.
type archive struct {
	w       io.Writer
	version string
	open    map[entryKey]*entry
	seq     int            // requests
	last    map[int]*entry // by connection: that of its latest response
	written int
}

type entryKey struct {
	conn   int
	stream int64
}

// An entry is a request with its response, as the format has it.
type entry struct {
	Started    string          `json:"startedDateTime"`
	Time       float64         `json:"time"`
	Request    harRequest      `json:"request"`
	Response   harResponse     `json:"response"`
	Cache      struct{}        `json:"cache"`
	Timings    harTimings      `json:"timings"`
	Connection string          `json:"connection,omitempty"`
	Resource   string          `json:"_resourceType,omitempty"`
	Messages   []socketMessage `json:"_webSocketMessages,omitempty"`
	Events     []sentEvent     `json:"_eventSourceMessages,omitempty"`
	Comment    string          `json:"comment,omitempty"`

	key                            entryKey
	number                         int
	sends, gets                    string // the types of both bodies
	requestedAt, startedAt, latest time.Time
	answered                       bool
	content                        bytes.Buffer
	up, down                       int // gRPC messages
}

type harRequest struct {
	Method      string      `json:"method"`
	URL         string      `json:"url"`
	Version     string      `json:"httpVersion"`
	Cookies     []harPair   `json:"cookies"`
	Headers     []harPair   `json:"headers"`
	Query       []harPair   `json:"queryString"`
	PostData    *harContent `json:"postData,omitempty"`
	HeadersSize int         `json:"headersSize"`
	BodySize    int         `json:"bodySize"`
}

type harResponse struct {
	Status      int        `json:"status"`
	StatusText  string     `json:"statusText"`
	Version     string     `json:"httpVersion"`
	Cookies     []harPair  `json:"cookies"`
	Headers     []harPair  `json:"headers"`
	Content     harContent `json:"content"`
	Redirect    string     `json:"redirectURL"`
	HeadersSize int        `json:"headersSize"`
	BodySize    int        `json:"bodySize"`
	Error       string     `json:"_error,omitempty"`
}

type harPair struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type harContent struct {
	Size     *int   `json:"size,omitempty"`
	MimeType string `json:"mimeType"`
	Text     string `json:"text,omitempty"`
	Encoding string `json:"encoding,omitempty"`
}

type harTimings struct {
	Send    float64 `json:"send"`
	Wait    float64 `json:"wait"`
	Receive float64 `json:"receive"`
}

// A socketMessage is a message of a WebSocket; its time is in seconds.
type socketMessage struct {
	Type   string  `json:"type"` // send or receive
	Time   float64 `json:"time"`
	Opcode int     `json:"opcode"`
	Data   string  `json:"data"`
}

type sentEvent struct {
	Time float64 `json:"time"`
	Name string  `json:"eventName"`
	ID   string  `json:"eventId"`
	Data string  `json:"data"`
}

// frame handles a frame that came in a carrier.
func (h *archive) frame(r *capture.Record) error {
	m := r.Meta
	switch {
	case m.Framing == frame.WS, m.Opcode != frame.NoOpcode:
		h.message(r)
		return nil
	case m.Head != nil && m.Head.Method() != "":
		h.request(r)
		return nil
	case m.Head != nil && m.Head.Status() != "":
		return h.response(r)
	}
	e := h.open[entryKey{r.Conn, r.Stream}]
	if e == nil {
		return nil
	}
	e.latest = r.Time
	switch {
	case m.Signal == frame.Reset:
		e.Response.Error = "RST_STREAM " + m.Text
		return h.writeEntry(e)
	case m.Signal == frame.Trailers:
		e.Response.Headers = append(e.Response.Headers, pairs(m.Head)...)
		return h.writeEntry(e)
	case m.Signal == frame.End:
		return h.writeEntry(e)
	case r.Framing == frame.GRPC.Name() && r.Dir == frame.C2U:
		e.up++
		e.Request.BodySize += len(r.Payload())
	case r.Framing == frame.GRPC.Name():
		e.down++
		e.Response.BodySize += len(r.Payload())
	case r.Dir == frame.C2U: // a body of HTTP/2
		e.post(r.Payload())
	case m.Event != "" || e.Resource == eventSource:
		e.event(r)
	default:
		e.content.Write(r.Payload())
		return h.writeEntry(e)
	}
	return nil
}

func (h *archive) request(r *capture.Record) {
	head := r.Meta.Head
	e := &entry{key: entryKey{r.Conn, r.Stream}, requestedAt: r.Time, latest: r.Time, sends: head.Get("Content-Type")}
	e.Started = r.Time.UTC().Format(time.RFC3339Nano)
	if r.Conn > 0 {
		e.Connection = strconv.Itoa(r.Conn)
	}
	address := address(head)
	e.Request = harRequest{
		Method: head.Method(), URL: address.String(), Version: head.Start[strings.LastIndexByte(head.Start, ' ')+1:],
		Cookies: []harPair{}, Headers: pairs(head), Query: query(address), HeadersSize: -1,
	}
	e.Response = harResponse{Cookies: []harPair{}, Headers: []harPair{}, HeadersSize: -1, BodySize: -1}
	if body := r.Payload(); len(body) > 0 {
		e.post(body)
	}
	h.open[e.key] = e
	h.seq++
	e.number = h.seq
}

// address returns where a request went, as far as it says.
func address(head *frame.Head) *url.URL {
	target := head.Target()
	if u, err := url.Parse(target); err == nil {
		if u.Host == "" {
			u.Scheme, u.Host = "http", cmp.Or(head.Get("Host"), "unknown")
		}
		return u
	}
	return &url.URL{Scheme: "http", Host: cmp.Or(head.Get("Host"), "unknown"), Path: target}
}

func query(u *url.URL) []harPair {
	list := []harPair{}
	for item := range strings.SplitSeq(u.RawQuery, "&") {
		if item == "" {
			continue
		}
		name, value, _ := strings.Cut(item, "=")
		for _, s := range []*string{&name, &value} {
			if plain, err := url.QueryUnescape(*s); err == nil {
				*s = plain
			}
		}
		list = append(list, harPair{name, value})
	}
	return list
}

func pairs(h *frame.Head) []harPair {
	list := []harPair{}
	for _, f := range h.Fields {
		list = append(list, harPair{f.Name, f.Value})
	}
	return list
}

func (e *entry) post(body []byte) {
	content := contentOf(e.sends, body)
	e.Request.PostData, e.Request.BodySize = &content, len(body)
}

// contentOf returns a body as text or, if it is none, in base64.
func contentOf(mime string, body []byte) harContent {
	if utf8.Valid(body) {
		return harContent{MimeType: mime, Text: string(body)}
	}
	return harContent{MimeType: mime, Text: base64.StdEncoding.EncodeToString(body), Encoding: "base64"}
}

func (h *archive) response(r *capture.Record) error {
	head := r.Meta.Head
	e := h.open[entryKey{r.Conn, r.Stream}]
	if e == nil || strings.HasPrefix(head.Status(), "1") && head.Status() != "101" {
		return nil
	}
	if before := h.last[r.Conn]; before != nil && before != e && h.open[before.key] == before && before.Resource == eventSource && r.Meta.Framing == frame.HTTP && !strings.HasPrefix(head.Start, "HTTP/2") {
		if err := h.writeEntry(before); err != nil {
			return err
		}
	}
	h.last[r.Conn] = e
	e.startedAt, e.latest, e.answered = r.Time, r.Time, true
	version, rest, _ := strings.Cut(head.Start, " ")
	status, text, _ := strings.Cut(rest, " ")
	e.Response.Version, e.Response.StatusText, e.Response.Headers = version, text, pairs(head)
	e.Response.Status, _ = strconv.Atoi(status)
	e.Response.Redirect, e.gets = head.Get("Location"), head.Get("Content-Type")
	body := r.Payload()
	e.content.Write(body)
	e.Response.BodySize = len(body)
	switch {
	case status == "101":
		e.Resource = "websocket"
	case carrier.HasEvents(head):
		e.Resource = eventSource
	case version == "HTTP/1.1" || version == "HTTP/1.0":
		return h.writeEntry(e)
	}
	return nil
}

// eventSource is the resource type of an answer in events.
const eventSource = "eventsource"

// message handles a message of a WebSocket, which belongs to the upgrade that
// its connection began with.
func (h *archive) message(r *capture.Record) {
	e := h.last[r.Conn]
	if e == nil || e.Resource != "websocket" || r.Meta.Signal != frame.NoSignal {
		return
	}
	e.latest = r.Time
	m := socketMessage{Type: "receive", Time: seconds(r.Time), Opcode: int(r.Meta.Opcode)}
	if r.Dir == frame.C2U {
		m.Type = "send"
	}
	if m.Data = string(r.Payload()); r.Meta.Opcode == frame.BinMsg {
		m.Data = base64.StdEncoding.EncodeToString(r.Payload())
	}
	e.Messages = append(e.Messages, m)
}

// event handles a server-sent event.
func (e *entry) event(r *capture.Record) {
	data := string(r.Payload())
	e.Events = append(e.Events, sentEvent{seconds(r.Time), cmp.Or(r.Meta.Event, "message"), r.Meta.EventID, data})
	if r.Meta.Event != "" {
		fmt.Fprintf(&e.content, "event: %s\n", r.Meta.Event)
	}
	if r.Meta.EventID != "" {
		fmt.Fprintf(&e.content, "id: %s\n", r.Meta.EventID)
	}
	for line := range strings.SplitSeq(data, "\n") {
		fmt.Fprintf(&e.content, "data: %s\n", line)
	}
	e.content.WriteByte('\n')
}

func seconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

func millis(d time.Duration) float64 { return max(0, float64(d.Microseconds())/1e3) }

// writeEntry writes an entry that has ended.
func (h *archive) writeEntry(e *entry) error {
	delete(h.open, e.key)
	e.Time = millis(e.latest.Sub(e.requestedAt))
	if e.answered {
		e.Timings = harTimings{Wait: millis(e.startedAt.Sub(e.requestedAt)), Receive: millis(e.latest.Sub(e.startedAt))}
	} else {
		e.Timings.Wait = e.Time
		e.Response.Error = cmp.Or(e.Response.Error, "no response was seen")
	}
	size := e.content.Len()
	e.Response.Content = contentOf(e.gets, e.content.Bytes())
	e.Response.Content.Size = &size
	if e.up+e.down > 0 {
		e.Comment = fmt.Sprintf("gRPC: %d messages sent, %d received", e.up, e.down)
	}
	separator := ",\n"
	if h.written == 0 {
		separator = fmt.Sprintf(`{"log":{"version":"1.2","creator":{"name":"wirectl","version":%q},"entries":[`, h.version) + "\n"
	}
	h.written++
	text, err := jsonscan.Marshal(e)
	if err != nil {
		return err
	}
	*e = entry{key: e.key, answered: true, Resource: e.Resource}
	_, err = h.w.Write(append([]byte(separator), text...))
	return err
}

// writeRest writes the entries that have not ended, in the order in which they began, and
// then the end of the archive.
func (h *archive) writeRest() error {
	rest := slices.SortedFunc(maps.Values(h.open), func(a, b *entry) int { return a.number - b.number })
	for _, e := range rest {
		if err := h.writeEntry(e); err != nil {
			return err
		}
	}
	if h.written == 0 {
		return ErrNoHTTP
	}
	_, err := io.WriteString(h.w, "\n]}}\n")
	return err
}
