package context

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/table"
)

// A View shows the calls of a session.
type View struct {
	Calls   []*Call
	Dropped int       // calls before them that are not kept
	First   time.Time // of the session

	verdicts map[*Call]*Verdict
}

// View returns a view of what is there by now.
func (l *Log) View(first time.Time) *View {
	v := &View{First: first, verdicts: map[*Call]*Verdict{}}
	v.Calls, v.Dropped = l.Calls()
	j := newJudge(v.Calls)
	for _, c := range v.Calls {
		c.CacheTold = c.CacheTold || c.Input > 0 && !c.Told && j.told[c.to] // some say nothing if it was nothing
		if found := j.judge(c); found != nil {
			v.verdicts[c] = found
		}
	}
	return v
}

// Verdict returns why the cache has served less to a call than before; nil if it has not, or if nothing
// says so.
func (v *View) Verdict(c *Call) *Verdict { return v.verdicts[c] }

// Find returns the call of that number, of a frame ("#22"), or with the answer of that id.
func (v *View) Find(name string) *Call {
	n, _ := strconv.ParseInt(strings.TrimPrefix(name, "#"), 10, 64)
	for _, c := range v.Calls {
		if name == c.ID && name != "" || strings.HasPrefix(name, "#") && c.Frame == n || strconv.Itoa(c.Number) == name {
			return c
		}
	}
	return nil
}

// byNumber returns a call by its number; nil if it is not kept.
func (v *View) byNumber(n int) *Call {
	if i := n - v.Dropped - 1; i >= 0 && i < len(v.Calls) {
		return v.Calls[i]
	}
	return nil
}

// Conversations returns the calls of each conversation, in the order in which they begin.
func (v *View) Conversations() (list [][]*Call) {
	at := map[int]int{}
	for _, c := range v.Calls {
		i, ok := at[c.Conversation]
		if !ok {
			i = len(list)
			at[c.Conversation], list = i, append(list, nil)
		}
		list[i] = append(list[i], c)
	}
	return list
}

// mostPicture is how many bytes of a picture or a sound count for its share of the tokens: those are not
// text.
const mostPicture = 6400

// Tokens shares the input tokens of the provider among the items, by their bytes. The shares are estimates,
// and their sum is the provider's. It returns nil if the provider has not told the tokens.
func (c *Call) Tokens() []int64 {
	if c.Input == 0 || len(c.Items) == 0 {
		return nil
	}
	var all, rest int64
	unknown := -1
	weigh := func(i *Item) int64 {
		if i.Kind == Attachment {
			return min(i.Bytes, mostPicture)
		}
		return i.Bytes
	}
	for n, i := range c.Items {
		if all += weigh(i); i.Kind == History && i.Bytes == 0 && unknown < 0 {
			unknown = n
		}
	}
	visible := c.Input
	if unknown >= 0 {
		visible = min(visible, estimate(all))
		rest = c.Input - visible
	} else if all == 0 {
		unknown, visible, rest = 0, 0, c.Input
	}
	tokens := make([]int64, len(c.Items))
	var seen, given int64
	for n, i := range c.Items {
		seen += weigh(i)
		upTo := int64(float64(visible) * float64(seen) / float64(max(all, 1)))
		if seen == all {
			upTo = visible
		}
		tokens[n] = upTo - given
		given = upTo
	}
	if unknown >= 0 {
		tokens[unknown] += rest
	}
	return tokens
}

// letters stand for kinds in bars of text.
const letters = "TSuaacr@?."

// perByte returns how many tokens stand for a byte of the calls of a conversation, if those are told and
// fine enough to be drawn; 0 if bytes are drawn.
func perByte(calls []*Call) float64 {
	const fine = 1000
	var tokens, bytes, most int64
	for _, c := range calls {
		if c.Input > 0 {
			tokens, bytes, most = tokens+c.Input, bytes+c.Bytes(), max(most, c.Input)
		}
		if c.Sums[History].Count > 0 && c.Input > 0 {
			most = max(most, fine)
		}
	}
	if most < fine {
		return 0
	}
	return float64(tokens) / float64(max(bytes, 1))
}

// drawn returns how much of each kind is drawn, and their sum: tokens if those are drawn, estimated by
// bytes if the provider has not told them.
func (c *Call) drawn(perByte float64) (of [NumKinds]int64, sum int64) {
	if tokens := c.Tokens(); tokens != nil && perByte > 0 {
		for n, i := range c.Items {
			of[i.Kind] += tokens[n]
		}
		return of, c.Input
	}
	if perByte == 0 {
		perByte = 1
	}
	for k, s := range c.Sums {
		of[k] = int64(float64(s.Bytes) * perByte)
		sum += of[k]
	}
	return of, sum
}

// nouns are the kinds as they are counted; "" for what is not.
var nouns = [NumKinds]string{"tool", "", "user text", "answer", "thought", "call", "result", "attachment", "other item", ""}

// bar draws a context in letters: so many for the largest one.
func bar(of [NumKinds]int64, largest int64, width int) string {
	var b strings.Builder
	var sum int64
	drawn := 0
	for k, n := range of {
		sum += n
		upTo := int(float64(sum)*float64(width)/float64(max(largest, 1)) + 0.5)
		b.WriteString(strings.Repeat(letters[k:k+1], max(0, upTo-drawn)))
		drawn = max(drawn, upTo)
	}
	return b.String()
}

const barWidth = 24

// Write prints all calls: as a tree of text, a conversation after the other, or as JSON.
func (v *View) Write(out table.Output) error {
	if out.Form != table.AsText {
		return v.writeJSON(out)
	}
	if v.Dropped > 0 {
		if err := say(out, fmt.Sprintf("the last %s; %d before them are left out", render.Count(int64(len(v.Calls)), "call"), v.Dropped)); err != nil {
			return err
		}
	}
	for n, calls := range v.Conversations() {
		if n > 0 {
			_ = say(out, "")
		}
		if err := v.writeConversation(out, calls); err != nil {
			return err
		}
	}
	return say(out, "", legend, "shares of tokens are estimates, by bytes; their sum is the provider's")
}

const legend = "T tools, S system, u user, a answers, c calls, r results, @ attached, . not here"

// say prints lines, each cut to the width of a terminal.
func say(out table.Output, lines ...string) error {
	for _, line := range lines {
		text := []byte(render.Safe(line))
		if out.Width > 0 {
			text = render.AppendFit(nil, text, out.Width)
		}
		if _, err := fmt.Fprintf(out.To, "%s\n", text); err != nil {
			return err
		}
	}
	return nil
}

// title names a conversation.
func title(calls []*Call) string {
	c := calls[len(calls)-1]
	parts := []string{fmt.Sprintf("conversation %d", c.Conversation)}
	if c.Model != "" {
		parts = append(parts, c.Model)
	}
	parts = append(parts, render.Count(int64(len(calls)), "call"))
	switch {
	case c.Own != "":
		parts = append(parts, "the agent's own: "+c.Own)
	case c.Type != "":
		parts = append(parts, "sub-agent "+c.Type)
	}
	if first := calls[0]; first.Branch {
		parts = append(parts, fmt.Sprintf("branches off after call %d", first.Previous))
	}
	return strings.Join(parts, " · ")
}

func (v *View) writeConversation(out table.Output, calls []*Call) error {
	var largest int64
	scale := perByte(calls)
	for _, c := range calls {
		_, sum := c.drawn(scale)
		largest = max(largest, sum)
	}
	about := []string{title(calls)}
	if calls[0].Told {
		about = append(about, "  a transcript has neither the system prompt nor the tools; its bytes are those of texts")
	}
	if err := say(out, about...); err != nil {
		return err
	}
	out.Indent = "  "
	p := table.Printer[*Call]{Output: out, Columns: v.columns(largest, scale), Below: func(c **Call) []string { return v.below(*c) }}
	for _, c := range calls {
		p.Print(&c)
	}
	if err := p.Close(); err != nil {
		return err
	}
	last := calls[len(calls)-1]
	return say(out, fmt.Sprintf("  in call %d: %s", last.Number, strings.Join(last.composition(), ", ")))
}

// columns are those of the list of calls.
func (v *View) columns(largest int64, scale float64) []table.Column[*Call] {
	count := func(n int64) any { return table.Count(n) }
	return []table.Column[*Call]{
		{Title: "call", Right: true, Value: func(c **Call) any { return count(int64((*c).Number)) }},
		{Title: "frame", Right: true, Drop: 1, Value: func(c **Call) any { return fmt.Sprintf("#%d", (*c).Frame) }},
		{Title: "start", Right: true, Value: func(c **Call) any {
			if (*c).Time.IsZero() || v.First.IsZero() {
				return nil
			}
			return fmt.Sprintf("%.3f", (*c).Time.Sub(v.First).Seconds())
		}},
		{Title: "tokens in", Right: true, Value: func(c **Call) any { return count((*c).Input) }},
		{Title: "cached", Right: true, Value: func(c **Call) any {
			if !(*c).CacheTold {
				return nil
			}
			return strconv.FormatInt((*c).Cached, 10)
		}},
		{Title: "bytes", Right: true, Value: func(c **Call) any { return count((*c).Bytes()) }},
		{Title: "context", Value: func(c **Call) any {
			of, _ := (*c).drawn(scale)
			return bar(of, largest, barWidth)
		}},
		{Title: "new", Drop: 2, Value: func(c **Call) any {
			if (*c).Previous == 0 || (*c).New.Count == 0 {
				return nil
			}
			return fmt.Sprintf("%s, %d B", render.Count((*c).New.Count, "item"), (*c).New.Bytes)
		}},
	}
}

// below returns what is remarkable about a call: what is gone, what makes it grow, and why its cache has
// served less.
func (v *View) below(c *Call) (lines []string) {
	found := v.Verdict(c)
	switch {
	case c.Compacted != "" && found != nil && strings.Contains(found.Text, c.lost()): // it says so
	case c.Told && c.Compacted != "":
		lines = append(lines, "compacted: "+c.Compacted)
	case c.Compacted != "":
		lines = append(lines, c.lost())
	case c.Dropped.Bytes > c.Bytes()/partLost:
		lines = append(lines, fmt.Sprintf("%s gone, %d B", render.Count(c.Dropped.Count, "item"), c.Dropped.Bytes))
	}
	if i := c.grower(); i != nil {
		lines = append(lines, fmt.Sprintf("grows by %s, %d B", i.title(), i.Bytes))
	}
	if found != nil {
		lines = append(lines, fmt.Sprintf("cache: %d tokens less: %s", found.Lost, found.Text))
	}
	for i := range lines {
		lines[i] = "└ " + lines[i]
	}
	return lines
}

// grower returns the largest new item if it is a good part of the context; nil if there is none.
func (c *Call) grower() (largest *Item) {
	const part, least = 8, 1 << 10
	if c.Previous == 0 {
		return nil
	}
	for _, i := range c.Items {
		if i.Turn == c.Turn && i.Bytes > max(c.Bytes()/part, least) && (largest == nil || i.Bytes > largest.Bytes) {
			largest = i
		}
	}
	return largest
}

// title names an item on a line.
func (i *Item) title() string {
	text := i.Kind.String()
	if i.Name != "" {
		text += " " + i.Name
	}
	switch {
	case i.Path != "":
		text += " " + i.Path
	case i.Head != "":
		text += " " + strconv.Quote(i.Head)
	}
	return text
}

// composition says what fills a context, the most first.
func (c *Call) composition() (parts []string) {
	of, sum := c.drawn(perByte([]*Call{c}))
	kinds := make([]Kind, NumKinds)
	for k := range kinds {
		kinds[k] = Kind(k)
	}
	slices.SortStableFunc(kinds, func(a, b Kind) int { return cmp.Compare(of[b], of[a]) })
	for _, k := range kinds {
		if s := c.Sums[k]; s.Count > 0 {
			noun := k.String()
			if nouns[k] != "" {
				noun = render.Count(s.Count, nouns[k])
			}
			parts = append(parts, fmt.Sprintf("%s %d %%", noun, (of[k]*100+sum/2)/max(sum, 1)))
		}
	}
	return parts
}

// A Row is an item in its call.
type Row struct {
	*Item
	Place  int
	Tokens int64
	Of     *Call
	Held   bool
}

// Rows returns the items of a call with their shares of the tokens.
func (c *Call) Rows() (rows []Row) {
	tokens := c.Tokens()
	for n, i := range c.Items {
		r := Row{Item: i, Place: n + 1, Of: c, Held: n >= c.Front && n < c.Front+c.Held}
		if tokens != nil {
			r.Tokens = tokens[n]
		}
		rows = append(rows, r)
	}
	return rows
}

// itemColumns are those of the list of items.
var itemColumns = []table.Column[Row]{
	{Name: "place", Title: "#", Right: true, Value: func(r *Row) any { return int64(r.Place) }},
	{Name: "kind", Title: "kind", Value: func(r *Row) any { return r.Kind.String() }},
	{Name: "bytes", Title: "bytes", Right: true, Value: func(r *Row) any { return r.Bytes }},
	{Name: "tokens_estimate", Title: "~tokens", Right: true, Value: func(r *Row) any { return table.Count(r.Tokens) }},
	{Name: "percent", Title: "%", Right: true, Value: func(r *Row) any {
		part, all := r.Tokens, r.Of.Input
		if all == 0 {
			part, all = r.Bytes, r.Of.Bytes()
		}
		return float64(part*1000/max(all, 1)) / 10
	}, Cell: func(r *Row) string {
		part, all := r.Tokens, r.Of.Input
		if all == 0 {
			part, all = r.Bytes, r.Of.Bytes()
		}
		return fmt.Sprintf("%.1f", float64(part)*100/float64(max(all, 1)))
	}},
	{Name: "age", Title: "age", Right: true, Value: func(r *Row) any { return int64(r.Of.Turn - r.Turn) }},
	{Name: "first", Title: "first", Right: true, Drop: 1, Value: func(r *Row) any { return r.Frame }, Cell: func(r *Row) string { return fmt.Sprintf("#%d", r.Frame) }},
	{Name: "name", Value: func(r *Row) any { return r.Name }},
	{Name: "path", Value: func(r *Row) any { return r.Path }},
	{Name: "text", Value: func(r *Row) any { return r.Head }},
	{Name: "held", Value: func(r *Row) any { return table.Flag(r.Held) }},
	{Title: "what", Least: 16, Value: func(r *Row) any {
		text := strings.TrimSpace(r.Name + " " + r.Path)
		if r.Head != "" {
			text = strings.TrimSpace(text + " " + r.Head)
		}
		if r.Held {
			text = strings.TrimSpace("(at the provider) " + text)
		}
		return text
	}},
}

// WriteCall prints the items of a call.
func (v *View) WriteCall(out table.Output, c *Call) error {
	if out.Form != table.AsText {
		return out.Document(v.Row(c, true))
	}
	about := v.about(c)
	if c.Omitted {
		about = append(about, "its items are not kept: the session has too many")
	}
	if err := say(out, about...); err != nil || c.Omitted {
		return err
	}
	return table.Write(out, itemColumns, c.Rows())
}

// about describes a call in lines.
func (v *View) about(c *Call) []string {
	text := fmt.Sprintf("call %d, frame #%d: %s, %d B", c.Number, c.Frame, cmp.Or(c.Model, "model unknown"), c.Bytes())
	if c.Input > 0 {
		text += fmt.Sprintf(", %d tokens in", c.Input)
		if c.CacheTold {
			text += fmt.Sprintf(", %d cached", c.Cached)
		}
	}
	lines := []string{text}
	if c.Previous > 0 {
		if p := v.byNumber(c.Previous); p != nil {
			served := fmt.Sprintf("turn %d of conversation %d; as in call %d: the first %s, %d B", c.Turn, c.Conversation, c.Previous, render.Count(int64(c.Same), "item"), c.SameSize)
			if !c.Time.IsZero() && !p.Last.IsZero() {
				served += fmt.Sprintf("; idle for %s", c.Time.Sub(p.Last).Round(time.Millisecond))
			}
			lines = append(lines, served)
		}
		for i := range c.Changes {
			lines = append(lines, "└ differs: "+c.Changes[i].String())
		}
	}
	return append(lines, v.below(c)...)
}

// A difference is an item that only one of two calls has.
type difference struct {
	Row
	Sign string
}

// WriteDiff prints the items that only one of two calls has.
func (v *View) WriteDiff(out table.Output, a, b *Call) error {
	only := func(sign string, of, other *Call) (list []difference) {
		has := map[uint64]int{}
		for _, i := range other.Items {
			has[i.hash]++
		}
		for _, r := range of.Rows() {
			if has[r.hash] > 0 {
				has[r.hash]--
				continue
			}
			list = append(list, difference{r, sign})
		}
		return list
	}
	list := append(only("-", a, b), only("+", b, a)...)
	columns := []table.Column[difference]{{Name: "in", Title: " ", Value: func(d *difference) any { return d.Sign }}}
	for _, c := range itemColumns {
		column := table.Column[difference]{Name: c.Name, Title: c.Title, Right: c.Right, Drop: c.Drop, Least: c.Least, Value: func(d *difference) any { return c.Value(&d.Row) }}
		if c.Cell != nil {
			column.Cell = func(d *difference) string { return c.Cell(&d.Row) }
		}
		columns = append(columns, column)
	}
	switch out.Form {
	case table.AsText:
		same := len(b.Items)
		for _, d := range list {
			if d.Sign == "+" {
				same--
			}
		}
		about := fmt.Sprintf("call %d, %d B, %d tokens → call %d, %d B, %d tokens: %s in both", a.Number, a.Bytes(), a.Input, b.Number, b.Bytes(), b.Input, render.Count(int64(same), "item"))
		if err := say(out, about); err != nil || len(list) == 0 {
			return err
		}
	case table.AsJSON:
		out.Form = table.AsNDJSON
	}
	return table.Write(out, columns, list)
}

// Choose returns the call of that name, or the two that a pair ("3,5") names. Its errors are for users.
func (v *View) Choose(call, pair string) (chosen []*Call, err error) {
	names := strings.Split(cmp.Or(pair, call), ",")
	switch {
	case pair != "" && (len(names) != 2 || call != ""):
		return nil, fmt.Errorf("--diff takes two calls, such as 3,5, and not --call; got %q", pair)
	case pair == "" && call == "":
		return nil, nil
	}
	for _, name := range names {
		c := v.Find(strings.TrimSpace(name))
		if c == nil {
			return nil, fmt.Errorf("there is no call %q: the session has %s of models; wirectl context lists them", name, render.Count(int64(len(v.Calls)), "call"))
		}
		chosen = append(chosen, c)
	}
	return chosen, nil
}

// Show prints all calls, the items of the chosen one, or what two chosen ones do not share.
func (v *View) Show(out table.Output, chosen []*Call) error {
	switch {
	case len(v.Calls) == 0:
		return ErrNone
	case len(chosen) == 0:
		return v.Write(out)
	case len(chosen) == 1:
		return v.WriteCall(out, chosen[0])
	}
	return v.WriteDiff(out, chosen[0], chosen[1])
}

// ErrNone is the error of a session in which no model was called.
var ErrNone = errors.New("no call of a model is in it: wirectl calls lists what is")
