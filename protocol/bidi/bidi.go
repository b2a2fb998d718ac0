// Package bidi parses the messages of WebDriver BiDi, with which Selenium, Puppeteer and others
// drive a browser over a WebSocket.
package bidi

import (
	"bytes"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/internal/jsonwalk"
)

// Spec is WebDriver BiDi. The kind of a command or event is its method, such as session.new; an
// answer is a "success" or an "error". Commands have numbers, and are answered in any order.
var Spec = protocol.Spec{
	Protocol: bidi{"bidi"},
	About:    "WebDriver BiDi between a client and a browser",
	// The end of a session closes its connection, even if commands are open. WebDriver can end it by
	// HTTP. There are no cancels.
	Rules: protocol.Rules{
		UniqueIDs: true,
		MayLeave:  true,
		Asks:      frame.C2U,
		Dismiss:   []string{"session.end", "browser.close"},
		EndsOpen:  true,
		Session: func(opened string, _ *protocol.Message, payload []byte) []byte {
			if opened != "session.new" {
				return nil
			}
			id, _ := jsonscan.Get(payload, "result", "sessionId")
			return id
		},
		Sources: [][2]string{
			{"orphan", "an answer has the id of a command; only an error has null, for a command that could not be read"},
			{"duplicate-id", "the id of a command is not in use"},
			{"bad-id", "an id is an integer from 0"},
			{"bad-params", "params are an object"},
			{"missing-field", "a command has an id and params, a success an id and a result, an error an id, a code and a message"},
			{"wrong-side", "a client sends commands, and a browser answers and events"},
			{"unknown-kind", "a message is a command, a success, an error or an event; a method is a module and a name, with a point between"},
		},
	},
	Recognize: recognize,
	Kept:      []string{"error"},
}

type bidi struct{ jsonwalk.Named }

// methods are the commands and events of the specification and of its extensions.
var methods = methodsOf(map[string]string{
	"session": "status new end subscribe unsubscribe",
	"browser": "close createUserContext getClientWindows getUserContexts removeUserContext setClientWindowState setDownloadBehavior",
	"browsingContext": `activate captureScreenshot close create getTree handleUserPrompt locateNodes navigate print reload setViewport
		traverseHistory contextCreated contextDestroyed domContentLoaded downloadEnd downloadWillBegin fragmentNavigated historyUpdated
		load navigationAborted navigationCommitted navigationFailed navigationStarted userPromptClosed userPromptOpened`,
	"emulation": `setForcedColorsModeThemeOverride setGeolocationOverride setLocaleOverride setNetworkConditions
		setScreenOrientationOverride setScreenSettingsOverride setScriptingEnabled setTimezoneOverride setTouchOverride setUserAgentOverride`,
	"input": "performActions releaseActions setFiles fileDialogOpened",
	"log":   "entryAdded",
	"network": `addDataCollector addIntercept continueRequest continueResponse continueWithAuth disownData failRequest getData
		provideResponse removeDataCollector removeIntercept setCacheBehavior setExtraHeaders authRequired beforeRequestSent fetchError
		responseCompleted responseStarted`,
	"permissions":  "setPermission",
	"script":       "addPreloadScript callFunction disown evaluate getRealms removePreloadScript message realmCreated realmDestroyed",
	"storage":      "deleteCookies getCookies setCookie",
	"webExtension": "install uninstall",
})

func methodsOf(modules map[string]string) map[string]bool {
	methods := map[string]bool{}
	for module, names := range modules {
		for name := range strings.FieldsSeq(names) {
			methods[module+"."+name] = true
		}
	}
	return methods
}

// shapes are those of messages with one of the methods, and of errors. A success may as well be of
// another protocol.
var shapes = []jsonwalk.Shape{
	{Has: `id method" params{`, MayHave: channel},
	{Has: `type" method" params{`, MayHave: channel},
	{Has: `type" id error" message"`, MayHave: "stacktrace " + channel},
}

// channel is a member that Chromium adds, and repeats in the answer.
const channel = "goog:channel"

// The methods of CDP begin with capital letters. AT Driver, for screen readers, has session.new, too.
func recognize(payload []byte, m *protocol.Message) protocol.Evidence {
	return protocol.Own(!bytes.Contains(payload, []byte(`"atName"`)) && (methods[string(m.Kind)] || slices.Contains(codes, string(m.Label))) &&
		slices.ContainsFunc(shapes, func(s jsonwalk.Shape) bool { return s.Fits(payload) }))
}

// codes are those of errors.
var codes = []string{
	"invalid argument", "invalid selector", "invalid session id", "invalid web extension", "move target out of bounds",
	"no such alert", "no such client window", "no such element", "no such frame", "no such handle", "no such history entry",
	"no such intercept", "no such network collector", "no such network data", "no such node", "no such request", "no such script",
	"no such storage partition", "no such user context", "no such web extension", "session not created",
	"unable to capture screen", "unable to close browser", "unable to set cookie", "unable to set file input",
	"unavailable network data", "underspecified storage partition", "unknown command", "unknown error", "unsupported operation",
}

// A packet holds the members of a message: words without quotes, others as written.
type packet struct {
	id         []byte `at:"id"`
	kind       []byte `at:"type,word"`
	method     []byte `at:"method,word"`
	params     []byte `at:"params"`
	url        []byte `at:"params.url"`
	script     []byte `at:"params.expression|functionDeclaration"`
	result     []byte `at:"result"`
	resultType []byte `at:"result.type,word"`
	thrown     []byte `at:"result.exceptionDetails.text"`
	code       []byte `at:"error,word"`
	message    []byte `at:"message"`
}

var paths = jsonwalk.PathsOf[packet]()

// Parse implements [protocol.Protocol].
func (bidi) Parse(payload []byte, m *protocol.Message) error {
	var p packet
	return paths.ParseObject(payload, m, &p, func() { p.interpret(m) })
}

var (
	kindSuccess = []byte("success")
	kindError   = []byte("error")
)

// interpret sets the meaning of the members. A script that throws is a success.
func (p *packet) interpret(m *protocol.Message) {
	required := [][]byte{p.id, p.params}
	switch kind := string(p.kind); {
	case p.kind == nil && isMethod(p.method):
		m.Kind, m.From, m.Phase = p.method, frame.C2U, protocol.Open
	case kind == "event" && isMethod(p.method):
		m.Kind, m.From = p.method, frame.U2C
		required = required[1:]
	case kind == "success":
		m.Kind, m.From, m.Phase, m.Text = kindSuccess, frame.U2C, protocol.Close, p.result
		if m.ToolError = string(p.resultType) == "exception"; m.ToolError && p.thrown != nil {
			m.Text = p.thrown
		}
		required[1] = p.result
	case kind == "error":
		m.Kind, m.From, m.Phase, m.Label, m.Text = kindError, frame.U2C, protocol.Fail, p.code, p.message
		required = [][]byte{p.id, p.code, p.message}
	default:
		m.Faults |= protocol.UnknownKind
		return
	}
	for _, member := range required {
		if member == nil {
			m.Faults |= protocol.MissingField
		}
	}
	if p.method != nil {
		for _, text := range [][]byte{p.params, p.script, p.url} {
			if text != nil {
				m.Text = text
			}
		}
		if p.params != nil && p.params[0] != '{' {
			m.Faults |= protocol.BadParams
		}
	}
	if p.id != nil && string(p.kind) != "event" {
		m.ID = jsonwalk.Token(p.id, protocol.SpaceID)
		if !isNumber(p.id) && !(m.Phase == protocol.Fail && p.id[0] == 'n') {
			m.Faults |= protocol.BadID
		}
	}
}

// isMethod reports whether a method is a module and a name. Modules of a vendor have a prefix:
// goog:cdp.sendCommand.
func isMethod(method []byte) bool {
	module, name, _ := bytes.Cut(method, []byte("."))
	_, own, hasVendor := bytes.Cut(module, []byte(":"))
	if hasVendor {
		module = own
	}
	return isName(module) && isName(name)
}

// isName reports whether a text is letters and digits, the first of them a small letter.
func isName(text []byte) bool {
	other := func(r rune) bool { return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9') }
	return len(text) > 0 && text[0] >= 'a' && !bytes.ContainsFunc(text, other)
}

func isNumber(raw []byte) bool { return len(bytes.Trim(raw, "0123456789")) == 0 }
