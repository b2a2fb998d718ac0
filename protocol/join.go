package protocol

import (
	"bytes"
	"hash/maphash"
	"math"
	"math/bits"
	"strconv"
	"strings"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
)

// A Join says where a request has a word by which operations on different wires of one agent belong
// together. Exactly one of Header and Path is set.
type Join struct {
	As Linked
	// Header is the name of a header. Path is the path to a member, of keys that slashes separate
	// ("params//_meta//callId"). A value on the way that is a string holds JSON.
	Header, Path string
	// Word is the only value that counts, and Means is what stands for it; "" for the value itself.
	Word, Means string
}

// Linked is what a [Link] says of an operation.
type Linked uint8

const (
	// Calls is the id of a tool call that a model makes in its answer, Returns that of one whose
	// result a request gives to the model, and CarriesOut that of one that a request carries out.
	Calls Linked = iota + 1
	Returns
	CarriesOut
	// OfAgent names the agent that sends a request, of several in one program, OfParent the one that
	// has started that, and OfTurn the turn of the user in which it sends it.
	OfAgent
	OfAgentType // what kind of agent it is
	OfParent
	OfTurn
	// OfTrace is the traceparent of a request (W3C Trace Context), which has the id of its trace.
	OfTrace
	// Spawned names the agent that a tool call has started, whose id is Of.
	Spawned
	// WithArguments is of a request that carries out a tool call: its arguments.
	WithArguments
	// Asks is a hash of the last text in a request to an agent or a model: the words of the user.
	Asks
	// Reports is the id of a tool call that an agent reports as a part of a turn.
	Reports
	// ForItself says what an agent asks for without its user: a title, a probe.
	ForItself
	// Prompts is of a request that gives the model words of the user after the results of Returns.
	Prompts
)

// A Link is a word that an operation has in common with others.
type Link struct {
	As   Linked
	Text string
	// Of is the id of the tool call of Spawned.
	Of string
	// Tool is the name of the tool that is called. Arguments is a hash of the arguments of Calls and
	// WithArguments, or the text of Asks; see [HashOfArguments].
	Tool      string
	Arguments uint64
	// Written are the arguments of Calls as written, if they are kept.
	Written []byte
	// Ended is Close or Fail for Returns whose result says so.
	Ended Phase
}

// HashOfArguments returns a hash of JSON, which does not depend on how it is written; 0 if it is not
// JSON. Missing arguments are those of an empty object.
func HashOfArguments(arguments []byte) uint64 {
	if len(arguments) == 0 {
		arguments = []byte("{}")
	}
	if jsonscan.WellFormed(arguments) != nil {
		return 0
	}
	return max(hashOf(bytes.TrimSpace(arguments), 0), 1)
}

// linkSeed is that of hashes, which only this process compares.
var linkSeed = maphash.MakeSeed()

// maxHashed is how deep values are compared, and not their text.
const maxHashed = 24

func hashOf(value []byte, depth int) (sum uint64) {
	var s jsonscan.Scanner
	s.Init(value)
	switch kind := s.Peek(); {
	case depth > maxHashed:
	case kind == jsonscan.Object:
		for ok := s.Object(); ok && s.Next(); { // in any order
			sum += bits.RotateLeft64(maphash.Bytes(linkSeed, s.Key()), 1) * (hashOf(s.Value(), depth+1) | 1)
		}
		return sum + 1
	case kind == jsonscan.Array:
		for ok := s.Array(); ok && s.Elem(); {
			sum = sum*1_000_003 + hashOf(s.Value(), depth+1)
		}
		return sum + 2
	case kind == jsonscan.String:
		text, _ := jsonscan.Unquote(value)
		return maphash.Bytes(linkSeed, text) + 3
	case kind == jsonscan.Number:
		if f, err := strconv.ParseFloat(string(value), 64); err == nil {
			return math.Float64bits(f) + 4
		}
	}
	return maphash.Bytes(linkSeed, value)
}

// maxLink bounds the words of links, in bytes.
const maxLink = 256

// AppendLinks appends the links of a request. The head is nil if it has none, and so is the body.
func (s *Spec) AppendLinks(dst []Link, head *frame.Head, body []byte) []Link {
	for i := range s.Joins {
		j := &s.Joins[i]
		var word string
		switch {
		case j.As == WithArguments:
			if body != nil {
				raw := rawAt(body, j.Path)
				dst = append(dst, Link{As: j.As, Arguments: HashOfArguments(raw)})
			}
			continue
		case j.Path != "" && body != nil:
			word = valueAt(body, j.Path)
		case j.Path == "" && head != nil:
			name, path, within := strings.Cut(j.Header, "//")
			if word = head.Get(name); within {
				word = valueAt([]byte(word), path)
			}
		}
		switch {
		case word == "" || len(word) > maxLink || strings.Trim(word, "*") == "" || j.Word != "" && word != j.Word:
			continue
		case j.Means != "":
			word = j.Means
		}
		dst = append(dst, Link{As: j.As, Text: word})
	}
	return dst
}

// valueAt returns the text at a path; "" if there is none.
func valueAt(body []byte, path string) string {
	text, _ := jsonscan.Unquote(rawAt(body, path))
	return string(text)
}

// rawAt returns the value at a path; nil if there is none.
func rawAt(body []byte, path string) []byte {
	if !jsonscan.MayHave(body, path[strings.LastIndex(path, "/")+1:]) { // most often
		return nil
	}
	for key := range strings.SplitSeq(path, "//") {
		if text, ok := jsonscan.Unquote(body); ok {
			body = text
		}
		body, _ = jsonscan.Get(body, key)
	}
	return body
}
