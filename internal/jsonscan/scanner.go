// Package jsonscan reads one JSON text in a single pass, left to right, and validates every
// byte. It builds no tree and allocates nothing for ordinary messages: the values it returns
// are spans of the text.
//
// The grammar is strict RFC 8259. UTF-8 must be valid. An escaped surrogate without its pair,
// which the grammar allows, is detected and left to the caller like a repeated key. There is no byte order mark, NaN or trailing comma, and nesting is limited to
// [MaxDepth]. Objects may repeat a key; the scanner detects it and leaves the decision to its
// caller. A text is accepted if package jsontext of github.com/go-json-experiment/json accepts
// it.
//
// The package also has a few functions that write JSON without changing the text.
//
// The meaning of an object's members is left to the protocol packages.
package jsonscan

import "bytes"

// MaxDepth is how deep arrays and objects may be nested.
const MaxDepth = 10000

// MaxEntered is how many nested containers [Scanner.Object] and [Scanner.Array] can enter.
// Deeper ones can only be read as a whole, with [Scanner.Value].
const MaxEntered = 16

// Kind is the kind of a value, named by the first byte of its simplest form.
type Kind byte

const (
	Invalid Kind = 0
	Null    Kind = 'n'
	False   Kind = 'f'
	True    Kind = 't'
	Number  Kind = '0'
	String  Kind = '"'
	Object  Kind = '{'
	Array   Kind = '['
)

// KindOf returns the kind of the value at the start of raw, judged by its first byte. White
// space must not precede it.
func KindOf(raw []byte) Kind {
	if len(raw) == 0 {
		return Invalid
	}
	switch c := raw[0]; c {
	case '{', '[', '"', 't', 'f', 'n':
		return Kind(c)
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return Number
	}
	return Invalid
}

// A Scanner walks one JSON text. It lives on its caller's stack and is initialized by
// [Scanner.Init]:
//
//	var s jsonscan.Scanner
//	s.Init(text)
//	for ok := s.Object(); ok && s.Next(); {
//		switch string(s.Key()) {
//		case "id":
//			id = s.Value()
//		}
//	}
//	return s.End()
//
// A value that the caller does not consume is validated and skipped. After the first error
// every method does nothing and reports no value; [Scanner.End] and [Scanner.Err] return the
// error. Returned spans borrow from the text.
type Scanner struct {
	data     []byte
	pos      int  // of the next value, or after the last one
	ready    bool // pos is at a value
	newline  bool
	unpaired int // where the first unpaired surrogate is; 0 if there is none
	utf8     encoding
	maxDepth int
	err      *SyntaxError

	keyStart, keyEnd int  // of the key token of the current member
	keyPlain         bool // the key has no escapes
	keyHash          uint64

	top     int // number of containers entered
	entered [MaxEntered]container
	keys    keyring
}

// encoding is what is known about the encoding of the rest of a text.
type encoding byte

const (
	unknown encoding = iota // not checked yet
	isUTF8
	maybeUTF8 // not valid, or each string has to be checked
)

// container is an array or object that the caller has entered.
type container struct {
	kind      Kind
	pastFirst bool // its first item has been looked for
	names     names
}

// Init prepares s to walk data, which must not change meanwhile.
func (s *Scanner) Init(data []byte) { s.InitDepth(data, MaxDepth) }

// InitDepth is Init with a limit other than [MaxDepth].
func (s *Scanner) InitDepth(data []byte, maxDepth int) {
	s.data = data
	s.ready = true
	s.newline, s.unpaired = false, 0
	s.utf8 = unknown
	s.maxDepth = maxDepth
	s.err = nil
	s.keyStart, s.keyEnd, s.keyPlain = 0, 0, false
	s.top = 0
	s.keys.reset()
	s.pos = s.space(0)
}

// Peek returns the kind of the next value, judged by its first byte, without consuming it. It
// returns Invalid if no value is next.
func (s *Scanner) Peek() Kind {
	if !s.ready {
		return Invalid
	}
	return KindOf(s.data[s.pos:])
}

// Skip checks and consumes the next value. It reports whether there was one.
func (s *Scanner) Skip() bool {
	if !s.ready {
		return false
	}
	end := s.value(s.pos, s.top)
	if end < 0 {
		return false
	}
	s.pos, s.ready = end, false
	return true
}

// Value checks and consumes the next value and returns its bytes as written, or nil if there is
// none.
func (s *Scanner) Value() []byte {
	start := s.pos
	if !s.Skip() {
		return nil
	}
	return s.data[start:s.pos:s.pos]
}

// Since is Value for a value that begins at start and may have been walked in part.
func (s *Scanner) Since(start int) []byte {
	s.Skip()
	if s.err != nil {
		return nil
	}
	return s.data[start:s.pos:s.pos]
}

// NotNull is Value for members where null means absent: it consumes a null and returns nil.
func (s *Scanner) NotNull() []byte {
	if s.Peek() == Null {
		s.Skip()
		return nil
	}
	return s.Value()
}

// Object enters the next value if it is an object; [Scanner.Next] then moves through its
// members. If it is not an object, or is nested in [MaxEntered] containers, Object returns
// false and the value is still next.
func (s *Scanner) Object() bool { return s.enter(Object) }

// Array enters the next value if it is an array; [Scanner.Elem] then moves through its
// elements. If it is not an array, or is nested in [MaxEntered] containers, Array returns false
// and the value is still next.
func (s *Scanner) Array() bool { return s.enter(Array) }

func (s *Scanner) enter(kind Kind) bool {
	if s.Peek() != kind || s.top == MaxEntered {
		return false
	}
	if s.top >= s.maxDepth {
		s.failDepth(s.pos)
		return false
	}
	s.entered[s.top] = container{kind: kind, names: s.keys.enterObject()}
	s.top++
	s.pos, s.ready = s.pos+1, false
	return true
}

// Next moves to the next member of the object entered last: its key is [Scanner.Key] and its
// value is next. At the end of the object Next leaves it and returns false. It also returns
// false if the text is malformed.
func (s *Scanner) Next() bool {
	if !s.advance(Object) {
		return false
	}
	c := &s.entered[s.top-1]
	start := s.pos
	end, hash, plain := s.key(start)
	if end < 0 {
		return false
	}
	s.keys.addKey(s.data, start, hash, &c.names)
	i := s.colon(end)
	if i < 0 {
		return false
	}
	s.keyStart, s.keyEnd, s.keyPlain, s.keyHash = start, end, plain, hash
	s.pos, s.ready = i, true
	return true
}

// Elem moves to the next element of the array entered last, which is then the next value. At
// the end of the array Elem leaves it and returns false. It also returns false if the text is
// malformed.
func (s *Scanner) Elem() bool {
	if !s.advance(Array) {
		return false
	}
	s.ready = true
	return true
}

// advance moves past the current value and the comma to the next item of the innermost
// container, which must be of the given kind. At its end it leaves the container and returns
// false.
func (s *Scanner) advance(kind Kind) bool {
	if s.top == 0 || s.entered[s.top-1].kind != kind {
		return false
	}
	if s.ready && !s.Skip() {
		return false
	}
	c := &s.entered[s.top-1]
	i := s.space(s.pos)
	switch {
	case i < len(s.data) && s.data[i] == byte(kind)+2: // ']' is '[' + 2, '}' is '{' + 2
		s.keys.leaveObject(s.data, c.names)
		s.top--
		s.pos = i + 1
		return false
	case !c.pastFirst:
		c.pastFirst = true
	case i < len(s.data) && s.data[i] == ',':
		i = s.space(i + 1)
	default:
		s.failAfterItem(i, kind)
		return false
	}
	s.pos = i
	return true
}

// Key returns the key of the current member without quotes and escapes. It
// borrows from the text unless it had escapes.
func (s *Scanner) Key() []byte {
	if s.keyPlain {
		return s.data[s.keyStart+1 : s.keyEnd-1 : s.keyEnd-1]
	}
	return s.escapedKey()
}

func (s *Scanner) escapedKey() []byte {
	if s.keyEnd == 0 {
		return nil
	}
	return unquoteValid(s.data[s.keyStart:s.keyEnd])
}

// KeyHash returns the [Hash] of the current member's key.
func (s *Scanner) KeyHash() uint64 { return s.keyHash }

// Offset returns the position in the text: after an error that of the error; otherwise that of
// the next value, or if there is none, the position after the last consumed byte.
func (s *Scanner) Offset() int {
	if s.err != nil {
		return s.err.Offset
	}
	return s.pos
}

// Newline reports whether a line feed or carriage return was found between the tokens read so
// far. If there is none when [Scanner.End] has found the text valid, the text is one line.
func (s *Scanner) Newline() bool { return s.newline }

// Unpaired reports whether a string that was read so far has the escape of a surrogate without
// its pair, and where the first one is.
func (s *Scanner) Unpaired() (offset int, ok bool) { return s.unpaired, s.unpaired > 0 }

// End checks the unread rest of the text. The text must be one value with only white space
// around it. End returns the first error of the whole walk, a [*SyntaxError].
func (s *Scanner) End() error {
	for s.top > 0 {
		if s.entered[s.top-1].kind == Object {
			s.Next()
		} else {
			s.Elem()
		}
	}
	if s.ready {
		s.Skip()
	}
	if s.err == nil {
		s.pos = s.space(s.pos)
		if s.pos < len(s.data) {
			s.failAt(s.pos, "after the JSON text")
		}
	}
	s.keys.release()
	return s.Err()
}

// Err returns the first error so far, a [*SyntaxError], or nil.
func (s *Scanner) Err() error {
	if s.err == nil {
		return nil
	}
	return s.err
}

// Duplicate returns the first key that repeats an earlier key of its object, and the offset of
// its opening quote. It considers every object that the walk has left, and compares keys
// without escapes.
func (s *Scanner) Duplicate() (key []byte, offset int, ok bool) {
	at := s.keys.repeated
	if at == 0 {
		return nil, 0, false
	}
	return keyAt(s.data, at), at, true
}

// Valid returns nil if data is one valid JSON text without unpaired surrogates, else a
// [*SyntaxError].
func Valid(data []byte) error {
	var s Scanner
	s.Init(data)
	err := s.End()
	if at, ok := s.Unpaired(); ok && (s.err == nil || at < s.err.Offset) {
		return &SyntaxError{Offset: at, Msg: "unpaired surrogate in string"}
	}
	return err
}

// WellFormed returns nil if data is one valid JSON text by the grammar alone, else a
// [*SyntaxError].
func WellFormed(data []byte) error {
	var s Scanner
	s.Init(data)
	return s.End()
}

// IsCut reports whether data is well-formed so far, and ends too early.
func IsCut(data []byte) bool {
	var s Scanner
	s.Init(data)
	_ = s.End()
	return s.err != nil && s.err.Truncated
}

// MayHave reports whether data can have a member or a text that contains name, in any nesting of JSON in JSON: a
// quick look, for what is there seldom.
func MayHave(data []byte, name string) bool {
	return bytes.Contains(data, []byte(name)) || bytes.Contains(data, []byte(`\u`))
}

// Get returns the value at a path of object keys. If a key is repeated, the first member
// counts. It reads and validates data only as far as needed.
func Get(data []byte, path ...string) (raw []byte, ok bool) {
	var s Scanner
	s.Init(data)
	for _, name := range path {
		if !s.findMember(name) {
			return nil, false
		}
		known := s.utf8
		s.Init(s.data[s.pos:])
		s.utf8 = known
	}
	raw = s.Value()
	return raw, raw != nil
}

// findMember moves to the member named name of the next value.
func (s *Scanner) findMember(name string) bool {
	for ok := s.Object(); ok && s.Next(); {
		if string(s.Key()) == name {
			return true
		}
	}
	return false
}
