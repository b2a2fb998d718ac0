package openai

import (
	"container/list"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/wirectl/wirectl/llm"
)

const (
	// maxKept is how many responses are kept for requests that continue them.
	maxKept = 1000
	// maxKeptBytes bounds their size in all, and maxOneKept the size of each.
	maxKeptBytes = 64 << 20
	maxOneKept   = 8 << 20
)

// keptSentence says why a response may be missing.
var keptSentence = fmt.Sprintf("the broker keeps the last %d responses, at most %d MiB, while it runs, and none made with store: false. Send the whole conversation as 'input'.", maxKept, maxKeptBytes>>20)

// kept are the conversations of responses, by their ids. The oldest are dropped.
type kept struct {
	mu    sync.Mutex
	byID  map[string]*list.Element
	order *list.List // of *conversation, the oldest first
	bytes int
}

type conversation struct {
	id, account string
	turns       []byte // as JSON
}

func newKept() *kept { return &kept{byID: map[string]*list.Element{}, order: list.New()} }

// keep keeps a conversation of an account.
func (k *kept) keep(id, account string, turns []llm.Turn) {
	text, err := json.Marshal(turns)
	c := &conversation{id, account, text}
	if err != nil || len(text) > maxOneKept { // or it is nested too deeply
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.byID[id] = k.order.PushBack(c)
	for k.bytes += len(c.turns); k.bytes > maxKeptBytes || k.order.Len() > maxKept; {
		oldest := k.order.Remove(k.order.Front()).(*conversation)
		delete(k.byID, oldest.id)
		k.bytes -= len(oldest.turns)
	}
}

// find returns the conversation of a response, an empty one for the id "". A conversation of
// another account is not found.
func (k *kept) find(id, account string) (turns []llm.Turn, found bool) {
	if id == "" {
		return nil, true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.byID[id]
	if e == nil || e.Value.(*conversation).account != account {
		return nil, false
	}
	_ = json.Unmarshal(e.Value.(*conversation).turns, &turns) // it is our own JSON
	return turns, true
}
