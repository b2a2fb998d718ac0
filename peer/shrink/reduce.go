package shrink

import (
	"bytes"
	"context"
	"math/big"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/peer/replay"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/session/jsondiff"
)

// handshakes returns the kinds of messages with which sessions of a protocol begin.
func handshakes(p protocol.Protocol) (kinds []string) {
	base := all.Rules(p)
	rules := []*protocol.Rules{base}
	for _, v := range base.Versions {
		rules = append(rules, v.Rules)
	}
	for _, r := range rules {
		kinds = append(append(kinds, r.Handshake.Request, r.Handshake.Notification), r.Opening...)
	}
	return slices.DeleteFunc(kinds, func(kind string) bool { return kind == "" })
}

// reduce makes the best session smaller until nothing more can be removed: first exchanges, then
// single messages, then what is in them.
func (s *search) reduce(ctx context.Context) error {
	for {
		before := keyOf(s.best.frames)
		for _, pass := range []func(context.Context) error{s.exchanges, s.messages, s.contents} {
			if err := pass(ctx); err != nil {
				return err
			}
		}
		if keyOf(s.best.frames) == before {
			return nil
		}
	}
}

// chunks removes as many as it can of size() things. Without returns the session without those from
// one to another. The smallest chunk has least things.
func (s *search) chunks(ctx context.Context, least int, size func() int, without func(from, to int) []replay.Record) error {
	for chunk := size(); chunk >= least && chunk > 0; {
		isSmaller := false
		for to := size(); to > 0; {
			var candidates [][]replay.Record
			var froms []int
			for end := to; end > 0 && len(candidates) < max(1, s.Jobs); end = froms[len(froms)-1] {
				froms = append(froms, max(0, end-chunk))
				candidates = append(candidates, without(froms[len(froms)-1], end))
			}
			i, err := s.first(ctx, candidates)
			if err != nil {
				return err
			}
			to = froms[len(froms)-1]
			if i >= 0 {
				isSmaller = true
				to = min(froms[i], size())
			}
		}
		if chunk = min(chunk, size()); !isSmaller || chunk > least {
			chunk /= 2
		}
	}
	return nil
}

// A unit is a request or notification of the client, with all that belongs to it.
type unit struct {
	group int
	needs []int // groups with ids that it uses
}

// units returns what can be removed from the best session.
func (s *search) units() (list []unit) {
	said := map[string]int{} // ids of the server, with the group in which they came first
	ours := map[string]bool{}
	at := map[int]int{}
	begun := map[string]bool{}
	for _, st := range s.best.script.Steps() {
		isOwn := st.Frame.Dir == frame.C2U
		place, isKnown := at[st.Group]
		if isOwn && !isKnown && st.Group != 0 {
			if st.Message != nil && s.locked[string(st.Message.Kind)] && !begun[string(st.Message.Kind)] {
				at[st.Group], begun[string(st.Message.Kind)] = -1, true // only the first belongs to the handshake
			} else {
				at[st.Group] = len(list)
				list = append(list, unit{group: st.Group})
			}
			place, isKnown = at[st.Group], true
		}
		if st.Form == nil {
			continue
		}
		jsondiff.Leaves(st.Form, func(key string, _ int, value []byte) {
			id := string(value)
			switch of, isTheirs := said[id]; {
			case jsonscan.KindOf(value) != jsonscan.String || len(id) < 4 || !jsondiff.HoldsID(key) && !strings.HasSuffix(strings.ToLower(key), "cursor"):
			case isOwn && isTheirs && isKnown && place >= 0 && of != st.Group:
				list[place].needs = append(list[place].needs, of)
			case isOwn:
				ours[id] = true
			case !isTheirs && !ours[id]:
				said[id] = st.Group
			}
		})
	}
	return list
}

// exchanges removes whole exchanges and notifications, together with those that use their ids.
func (s *search) exchanges(ctx context.Context) error {
	size := func() int { return len(s.units()) }
	return s.chunks(ctx, 1, size, func(from, to int) []replay.Record {
		list := s.units()
		gone := map[int]bool{}
		for _, u := range list[from:to] {
			gone[u.group] = true
		}
		for _, u := range list[to:] {
			if slices.ContainsFunc(u.needs, func(group int) bool { return gone[group] }) {
				gone[u.group] = true
			}
		}
		return s.without(func(st *replay.Step) bool { return gone[st.Group] })
	})
}

// without returns the best session without some frames.
func (s *search) without(gone func(*replay.Step) bool) (frames []replay.Record) {
	for _, st := range s.best.script.Steps() {
		if !gone(&st) {
			frames = append(frames, st.Record)
		}
	}
	return frames
}

// messages removes single messages: cancels, and requests without those that use their ids.
func (s *search) messages(ctx context.Context) error {
	removable := func() (list []int64) {
		for i, st := range s.best.script.Steps() {
			if st.Frame.Dir == frame.C2U && (st.Message == nil || !st.Message.Phase.Ends() && !s.locked[string(st.Message.Kind)]) && (i+1 != st.Group || len(s.needed(st.Group)) > 0) {
				list = append(list, st.Seq)
			}
		}
		return list
	}
	return s.chunks(ctx, 1, func() int { return len(removable()) }, func(from, to int) []replay.Record {
		gone := removable()[from:to]
		return s.without(func(st *replay.Step) bool { return slices.Contains(gone, st.Seq) })
	})
}

// needed returns the units that use ids of a group.
func (s *search) needed(group int) []unit {
	return slices.DeleteFunc(s.units(), func(u unit) bool { return !slices.Contains(u.needs, group) })
}

// contents makes what the client's messages contain smaller, the last first.
func (s *search) contents(ctx context.Context) error {
	var ours []int64
	for _, st := range s.best.script.Steps() {
		if st.Frame.Dir == frame.C2U && (st.Message == nil || !s.locked[string(st.Message.Kind)]) {
			ours = append(ours, st.Seq)
		}
	}
	for _, seq := range slices.Backward(ours) {
		f := &framed{s, ctx, seq}
		step := f.step()
		var err error
		switch {
		case step == nil:
		case step.Message != nil && step.Form != nil && bytes.Equal(step.Form, step.Frame.Payload()):
			err = f.json()
		default:
			err = f.bytes()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// A framed is a message of the client by its number.
type framed struct {
	*search
	ctx context.Context
	seq int64
}

// step returns the message in the best session; nil if it is no longer there.
func (f *framed) step() *replay.Step {
	for _, st := range f.best.script.Steps() {
		if st.Seq == f.seq {
			return &st
		}
	}
	return nil
}

// with returns the best session with another payload of the message; nil if that changes its meaning.
func (f *framed) with(payload []byte) []replay.Record {
	st := f.step()
	if st == nil {
		return nil
	}
	changed := st.Record
	switch {
	case st.Frame.Gap:
		raw := *st.Frame
		raw.Raw = payload
		changed.Frame = &raw
	default:
		var fits bool
		if changed, fits = st.WithPayload(payload); !fits || st.Message != nil && !sameMeaning(st, payload) {
			return nil
		}
	}
	var frames []replay.Record
	for _, r := range f.best.script.Steps() {
		if r.Seq == f.seq {
			r.Record = changed
		}
		frames = append(frames, r.Record)
	}
	return frames
}

// sameMeaning reports whether a payload is the same message with other content.
func sameMeaning(st *replay.Step, payload []byte) bool {
	var m protocol.Message
	old := st.Message
	return st.Protocol.Parse(payload, &m) == nil && bytes.Equal(m.Kind, old.Kind) && m.Phase == old.Phase && bytes.Equal(m.Label, old.Label) &&
		sameName(m.ID, old.ID) && sameName(m.Ref, old.Ref) && (m.Bind.IsZero() || sameName(m.Bind, old.Bind)) && m.Faults&^old.Faults == 0
}

func sameName(a, b protocol.Token) bool { return a.Space == b.Space && bytes.Equal(a.Text, b.Text) }

// try tries another payload.
func (f *framed) try(payload []byte) (bool, error) {
	frames := f.with(payload)
	if frames == nil {
		return false, nil
	}
	i, err := f.first(f.ctx, [][]replay.Record{frames})
	return i == 0, err
}

// bytes removes bytes of a payload that is not JSON.
func (f *framed) bytes() error {
	payload := func() []byte {
		st := f.step()
		switch {
		case st == nil:
			return nil
		case st.Frame.Gap:
			return st.Frame.Raw
		}
		return st.Frame.Payload()
	}
	return f.chunks(f.ctx, leastChunk(len(payload())), func() int { return len(payload()) }, func(from, to int) []replay.Record {
		return f.with(slices.Delete(slices.Clone(payload()), from, to))
	})
}

// leastChunk is the smallest piece that is removed from the middle of n characters.
func leastChunk(n int) int { return max(1, n/64) }

// json makes a payload smaller as JSON.
func (f *framed) json() error {
	root := f.node(nil)
	if root == nil {
		return nil
	}
	if compact := root.append(nil); !bytes.Equal(compact, f.step().Frame.Payload()) {
		if ok, err := f.try(compact); !ok {
			return err
		}
	}
	return f.value(nil)
}

// value makes the value at a path smaller.
func (f *framed) value(path []int) error {
	n := f.node(path)
	if n == nil {
		return nil
	}
	switch n.kind {
	case jsonscan.Object, jsonscan.Array:
		size := func() int {
			if n := f.node(path); n != nil {
				return len(n.items)
			}
			return 0
		}
		err := f.chunks(f.ctx, 1, size, func(from, to int) []replay.Record {
			return f.edited(path, func(n *node) {
				n.items = slices.Delete(n.items, from, to)
				if n.kind == jsonscan.Object {
					n.keys = slices.Delete(n.keys, from, to)
				}
			})
		})
		for i := 0; i < size() && err == nil; i++ {
			err = f.value(append(slices.Clone(path), i))
		}
		return err
	case jsonscan.String:
		return f.shorten(path)
	case jsonscan.Number:
		return f.number(path)
	}
	return nil
}

// edited returns the best session with a change of the value at a path; nil if there is none.
func (f *framed) edited(path []int, change func(*node)) []replay.Record {
	root := f.node(nil)
	if n := root.at(path); n != nil {
		change(n)
		return f.with(root.append(nil))
	}
	return nil
}

// set tries another scalar at a path.
func (f *framed) set(path []int, raw []byte) (bool, error) {
	frames := f.edited(path, func(n *node) { n.raw = raw })
	if frames == nil {
		return false, nil
	}
	i, err := f.first(f.ctx, [][]replay.Record{frames})
	return i == 0, err
}

// shorten makes a string shorter: to its shortest beginning, then to the shortest end of that. Then its
// characters become plain or, if they matter, pieces go.
func (f *framed) shorten(path []int) error {
	current := func() []rune {
		if n := f.node(path); n != nil && n.kind == jsonscan.String {
			text, _ := jsonscan.Unquote(n.raw)
			return []rune(string(text))
		}
		return nil
	}
	quoted := func(text []rune) []byte { return jsonscan.AppendQuote(nil, []byte(string(text))) }
	whole := current()
	if n := f.node(path); len(whole) == 0 || n == nil || !jsondiff.Same(quoted(whole), n.raw) {
		return nil // it is not all text
	}
	if ok, err := f.set(path, []byte(`""`)); ok || err != nil {
		return err
	}
	for _, cut := range []func(n int) []rune{
		func(n int) []rune { return whole[:n] },
		func(n int) []rune { return whole[len(whole)-n:] },
	} {
		whole = current()
		if err := f.least(len(whole), func(n int) (bool, error) { return f.set(path, quoted(cut(n))) }); err != nil {
			return err
		}
	}
	if ok, err := f.set(path, quoted([]rune(strings.Repeat("a", len(current()))))); ok || err != nil {
		return err // its length is what matters
	}
	return f.chunks(f.ctx, leastChunk(len(current())), func() int { return len(current()) }, func(from, to int) []replay.Record {
		return f.edited(path, func(n *node) { n.raw = quoted(slices.Delete(current(), from, to)) })
	})
}

// least finds the least number from 1 to n, which works, for which try works, if all above it do.
func (f *framed) least(n int, try func(n int) (bool, error)) error {
	for low := 1; low < n; {
		middle := (low + n) / 2
		ok, err := try(middle)
		switch {
		case err != nil:
			return err
		case ok:
			n = middle
		default:
			low = middle + 1
		}
	}
	return nil
}

// number makes a number simpler: 0, or the nearest whole number to it that works.
func (f *framed) number(path []int) error {
	n := f.node(path)
	if string(n.raw) == "0" {
		return nil
	}
	if done, err := f.set(path, []byte("0")); done || err != nil {
		return err
	}
	value, ok := new(big.Rat), false
	if len(n.raw) <= 64 && !bytes.ContainsAny(n.raw, "eE") { // a large exponent takes too much memory
		value, ok = value.SetString(string(n.raw))
	}
	if !ok {
		return nil
	}
	whole := new(big.Int).Quo(value.Num(), value.Denom())
	if !value.IsInt() || string(n.raw) != whole.String() {
		if done, err := f.set(path, []byte(whole.String())); !done || err != nil {
			return err
		}
	}
	sign := big.NewInt(int64(whole.Sign()))
	low, high := big.NewInt(1), new(big.Int).Abs(whole)
	for low.Cmp(high) < 0 {
		middle := new(big.Int).Add(low, high)
		middle.Rsh(middle, 1)
		done, err := f.set(path, []byte(new(big.Int).Mul(middle, sign).String()))
		switch {
		case err != nil:
			return err
		case done:
			high = middle
		default:
			low = middle.Add(middle, big.NewInt(1))
		}
	}
	return nil
}

// node returns the value at a path of the message; nil if there is none.
func (f *framed) node(path []int) *node {
	st := f.step()
	if st == nil {
		return nil
	}
	return parse(st.Frame.Payload()).at(path)
}

// A node is a value of JSON.
type node struct {
	kind  jsonscan.Kind
	raw   []byte // of a scalar
	keys  [][]byte
	items []*node
}

// parse reads valid JSON.
func parse(text []byte) *node {
	text = bytes.TrimSpace(text)
	n := &node{kind: jsonscan.KindOf(text)}
	var s jsonscan.Scanner
	s.Init(text)
	switch {
	case n.kind == jsonscan.Object && s.Object():
		for s.Next() {
			n.keys = append(n.keys, jsonscan.AppendQuote(nil, s.Key()))
			n.items = append(n.items, parse(s.Value()))
		}
	case n.kind == jsonscan.Array && s.Array():
		for s.Elem() {
			n.items = append(n.items, parse(s.Value()))
		}
	default:
		n.raw = text
	}
	return n
}

func (n *node) at(path []int) *node {
	for _, i := range path {
		if n == nil || i >= len(n.items) {
			return nil
		}
		n = n.items[i]
	}
	return n
}

func (n *node) append(dst []byte) []byte {
	switch n.kind {
	case jsonscan.Object:
		dst = append(dst, '{')
		for i, key := range n.keys {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = n.items[i].append(append(append(dst, key...), ':'))
		}
		return append(dst, '}')
	case jsonscan.Array:
		dst = append(dst, '[')
		for i, item := range n.items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = item.append(dst)
		}
		return append(dst, ']')
	}
	return append(dst, n.raw...)
}
