package contract

import (
	"bytes"
	"cmp"
	"iter"
	"maps"
	"slices"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/session"
)

// An Offer holds the tools that the servers of a session listed last. It is the
// [session.Watcher] of a tracker, and must receive each message before the tracker does.
type Offer struct {
	session.Bystander
	// Listed holds all tools that were ever listed. With SizesAlone no definitions are
	// kept.
	Listed     map[string]Listed
	SizesAlone bool

	names        []string       // of Listed, in the order of listing
	pages        []page         // whose request is not known yet, newest last
	listRequests map[int64]bool // frames that request tools: whether they request a later page
	size         int            // of pages and listings, in bytes
	full         bool           // a page was not kept
	listings     []listing
}

// Listed describes a tool that was listed.
type Listed struct {
	Protocol protocol.Protocol
	First    int64 // the first frame that listed it
	Bytes    int   // of its latest definition, as written
}

// A page is a list of tools in a frame, until the tracker reports which request it answers.
type page struct {
	seq   int64
	items []Item
	size  int
	more  bool // another page follows
	batch bool // in a batch with answers to other requests
}

// A listing holds the tools of one connection, from the pages that were read.
type listing struct {
	conn   int
	items  []Item
	frames []int64
	size   int
	more   bool // another page follows
}

const (
	maxPages      = 64 << 20 // bytes of all pages
	maxUnanswered = 256      // pages whose request is not known yet
	maxAsked      = 1 << 16
	maxListed     = 1 << 16 // tools that are distinguished
)

// AddMessage accepts a message of the session. It does not retain m or payload.
func (o *Offer) AddMessage(seq int64, m *protocol.Message, payload []byte) {
	switch {
	case m.Phase == protocol.Open && string(m.Kind) == Tools.Method:
		_, more := jsonscan.Get(payload, "params", "cursor")
		if o.listRequests == nil || len(o.listRequests) >= maxAsked {
			o.listRequests = make(map[int64]bool)
		}
		o.listRequests[seq] = more
	case m.Phase == protocol.Close, m.Count > 0:
		o.addPage(page{seq: seq, size: len(payload), batch: m.Count > 0}, payload)
	}
}

// addPage keeps a page, if the payload is one.
func (o *Offer) addPage(p page, payload []byte) {
	if !bytes.Contains(payload, []byte(`"`+Tools.Key+`"`)) && !bytes.Contains(payload, []byte(`\u00`)) { // fast, and rarely wrong
		return
	}
	found := false
	for answer := range protocol.Items(bytes.Clone(payload)) {
		for it, named := range Tools.all(answer) {
			if found = true; named {
				p.items = append(p.items, it)
			}
		}
		p.more = p.more || Tools.more(answer)
	}
	switch {
	case !found:
		return
	case o.size+p.size > maxPages:
		o.full = true
		return
	case len(o.pages) == maxUnanswered:
		o.size -= o.pages[0].size
		o.pages = slices.Delete(o.pages, 0, 1)
	}
	o.pages = append(o.pages, p)
	o.size += p.size
}

// Changed reports that the frame seq belongs to e.
func (o *Offer) Changed(e *session.Exchange, seq int64) {
	at := slices.IndexFunc(o.pages, func(p page) bool { return p.seq == seq })
	switch isList := e.Kind == Tools.Method; {
	case at < 0:
		return
	case !isList && !o.pages[at].batch: // the answer of a tool looks like a list of tools
		o.size -= o.pages[at].size
		o.pages = slices.Delete(o.pages, at, at+1)
		return
	case !isList, e.Outcome != session.Done:
		return
	}
	p := o.pages[at]
	o.pages = slices.Delete(o.pages, at, at+1)
	goesOn := o.listRequests[e.First]
	delete(o.listRequests, e.First)
	o.remember(&p, e.Protocol)
	if o.SizesAlone {
		o.size -= p.size
		return
	}
	l := o.listing(e.Conn, goesOn)
	l.size += p.size
	l.items, l.more, l.frames = append(l.items, p.items...), p.more, append(l.frames, seq)
}

// remember adds the tools of a page to Listed.
func (o *Offer) remember(p *page, of protocol.Protocol) {
	if o.Listed == nil {
		o.Listed = make(map[string]Listed)
	}
	for _, it := range p.items {
		tool, known := o.Listed[it.Name]
		switch {
		case known:
		case len(o.Listed) == maxListed:
			o.full = true
			continue
		default:
			tool.Protocol, tool.First = of, p.seq
			o.names = append(o.names, it.Name)
		}
		tool.Bytes = len(it.JSON)
		o.Listed[it.Name] = tool
	}
}

// All yields the tools that were ever listed, in the order of listing.
func (o *Offer) All() iter.Seq2[string, Listed] {
	return func(yield func(string, Listed) bool) {
		for _, name := range o.names {
			if !yield(name, o.Listed[name]) {
				return
			}
		}
	}
}

// listing returns the listing that a page belongs to. The first page replaces everything that
// its connection listed before. Over HTTP the next page may arrive on another connection.
func (o *Offer) listing(conn int, goesOn bool) *listing {
	find := func(is func(listing) bool) int { return slices.IndexFunc(o.listings, is) }
	i := find(func(l listing) bool { return l.conn == conn && (!goesOn || l.more) })
	if i < 0 && goesOn {
		i = find(func(l listing) bool { return l.more })
	}
	if i < 0 {
		o.listings = append(o.listings, listing{conn: conn})
		return &o.listings[len(o.listings)-1]
	}
	l := &o.listings[i]
	if !goesOn {
		o.size -= l.size
		*l = listing{conn: conn}
	}
	return l
}

// Any reports whether any tools were requested and listed.
func (o *Offer) Any() bool { return len(o.listings) > 0 }

// Cut reports whether a list has more pages than were read.
func (o *Offer) Cut() bool {
	return o.full || slices.ContainsFunc(o.listings, func(l listing) bool { return l.more })
}

// Tools returns the tools that were listed last, by name.
func (o *Offer) Tools() []Item {
	byName := make(map[string]Item)
	for _, l := range o.listings {
		for _, it := range l.items {
			byName[it.Name] = it
		}
	}
	return slices.SortedFunc(maps.Values(byName), func(a, b Item) int { return cmp.Compare(a.Name, b.Name) })
}

// Frames returns the frames of the answers that list them.
func (o *Offer) Frames() (frames []int64) {
	for _, l := range o.listings {
		frames = append(frames, l.frames...)
	}
	slices.Sort(frames)
	return frames
}
