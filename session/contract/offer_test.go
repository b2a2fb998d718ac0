package contract

import (
	"fmt"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/session"
)

// listed feeds an offer an answer in frame seq to a request in the frame before.
func listed(o *Offer, seq int64, conn int, kind, params, result string) {
	o.AddMessage(seq-1, &protocol.Message{Kind: []byte(kind), Phase: protocol.Open}, []byte(`{"params":`+params+`}`))
	o.AddMessage(seq, &protocol.Message{Kind: []byte("result"), Phase: protocol.Close}, []byte(`{"result":`+result+`}`))
	o.Changed(&session.Exchange{Conn: conn, Kind: kind, Outcome: session.Done, First: seq - 1}, seq)
}

func namesOf(o *Offer) string {
	var names []string
	for _, it := range o.Tools() {
		names = append(names, it.Name)
	}
	return fmt.Sprint(strings.Join(names, " "), " in ", o.Frames())
}

// The tools are those of the last list of each connection, with all its pages.
func TestOffer(t *testing.T) {
	var o Offer
	check := func(about, want string, cut bool) {
		t.Helper()
		if got := namesOf(&o); got != want || o.Cut() != cut {
			t.Errorf("%s: %s, cut %t, want %s", about, got, o.Cut(), want)
		}
	}
	listed(&o, 2, 1, "tools/call", `{}`, `{"tools":[{"name":"no"}]}`)
	check("a call", " in []", false)
	listed(&o, 4, 1, "tools/list", `{}`, `{"tools":[{"name":"b"}],"nextCursor":"x"}`)
	check("the first page", "b in [4]", true)
	listed(&o, 6, 2, "tools/list", `{"cursor":"x"}`, `{"tools":[{"name":"a"}]}`)
	check("the second, over another connection", "a b in [4 6]", false)
	listed(&o, 8, 3, "tools/list", `{}`, `{"tools":[{"name":"c"}]}`)
	check("another server", "a b c in [4 6 8]", false)
	listed(&o, 10, 1, "tools/list", `{}`, `{"tools":[{"name":"d"}]}`)
	check("once more", "c d in [8 10]", false)
	if seq := o.Listed["a"].First; seq != 6 || o.Listed["no"].First != 0 {
		t.Errorf("a was listed in %d", seq)
	}
}

// A new listing replaces the previous one, also in memory. A page that is too large is not
// mistaken for the end of the list.
func TestOfferIsBounded(t *testing.T) {
	var o Offer
	page := `{"tools":[{"name":"a","description":"` + strings.Repeat("x", maxPages/10) + `"}]}`
	for i := range int64(30) {
		listed(&o, 2*i+2, 1, "tools/list", `{}`, page)
		listed(&o, 2*i+1000, 1, "tools/call", `{}`, page)
	}
	if o.Cut() || namesOf(&o) != "a in [60]" {
		t.Errorf("%s, cut %t", namesOf(&o), o.Cut())
	}
	for i := range 12 {
		listed(&o, int64(2*i+2000), i+1, "tools/list", `{}`, page)
	}
	if !o.Cut() {
		t.Error("pages were left out")
	}
}

// Unrequested answers, and a server with any number of tools, need bounded memory. They do not
// hide a tool of a requested list.
func TestOfferOfStrangers(t *testing.T) {
	var o Offer
	answer := &protocol.Message{Kind: []byte("result"), Phase: protocol.Close}
	for seq := range int64(2 * maxUnanswered) {
		o.AddMessage(seq+1, answer, []byte(`{"result":{"tools":[{"name":"unasked"}]}}`))
	}
	var many strings.Builder
	for i := range maxListed {
		fmt.Fprintf(&many, `{"name":"%d"},`, i)
	}
	listed(&o, 1000, 1, "tools/list", `{}`, `{"tools":[{"name":"first"},{"name":7},`+many.String()+`"text"]}`)
	if len(o.pages) >= maxUnanswered || len(o.Listed) != maxListed || o.Listed["first"] != (Listed{nil, 1000, len(`{"name":"first"}`)}) || !o.Cut() {
		t.Errorf("%d pages, %d tools, %v, cut %t", len(o.pages), len(o.Listed), o.Listed["first"], o.Cut())
	}
}

// With SizesAlone no definitions are kept, however often they are listed.
func TestSizesAlone(t *testing.T) {
	o := Offer{SizesAlone: true}
	for i := range int64(30) {
		listed(&o, 2*i+2, int(i), "tools/list", `{}`, `{"tools":[{"name":"a"},{"name":"b"}]}`)
	}
	if o.size != 0 || o.Any() || len(o.Listed) != 2 || o.Listed["b"] != (Listed{nil, 2, len(`{"name":"b"}`)}) {
		t.Errorf("%d bytes, %v", o.size, o.Listed)
	}
}
