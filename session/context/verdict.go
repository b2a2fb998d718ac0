package context

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/llm"
)

// A setting is a member of a request on which the cache depends.
type setting struct {
	name, text string
	hash       uint64
}

// matters reports whether a provider's cache depends on a setting. The choice of a tool does so where it
// is an object with a type of its own.
func matters(s llm.Setting) bool {
	if s.Name != "tool_choice" {
		return true
	}
	kind, _ := jsonscan.Get(s.Value, "type")
	return slices.Contains([]string{`"auto"`, `"any"`, `"tool"`, `"none"`}, string(kind))
}

// ofMessages are the settings on which only the cache of the messages depends.
var ofMessages = []string{"tool_choice", "thinking"}

// setLifetime sets how long the provider keeps what it has read: Anthropic 5 minutes or an hour, as the
// request says; OpenAI at least 5 minutes, and an hour or a day, as the request says. Others do not say it.
func (c *Call) setLifetime(g *llm.Given) {
	marks := [][]byte{g.Mark}
	for i := range g.Blocks {
		if m := g.Blocks[i].Mark; m != (llm.Span{}) {
			marks = append(marks, m.Of(g.Body))
		}
	}
	for _, mark := range marks {
		if mark == nil {
			continue
		}
		life := 5 * time.Minute
		if ttl, _ := jsonscan.Get(mark, "ttl"); string(ttl) == `"1h"` {
			life = time.Hour
		}
		if c.least == 0 || life < c.least {
			c.least, c.most = life, life
		}
	}
	switch {
	case c.least != 0:
	case g.Retention == "in_memory", g.Retention == "in-memory":
		c.least, c.most = 5*time.Minute, time.Hour
	default:
		c.least, c.most = 5*time.Minute, 24*time.Hour
	}
}

// compare says what differs from the call before. The first items are the same.
func (l *Log) compare(c, before *Call, same int) {
	sizes := func(c *Call, i int) int64 {
		if c == before || i >= c.Front && i < c.Front+c.Held {
			if before.Omitted || c.Omitted {
				return 0
			}
			return c.Items[i].Bytes
		}
		if i >= c.Front {
			i -= c.Held
		}
		return size(&l.given.Blocks[i])
	}
	for i := range same {
		c.SameSize += sizes(c, i)
	}
	c.Same = same
	c.Changes = l.settingChanges(c, before)
	if same == len(c.hashes) && same == len(before.hashes) {
		c.Equal = len(c.Changes) == 0
		return
	}
	lost := map[uint64]int{}
	for _, h := range before.hashes[same:] {
		lost[h]++
	}
	for i, h := range c.hashes[same:] {
		if lost[h] > 0 {
			lost[h]--
			continue
		}
		c.New.addBytes(sizes(c, same+i))
	}
	var messages int64
	for i, h := range before.hashes[same:] {
		if lost[h] > 0 {
			lost[h]--
			c.Dropped.addBytes(sizes(before, same+i))
			if same+i >= before.Front {
				messages += sizes(before, same+i)
			}
		}
	}
	n := 0
	for _, h := range c.hashes[max(c.Front, same):] {
		if i := before.Front + c.Held + n; same >= c.Front || i >= len(before.hashes) || before.hashes[i] != h {
			break
		}
		n++
	}
	counted := int32(-1)
	for i := max(c.Front+c.Held, same, c.Front+c.Held+n); i < len(c.hashes); i++ {
		if b := &l.given.Blocks[i-c.Held]; b.Role != llm.SystemRole {
			c.Added.Bytes += size(b)
			if b.Message != counted {
				c.Added.Count, counted = c.Added.Count+1, b.Message
			}
		}
	}
	shrinks := len(c.hashes)-c.Front < len(before.hashes)-before.Front
	if messages > before.messageBytes/2 && shrinks && !c.Branch && c.Held == 0 {
		c.Compacted = "dropped"
	}
	if l.Keep && !c.Omitted && !before.Omitted {
		c.Changes = append(c.Changes, l.itemChanges(c, before)...)
		slices.SortStableFunc(c.Changes, func(a, b Change) int { return a.at - b.at })
	}
}

// settingChanges returns the settings that differ.
func (l *Log) settingChanges(c, before *Call) (changes []Change) {
	of := func(list []setting, name string) *setting {
		if i := slices.IndexFunc(list, func(s setting) bool { return s.name == name }); i >= 0 {
			return &list[i]
		}
		return &setting{text: "none"}
	}
	var names []string
	for _, s := range append(slices.Clip(before.settings), c.settings...) {
		if !slices.Contains(names, s.name) {
			names = append(names, s.name)
		}
	}
	for _, name := range names {
		was, is := of(before.settings, name), of(c.settings, name)
		if was.hash == is.hash {
			continue
		}
		ch := Change{Kind: "setting", Name: name, How: l.changed([]byte(was.text), []byte(is.text))}
		if slices.Contains(ofMessages, name) {
			ch.at = before.Front
		}
		ch.before = before.bytesTo(ch.at)
		changes = append(changes, ch)
	}
	return changes
}

// bytesTo returns the bytes of the first items.
func (c *Call) bytesTo(n int) (sum int64) {
	for _, i := range c.Items[:min(n, len(c.Items))] {
		sum += i.Bytes
	}
	return sum
}

// maxChanges bounds the changes of a part: later ones matter only if those before did not.
const maxChanges = 3

// itemChanges returns the items of the call before that are not in their places, the first of each part.
func (l *Log) itemChanges(c, before *Call) (changes []Change) {
	for _, part := range []Kind{Tool, System, User} {
		mine, first := c.part(part)
		theirs, at := before.part(part)
		for i, old := range theirs {
			var now *Item
			if i < len(mine) {
				now = mine[i]
			}
			if now != nil && now.hash == old.hash {
				continue
			}
			ch := Change{Kind: old.Kind.String(), Name: strings.TrimSpace(old.Name + " " + old.Path), Place: i + 1, at: at + i, before: before.bytesTo(at + i)}
			has := func(list []*Item, item *Item) bool {
				return slices.ContainsFunc(list, func(i *Item) bool { return i.hash == item.hash })
			}
			switch {
			case now == nil:
				ch.How = fmt.Sprintf("gone, %d B", old.Bytes)
			case has(mine, old) && has(theirs, now):
				ch.How = fmt.Sprintf("moved: %s is in its place", now.about())
			case has(mine, old):
				ch.Kind, ch.Name, ch.How = now.Kind.String(), strings.TrimSpace(now.Name+" "+now.Path), fmt.Sprintf("new, before %s", old.about())
			case has(theirs, now):
				ch.How = fmt.Sprintf("gone, %d B", old.Bytes)
			default:
				was, is := before.raw(at+i), l.raw(c, first+i)
				ch.How = fmt.Sprintf("%d B → %d B", old.Bytes, now.Bytes)
				if now.Kind != old.Kind || now.Name != old.Name {
					ch.How = fmt.Sprintf("replaced by %s, %s", now.about(), ch.How)
				} else if was != nil && is != nil {
					how := l.changed(was, is)
					if max(old.Bytes, now.Bytes) > 2*min(old.Bytes, now.Bytes) {
						how = ch.How + ", " + how
					}
					ch.How = how
				}
			}
			changes = append(changes, ch)
			if part == User || len(mine) != len(theirs) || len(changes)%maxChanges == 0 {
				break
			}
		}
	}
	return changes
}

// part returns the tools, the system prompt, or the messages, and where they begin.
func (c *Call) part(k Kind) (items []*Item, at int) {
	tools := int(c.Sums[Tool].Count)
	switch k {
	case Tool:
		return c.Items[:tools], 0
	case System:
		return c.Items[tools:c.Front], tools
	}
	return c.Items[c.Front:], c.Front
}

// about names an item.
func (i *Item) about() string {
	if i.Name != "" {
		return i.Kind.String() + " " + i.Name
	}
	return i.Kind.String() + " text"
}

// raw returns an item of an earlier call as written; nil if that is not kept.
func (c *Call) raw(i int) []byte {
	if i >= c.Front {
		i -= c.Held
	}
	if i < 0 || i >= len(c.spans) || c.body == nil {
		return nil
	}
	return asWritten(c.body, &c.spans[i])
}

// raw is the same for the call that is read.
func (l *Log) raw(c *Call, i int) []byte {
	if i >= c.Front {
		i -= c.Held
	}
	if i < 0 || i >= len(l.given.Blocks) {
		return nil
	}
	return asWritten(l.given.Body, &l.given.Blocks[i])
}

// asWritten returns a block in its body: of a text that alone.
func asWritten(body []byte, b *llm.Block) []byte {
	if b.Kind == llm.TextBlock && b.Text != (llm.Span{}) {
		return b.Text.Of(body)
	}
	return body[b.Start:b.End]
}

// changed says in a line how a text has changed: where both differ first. Secrets are masked before less
// than all around that is shown.
func (l *Log) changed(was, is []byte) string {
	n := commonPrefix(was, is)
	from := max(0, n-8*maskSize)
	window := func(text []byte) []byte {
		text = text[from:min(len(text), n+8*maskSize)]
		if l.Mask != nil {
			text = []byte(l.Mask(string(text)))
		}
		return text
	}
	old, now := window(was), window(is)
	at := commonPrefix(old, now)
	if at == len(old) && at == len(now) {
		return fmt.Sprintf("a secret differs, at byte %d", n)
	}
	end := 0
	for end < min(len(old), len(now))-at && old[len(old)-1-end] == now[len(now)-1-end] {
		end++
	}
	cut := func(text []byte) string {
		first, last := max(0, at-shownChange/3), max(at, len(text)-end)
		if space := bytes.IndexByte(text[first:at], ' '); space >= 0 && first > 0 {
			first += space + 1
		}
		last = min(last+shownChange/3, first+shownChange, len(text))
		part := strings.ToValidUTF8(string(text[first:max(first, last)]), "")
		if first > 0 || from > 0 {
			part = "…" + part
		}
		if last < len(text) {
			part += "…"
		}
		return part
	}
	text := cut(old) + " → " + cut(now)
	if n > shownChange {
		text += fmt.Sprintf(" at byte %d", n)
	}
	return text
}

// commonPrefix returns the length of what both begin with.
func commonPrefix(a, b []byte) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// A Verdict says why a cache has served less than before.
type Verdict struct {
	// Cause is changed, expired or provider.
	Cause string `json:"cause"`
	Text  string `json:"text"`
	// Lost are the tokens that were cached and no longer are.
	Lost int64 `json:"lost_tokens"`
}

const (
	leastLost  = 1024 // tokens: providers cache no less
	partLost   = 20   // a smaller part of what was cached is not missed
	leastCache = 1024
)

// A judge judges the calls of a session, in their order.
type judge struct {
	calls    map[int]*Call
	told     map[string]bool   // addresses whose answers tell how much was cached
	served   map[string]bool   // addresses whose caches have served something, or were written to
	survived map[harmless]bool // changes that the cache of a conversation has survived
}

type harmless struct {
	conversation int
	kind, name   string
	place        int
}

// newJudge returns a judge of calls.
func newJudge(calls []*Call) *judge {
	j := &judge{map[int]*Call{}, map[string]bool{}, map[string]bool{}, map[harmless]bool{}}
	for _, c := range calls {
		j.calls[c.Number] = c
		j.told[c.to] = j.told[c.to] || c.CacheTold
		j.served[c.to] = j.served[c.to] || c.Cached+c.Written > 0
	}
	return j
}

// base returns the last call of the conversation with usage before c; of equal ones that have failed, the
// one before them. It returns nil if there is none.
func (j *judge) base(c *Call) *Call {
	for p := j.calls[c.Previous]; p != nil; p = j.calls[p.Previous] {
		if p.Input > 0 {
			return p
		}
		if !p.Equal {
			return nil
		}
	}
	return nil
}

// judge returns the verdict on a call; nil if there is none.
func (j *judge) judge(c *Call) *Verdict {
	p := j.base(c)
	if p == nil || c.Input == 0 || c.Equal || !j.told[c.to] {
		return nil
	}
	kept := p.Cached + p.Written
	if p.Implied && p.Written == 0 && p.Input >= leastCache {
		kept = p.Input
	}
	if !c.Told {
		kept = min(kept, p.Input)
	}
	lost := kept - c.Cached
	enough := max(leastLost, kept/partLost)
	var change *Change
	for i := range c.Changes {
		ch := &c.Changes[i]
		key := harmless{c.Conversation, ch.Kind, ch.Name, ch.Place}
		place := ch.before * p.Input / max(p.Bytes(), 1) // in tokens, an estimate
		switch {
		case c.Cached > place+place/4+leastLost: // more was served than comes before it
			j.survived[key] = true
		case change == nil && !j.survived[key] && place < kept:
			change = ch
		}
	}
	if lost < enough || change == nil && !j.served[c.to] {
		return nil
	}
	v := &Verdict{Lost: lost}
	last := j.calls[c.Previous]
	idle, since := c.Time.Sub(last.Last), c.Time.Sub(last.Time)
	if last.Last.IsZero() {
		idle = 0
	}
	least, most := p.least, p.most
	timed := !c.Time.IsZero() && !last.Time.IsZero()
	isOver := timed && most > 0 && idle > most
	switch {
	case c.Missed != "":
		v.Cause, v.Text = causeOf(c.Missed), "the provider says: "+c.Missed
		if change != nil {
			v.Text += "; your prefix changed at " + change.String()
		}
	case c.Compacted != "" && (change == nil || change.Kind != "setting" && change.Kind != Tool.String() && change.at >= p.Front || c.Told):
		v.Cause, v.Text = "changed", "your prefix changed here: "+c.lost()
	case isOver:
		v.Cause, v.Text = "expired", fmt.Sprintf("expired: idle for %s, and the cache is kept for %s", short(idle), short(most))
		if change != nil {
			v.Text += "; your prefix changed, too: " + change.String()
		}
	case change != nil:
		v.Cause, v.Text = "changed", "your prefix changed here: "+change.String()
	default:
		v.Cause, v.Text = "provider", "the provider's side, cause unknown"
		switch {
		case c.Told:
			v.Text = "cause unknown: a transcript shows neither the system prompt nor the tools"
		case timed && least > 0 && since > least:
			v.Text += fmt.Sprintf("; it may have expired: idle for %s", short(since))
		}
	}
	return v
}

// causeOf returns the cause in a provider's own reason.
func causeOf(reason string) string {
	if strings.HasSuffix(reason, "_changed") {
		return "changed"
	}
	return "provider"
}

func (ch *Change) String() string {
	text := ch.Kind
	switch {
	case ch.Name != "":
		text += " " + ch.Name
	case ch.Place > 0:
		text += fmt.Sprintf(" %d", ch.Place)
	}
	return text + ": " + ch.How
}

// lost says how much is gone, and why.
func (c *Call) lost() string {
	if c.Told {
		return "the context was compacted (" + c.Compacted + ")"
	}
	return fmt.Sprintf("compacted: %s gone, %d B; %d new, %d B", render.Count(c.Dropped.Count, "item"), c.Dropped.Bytes, c.New.Count, c.New.Bytes)
}

// short returns a duration without fractions of its unit.
func short(d time.Duration) string {
	switch {
	case d >= time.Hour && d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d >= time.Minute && d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d >= time.Minute:
		return strings.TrimSuffix(d.Round(time.Second).String(), "0s")
	}
	return d.Round(time.Second).String()
}
