// Package cdp parses the messages of the Chrome DevTools Protocol, which puppeteer and
// other clients speak with a browser, over a WebSocket or a pipe of payloads that end in
// NUL. Node speaks it too.
package cdp

import (
	"bytes"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
)

// Spec is CDP. The kind of a command or event is its method, such as Page.navigate; an
// answer is a "result" or an "error". The id of a command is unique within its session.
var Spec = protocol.Spec{
	Protocol: cdp{"cdp"},
	About:    "the Chrome DevTools Protocol",
	// A command to a detached session gets no answer. There are no cancels.
	Rules: protocol.Rules{
		UniqueIDs: true,
		MayLeave:  true,
		LooseRefs: true,
		Asks:      frame.C2U,
		Framing:   frame.Nul,
		Dismiss:   []string{"Browser.close"},
		Sources: [][2]string{
			{"orphan", "an answer has the id and the sessionId of a command"},
			{"duplicate-id", "the id of a command is not in use in its session"},
			{"after-end", "a command is answered once, and none is sent to a session after Target.detachedFromTarget"},
			{"bad-id", "an id is an integer"},
			{"bad-params", "params are an object"},
			{"wrong-side", "a client sends commands, and a browser answers and events"},
			{"wrong-framing", "over the pipe each message ends in a NUL byte"},
			{"unknown-kind", "a method is a domain and a name, with a point between"},
		},
	},
	Recognize: recognize,
}

type cdp struct{ jsonwalk.Named }

// domains are those of Chrome and Node.
var domains = strings.Fields(`
	Accessibility Animation Audits Autofill BackgroundService BluetoothEmulation Browser CSS CacheStorage Cast Console
	CrashReportContext DOM DOMDebugger DOMSnapshot DOMStorage Database Debugger DeviceAccess DeviceOrientation Emulation
	EventBreakpoints Extensions FedCm Fetch FileSystem HeadlessExperimental HeapProfiler IO IndexedDB Input Inspector
	LayerTree Log Media Memory Network NodeRuntime NodeTracing NodeWorker Overlay PWA Page Performance
	PerformanceTimeline Preload Profiler Runtime Schema Security ServiceWorker SmartCardEmulation Storage SystemInfo
	Target Tethering Tracing WebAudio WebAuthn
`)

// Any JSON with an id may be an answer, and other protocols have methods of other domains.
func recognize(payload []byte, m *protocol.Message) protocol.Evidence {
	domain, _, _ := bytes.Cut(m.Kind, []byte("."))
	return protocol.Own(slices.Contains(domains, string(domain)) && jsonwalk.Shape{Has: `method"`, MayHave: "id params sessionId"}.Fits(payload))
}

// wire holds the members of a message, as written.
type wire struct {
	id, session            []byte
	method                 []byte // without quotes
	params, result, failed []byte
	code, message          []byte
	ofSession, ofTarget    []byte // the session that params name, and the type of its target
	exception, errorText   []byte // of a result
	url                    []byte
}

// Parse reads one message, as [protocol.Protocol] wants it.
func (cdp) Parse(payload []byte, m *protocol.Message) error {
	var s jsonscan.Scanner
	var w wire
	return jsonwalk.Parse(&s, payload, m, func() { w.read(&s, payload) }, func() { w.interpret(m) })
}

func (w *wire) read(s *jsonscan.Scanner, payload []byte) {
	for ok := s.Object(); ok && s.Next(); {
		start := s.Offset()
		switch string(s.Key()) {
		case "id":
			w.id = s.Value()
		case "sessionId":
			w.session = s.Value()
		case "method":
			w.method = jsonwalk.Word(s.Value())
		case "params":
			w.readParams(s)
			w.params = jsonwalk.Since(s, payload, start)
		case "result":
			w.readResult(s)
			w.result = jsonwalk.Since(s, payload, start)
		case "error":
			for ok := s.Object(); ok && s.Next(); {
				switch string(s.Key()) {
				case "code":
					w.code = s.Value()
				case "message":
					w.message = s.Value()
				}
			}
			w.failed = jsonwalk.Since(s, payload, start)
		}
	}
}

func (w *wire) readParams(s *jsonscan.Scanner) {
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "sessionId":
			w.ofSession = s.Value()
		case "url":
			w.url = s.Value()
		case "targetInfo":
			for ok := s.Object(); ok && s.Next(); {
				switch string(s.Key()) {
				case "type":
					w.ofTarget = jsonwalk.Word(s.Value())
				case "url":
					w.url = s.Value()
				}
			}
		}
	}
}

func (w *wire) readResult(s *jsonscan.Scanner) {
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "errorText":
			w.errorText = s.Value()
		case "exceptionDetails":
			start := s.Offset()
			w.exception = jsonwalk.Member(s, "text")
			s.Skip()
			if w.exception == nil && s.Err() == nil && s.Offset() > start {
				w.exception = []byte(`""`)
			}
		}
	}
}

// interpret sets the meaning of the members.
func (w *wire) interpret(m *protocol.Message) {
	m.Within = jsonwalk.Token(w.session, protocol.SpaceSession)
	switch {
	case w.method != nil:
		w.interpretMethod(m)
	case w.id != nil && (w.result != nil || w.failed != nil):
		w.interpretAnswer(m)
	default:
		m.Faults |= protocol.UnknownKind
		return
	}
	if w.id != nil && !isInteger(w.id) {
		m.Faults |= protocol.BadID
	}
}

// interpretMethod sets the meaning of a command or an event.
func (w *wire) interpretMethod(m *protocol.Message) {
	if !isMethod(w.method) {
		m.Faults |= protocol.UnknownKind
		return
	}
	m.Kind, m.Text = w.method, w.params
	if w.params != nil && w.params[0] != '{' {
		m.Faults |= protocol.BadParams
	}
	if w.id != nil {
		m.From, m.Phase = frame.C2U, protocol.Open
		m.ID = jsonwalk.Token(w.id, protocol.SpaceID)
		if w.url != nil {
			m.Text = w.url
		}
		return
	}
	m.From = frame.U2C
	switch string(w.method) {
	case "Target.attachedToTarget":
		m.Bind = jsonwalk.Token(w.ofSession, protocol.SpaceSession)
		m.Label = w.ofTarget
	case "Target.detachedFromTarget":
		m.Gone = jsonwalk.Token(w.ofSession, protocol.SpaceSession)
	case "Target.targetCreated", "Target.targetInfoChanged":
		m.Label = w.ofTarget
	}
	if m.Label != nil && w.url != nil {
		m.Text = w.url
	}
}

var (
	kindResult = []byte("result")
	kindError  = []byte("error")
)

// interpretAnswer sets the meaning of an answer. A page that throws and a navigation that
// fails are results.
func (w *wire) interpretAnswer(m *protocol.Message) {
	m.From, m.ID = frame.U2C, jsonwalk.Token(w.id, protocol.SpaceID)
	if w.result != nil && w.failed != nil {
		m.Faults |= protocol.BothAnswers
	}
	if w.failed != nil {
		m.Kind, m.Phase, m.Label, m.Text = kindError, protocol.Fail, w.code, w.message
		return
	}
	m.Kind, m.Phase, m.Text = kindResult, protocol.Close, w.result
	for _, failed := range [...][]byte{w.exception, w.errorText} {
		if len(failed) > 0 && string(failed) != `""` {
			m.Text = failed
		}
		m.ToolError = m.ToolError || len(failed) > 0
	}
}

// isMethod reports whether a method is a domain and a name: "Page.navigate".
func isMethod(method []byte) bool {
	domain, name, _ := bytes.Cut(method, []byte("."))
	other := func(r rune) bool { return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9') }
	return len(domain) > 0 && domain[0] >= 'A' && domain[0] <= 'Z' && !bytes.ContainsFunc(domain, other) &&
		len(name) > 0 && name[0] >= 'a' && !bytes.ContainsFunc(name, other)
}

func isInteger(raw []byte) bool {
	return jsonscan.KindOf(raw) == jsonscan.Number && !bytes.ContainsAny(raw, ".eE")
}
