package replay

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/session/jsondiff"
)

// In a line of HTTP, the URL of each endpoint in an agent card (A2A) is in an object with
// this key. It is not compared, because each agent has its own. A unit puts its own address
// into it, so that the client comes back to it.
const cardKey = "URL of the agent"

// cardLists are the members of a card that list endpoints, in versions 1.0 and 0.3.
var cardLists = []string{"supportedInterfaces", "additionalInterfaces"}

// cardIgnored are the paths of these URLs.
func cardIgnored() (paths []jsondiff.Path) {
	for _, card := range []jsondiff.Path{{"body"}, {"body", "result"}} {
		paths = append(paths, slices.Concat(card, jsondiff.Path{"url", cardKey}))
		for _, list := range cardLists {
			paths = append(paths, slices.Concat(card, jsondiff.Path{list, "*", "url", cardKey}))
		}
	}
	return paths
}

// cardURLs returns the URLs of the endpoints in a body that is a card, or the answer of
// JSON-RPC with one.
func cardURLs(body []byte) (urls []placed) {
	if !bytes.Contains(body, []byte(`"defaultInputModes"`)) { // required in a card
		return nil
	}
	card := placed{value: body}
	if result := card.member("result"); result.value != nil {
		card = result
	}
	if card.member("defaultInputModes").value == nil {
		return nil
	}
	urls = append(urls, card.member("url"))
	for _, name := range cardLists {
		list := card.member(name)
		var s jsonscan.Scanner
		s.Init(list.value)
		for ok := s.Array(); ok && s.Elem(); {
			item := placed{at: list.at + s.Offset(), value: s.Value()}
			urls = append(urls, item.member("url"))
		}
	}
	urls = slices.DeleteFunc(urls, func(u placed) bool { return u.value == nil })
	slices.SortFunc(urls, func(a, b placed) int { return cmp.Compare(a.at, b.at) })
	return urls
}

// markCard wraps the URLs of a card.
func markCard(body []byte) []byte {
	var places []protocol.Place
	for _, u := range cardURLs(body) {
		if jsonscan.KindOf(u.value) == jsonscan.String {
			places = append(places, protocol.Place{Start: u.at, End: u.at + len(u.value), Text: fmt.Appendf(nil, `{%q:%s}`, cardKey, u.value)})
		}
	}
	return protocol.AppendPlaced(nil, body, places)
}

// unmarkCard reverses markCard. Unless origin is empty, it replaces the origins of the URLs.
func unmarkCard(body []byte, origin string) []byte {
	var places []protocol.Place
	for _, u := range cardURLs(body) {
		url := memberOf(u.value, cardKey).value
		if url == nil {
			continue
		}
		text, _ := jsonscan.Unquote(url)
		if _, rest, full := strings.Cut(string(text), "://"); full && origin != "" {
			_, path, hasPath := strings.Cut(rest, "/")
			if hasPath {
				path = "/" + path
			}
			url = jsonscan.AppendQuote(nil, []byte(origin+path))
		}
		places = append(places, protocol.Place{Start: u.at, End: u.at + len(u.value), Text: url})
	}
	return protocol.AppendPlaced(nil, body, places)
}
