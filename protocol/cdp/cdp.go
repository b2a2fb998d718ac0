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

// A packet holds the members of a message: words without quotes, others as written.
type packet struct {
	id        []byte `at:"id"`
	session   []byte `at:"sessionId"`
	method    []byte `at:"method,word"`
	params    []byte `at:"params"`
	child     []byte `at:"params.sessionId"`
	target    []byte `at:"params.targetInfo.type,word"`
	url       []byte `at:"params.url params.targetInfo.url"`
	result    []byte `at:"result"`
	errorText []byte `at:"result.errorText"`
	exception []byte `at:"result.exceptionDetails"`
	thrown    []byte `at:"result.exceptionDetails.text"`
	failure   []byte `at:"error"`
	code      []byte `at:"error.code"`
	message   []byte `at:"error.message"`
}

var paths = jsonwalk.PathsOf[packet]()

// Parse implements [protocol.Protocol].
func (cdp) Parse(payload []byte, m *protocol.Message) error {
	var p packet
	return paths.Parse(payload, m, &p, func() { p.interpret(m) })
}

// interpret sets the meaning of the members.
func (p *packet) interpret(m *protocol.Message) {
	m.Within = jsonwalk.Token(p.session, protocol.SpaceSession)
	switch {
	case p.method != nil:
		p.interpretMethod(m)
	case p.id != nil && (p.result != nil || p.failure != nil):
		p.interpretAnswer(m)
	default:
		m.Faults |= protocol.UnknownKind
		return
	}
	if p.id != nil && !isInteger(p.id) {
		m.Faults |= protocol.BadID
	}
}

// interpretMethod sets the meaning of a command or an event.
func (p *packet) interpretMethod(m *protocol.Message) {
	if !isMethod(p.method) {
		m.Faults |= protocol.UnknownKind
		return
	}
	m.Kind, m.Text = p.method, p.params
	if p.params != nil && p.params[0] != '{' {
		m.Faults |= protocol.BadParams
	}
	if p.id != nil {
		m.From, m.Phase = frame.C2U, protocol.Open
		m.ID = jsonwalk.Token(p.id, protocol.SpaceID)
		if p.url != nil {
			m.Text = p.url
		}
		return
	}
	m.From = frame.U2C
	switch string(p.method) {
	case "Target.attachedToTarget":
		m.Bind = jsonwalk.Token(p.child, protocol.SpaceSession)
		m.Label = p.target
	case "Target.detachedFromTarget":
		m.Gone = jsonwalk.Token(p.child, protocol.SpaceSession)
	case "Target.targetCreated", "Target.targetInfoChanged":
		m.Label = p.target
	}
	if m.Label != nil && p.url != nil {
		m.Text = p.url
	}
}

var (
	kindResult = []byte("result")
	kindError  = []byte("error")
)

// interpretAnswer sets the meaning of an answer. A page that throws and a navigation that
// fails are results.
func (p *packet) interpretAnswer(m *protocol.Message) {
	m.From, m.ID = frame.U2C, jsonwalk.Token(p.id, protocol.SpaceID)
	if p.result != nil && p.failure != nil {
		m.Faults |= protocol.BothAnswers
	}
	if p.failure != nil {
		m.Kind, m.Phase, m.Label, m.Text = kindError, protocol.Fail, p.code, p.message
		return
	}
	m.Kind, m.Phase, m.Text = kindResult, protocol.Close, p.result
	for _, text := range [...][]byte{p.thrown, p.errorText} {
		if len(text) > 0 && string(text) != `""` {
			m.Text = text
		}
	}
	m.ToolError = p.exception != nil || p.errorText != nil
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
