package lint

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/nearest"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/contract"
	"github.com/wirectl/wirectl/session/join"
	"github.com/wirectl/wirectl/session/why"
)

// Contracts lists the rules for sessions that break a contract, in the order of the document.
var Contracts = [...]session.Rule{
	{
		Name: "tool-missing", Severity: session.Error, Rule: "an expected tool is listed",
		Do: "Compare the name with the server's list. If the tool was removed on purpose, remove it from the contract.",
	},
	{
		Name: "tool-forbidden", Severity: session.Error, Rule: "a forbidden tool is not listed",
		Do: "Disable the tool in the server, or hide it from the model in the client.",
	},
	{
		Name: "tool-drift", Severity: session.Error, Rule: "the tools match the baseline",
		Do: "Review the change. If it is intended, update the file with wirectl baseline SESSION, or a pin with wirectl baseline accept; if not, undo it in the server. The severity is warning if existing clients keep working and no description has changed.",
	},
	{
		Name: "large-tool", Severity: session.Error, Rule: "a tool's definition stays within its limit",
		Do: "Shorten the description and the schema: a model reads them with each request.",
	},
	{
		Name: "too-slow", Severity: session.Error, Rule: "an exchange stays within its time limit",
		Do: "Use wirectl stats to see if all are slow, and wirectl decode to see the frames in between.",
	},
	{
		Name: "unchecked", Severity: session.Warning, Rule: "the session contains what the contract checks",
		Do: "Record a session that has it, with wirectl relay --capture FILE and a client that lists the server's tools. The severity is note if only a kind of exchange is missing.",
	},
}

// Rules lists all rules, in the order of the document.
var Rules = slices.Concat(session.Findings[:], Contracts[:], join.Rules[:], why.Rules[:], Safeties[:])

// A Contract is a set of requirements on a session beyond its protocol.
type Contract struct {
	Expect, Forbid []string // names of tools
	// MaxDuration is how long exchanges may take, by kind.
	MaxDuration map[string]time.Duration
	// MaxDefinition bounds the definition of a tool, in bytes without spaces; 0 means no
	// bound.
	MaxDefinition int
	Baseline      *contract.Baseline // nil for none
}

// AboutTools reports whether the contract has requirements on the server's tools.
func (c *Contract) AboutTools() bool {
	return len(c.Expect)+len(c.Forbid)+c.MaxDefinition > 0 || c.Baseline != nil
}

// IsEmpty reports whether the contract has no requirements.
func (c *Contract) IsEmpty() bool { return !c.AboutTools() && len(c.MaxDuration) == 0 }

// A Check checks one session against a contract. It is the watcher of the session's tracker.
type Check struct {
	session.Bystander
	contract *Contract
	offer    contract.Offer
	kinds    map[string]bool // that were seen
	findings []session.Finding
	slow     int64 // exchanges that took too long
}

// NewCheck returns a check of a session by c.
func NewCheck(c *Contract) *Check { return &Check{contract: c, kinds: make(map[string]bool)} }

// AddMessage accepts a message of the session.
func (k *Check) AddMessage(seq int64, m *protocol.Message, payload []byte) {
	if k.contract.AboutTools() {
		k.offer.AddMessage(seq, m, payload)
	}
}

// Marks of exchanges.
const (
	seen  = 1
	timed = 2 // timed, and took too long
)

// Changed times an exchange that has ended, with an answer or without, and reads its answer.
func (k *Check) Changed(e *session.Exchange, seq int64) {
	if e.Mark == 0 {
		e.Mark = seen
		k.kinds[e.Kind] = true
	}
	k.offer.Changed(e, seq)
	limit, ok := k.contract.MaxDuration[e.Kind]
	if took := e.Lasted(); ok && e.Mark != timed && took > limit {
		e.Mark = timed
		if k.slow++; k.slow <= maxSlow {
			k.addFinding("too-slow", session.Error, slices.Compact([]int64{e.First, e.Last}), e.Conn,
				"%s took %s, more than %s", e.Title(), took.Round(time.Millisecond), limit)
		}
	}
}

// maxSlow bounds how many findings about slow exchanges are kept.
const maxSlow = 1000

func (k *Check) addFinding(name string, severity session.Severity, frames []int64, conn int, format string, args ...any) {
	k.findings = append(k.findings, session.Finding{
		Name: name, Severity: severity, Frames: frames, Conn: conn,
		Rule: "contract: " + Rules[ruleIndex(name)].Rule, Message: fmt.Sprintf(format, args...),
	})
}

// finish checks the requirements that need the whole session.
func (k *Check) finish(timesKnown bool) {
	k.times(timesKnown)
	if !k.contract.AboutTools() {
		return
	}
	if !k.offer.Any() {
		k.addFinding("unchecked", session.Warning, []int64{}, 0, "no tools were listed: the session has no answer to %s", contract.Tools.Method)
		return
	}
	tools, frames := k.offer.Tools(), k.offer.Frames()
	k.expected(tools, frames)
	for _, name := range k.contract.Forbid {
		if tool, ok := k.offer.Listed[name]; ok {
			k.addFinding("tool-forbidden", session.Error, []int64{tool.First}, 0, "tool %s is listed", contract.Plain(name))
		}
	}
	for _, it := range tools {
		size := len(jsonscan.AppendCompact(nil, it.JSON))
		if limit := k.contract.MaxDefinition; limit > 0 && size > limit {
			k.addFinding("large-tool", session.Error, frames, 0, "the definition of tool %s has %d bytes, more than %d", contract.Plain(it.Name), size, limit)
		}
	}
	k.drift(tools, frames)
}

// times reports durations that could not be checked.
func (k *Check) times(known bool) {
	for _, kind := range slices.Sorted(maps.Keys(k.contract.MaxDuration)) {
		switch {
		case !k.kinds[kind]:
			k.addFinding("unchecked", session.Note, []int64{}, 0, "nothing of the kind %s is in the session%s",
				contract.Plain(kind), nearest.Question(kind, slices.Sorted(maps.Keys(k.kinds))))
		case !known:
			k.addFinding("unchecked", session.Warning, []int64{}, 0, "the times of %s are not known: the session was recorded without times", contract.Plain(kind))
		}
	}
}

func (k *Check) expected(tools []contract.Item, frames []int64) {
	var names []string
	for _, it := range tools {
		names = append(names, it.Name)
	}
	for _, name := range k.contract.Expect {
		if slices.Contains(names, name) {
			continue
		}
		text := fmt.Sprintf("tool %s is not among the %d listed%s", contract.Plain(name), len(names), question(name, names))
		if k.offer.Cut() {
			text += "; the list is incomplete: its next page is not in the session"
		}
		k.addFinding("tool-missing", session.Error, frames, 0, "%s", text)
	}
}

// question suggests the name that may have been meant. Names come from the wire.
func question(name string, names []string) string {
	if meant := nearest.Of(name, names); meant != "" {
		return " (did you mean " + contract.Plain(meant) + "?)"
	}
	return ""
}

func (k *Check) drift(tools []contract.Item, frames []int64) {
	if k.contract.Baseline == nil {
		return
	}
	if contract.Masked(tools) {
		k.addFinding("unchecked", session.Warning, frames, 0, "the definitions of the tools are redacted, so they cannot be compared with the baseline")
		return
	}
	for _, change := range k.contract.Baseline.Drift(tools) {
		k.addFinding("tool-drift", change.Severity(), frames, 0, "%s: %s", change.Class, change.Text)
	}
}

// Drifts are what a record says of tools that differ from pins.
type Drifts struct {
	asked map[int][]int64 // the frames that ask for tools, by connection
	size  int
	found []drift
}

type drift struct {
	session.Finding
	before int64 // the frame after it
}

// AddFrame accepts a frame of the session.
func (d *Drifts) AddFrame(seq int64, conn int, m *protocol.Message) {
	if string(m.Kind) != contract.Tools.Method || d.size == maxTools {
		return
	}
	if d.asked == nil {
		d.asked = map[int][]int64{}
	}
	d.size++
	d.asked[conn] = append(d.asked[conn], seq)
}

// AddNote accepts changes, each after its severity, that are recorded before a frame.
func (d *Drifts) AddNote(before int64, conn int, changes []string, pin string) {
	for _, change := range changes {
		word, text, _ := strings.Cut(change, " ")
		if severity, ok := severityNamed(word); ok && len(d.found) < maxTools {
			d.found = append(d.found, drift{session.Finding{
				Name: "tool-drift", Severity: severity, Conn: conn, Rule: "pin: the tools are those that were pinned",
				Message: text + "; wirectl baseline diff " + pin + " shows it",
			}, before})
		}
	}
}

// AddDrifts adds what differs from pins, each change once.
func (s *Session) AddDrifts(d *Drifts) {
	told := map[string]bool{}
	for _, f := range d.found {
		if told[f.Message] {
			continue
		}
		told[f.Message] = true
		f.Frames = []int64{}
		for conn, asked := range d.asked {
			for _, seq := range asked { // of a bridge, connection 0 stands for all
				if seq < f.before && (conn == f.Conn || f.Conn == 0) {
					f.Frames = []int64{max(seq, last(f.Frames))}
				}
			}
		}
		s.Findings = append(s.Findings, f.Finding)
	}
	s.sortFindings()
}

// AddCheck adds the findings of a contract after the whole session has been read.
func (s *Session) AddCheck(k *Check, timesKnown bool) {
	k.finish(timesKnown)
	s.Findings = append(s.Findings, k.findings...)
	if n := k.slow - maxSlow; n > 0 {
		if s.Unkept == nil {
			s.Unkept = make(map[string]int64)
		}
		s.Unkept["too-slow"] += n
	}
	s.sortFindings()
}

// ParseDuration parses the value of --max-duration: "tools/call=2s".
func ParseDuration(text string) (kind string, limit time.Duration, err error) {
	kind, value, ok := strings.Cut(text, "=")
	limit, err = time.ParseDuration(value)
	if !ok || kind == "" || err != nil || limit <= 0 {
		return "", 0, fmt.Errorf("%s: want a kind and a duration such as tools/call=2s", strconv.Quote(text))
	}
	return kind, limit, nil
}
