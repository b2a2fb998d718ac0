package jsondiff

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"strconv"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
)

// DigestSize is the size of a digest in bytes.
const DigestSize = sha256.Size

// A digester hashes a JSON value so that equal values have the same digest. It skips the ids of
// the message and ignored members.
type digester struct {
	hash.Hash
	ignore []Path
	tokens []protocol.Token
	keys   []string
}

// Digest returns the digest of a message's payload. Payloads without differences have the same
// digest.
func Digest(payload []byte, m *protocol.Message, ignore []Path) (sum [DigestSize]byte) {
	d := digester{Hash: sha256.New(), ignore: ignore, tokens: []protocol.Token{m.ID, m.Ref, m.Bind}}
	if jsonscan.WellFormed(payload) == nil {
		d.value(bytes.TrimSpace(payload))
	} else {
		d.Write(payload)
	}
	d.Sum(sum[:0])
	return sum
}

func (d *digester) value(value []byte) {
	kind := jsonscan.KindOf(value)
	switch {
	case Ignored(d.ignore, d.keys) || d.isID(value):
		return
	case !isContainer(kind) || len(d.keys) >= MaxDepth:
		d.put(kind, plain(value))
		return
	}
	d.put(kind, nil)
	if kind == jsonscan.Array {
		for i, v := range elements(value) {
			d.member(strconv.Itoa(i), v)
		}
	} else {
		list := membersOf(value)
		sortMembers(list)
		for _, m := range list {
			if !Ignored(d.ignore, append(d.keys, m.key)) { // present or not
				d.put(jsonscan.String, []byte(m.key))
				d.member(m.key, m.value)
			}
		}
	}
	d.put(jsonscan.Invalid, nil)
}

func (d *digester) member(key string, value []byte) {
	d.keys = append(d.keys, key)
	d.value(value)
	d.keys = d.keys[:len(d.keys)-1]
}

// put hashes a piece with its kind and length, so that different sequences of pieces never hash
// the same bytes.
func (d *digester) put(kind jsonscan.Kind, text []byte) {
	d.Write(binary.BigEndian.AppendUint64([]byte{byte(kind)}, uint64(len(text))))
	d.Write(text)
}

// isID reports whether the value is an id of the message.
func (d *digester) isID(value []byte) bool {
	if len(d.keys) == 0 || !HoldsID(d.keys[len(d.keys)-1]) {
		return false
	}
	for _, t := range d.tokens {
		if !t.IsZero() && IsToken(value, string(t.Text)) {
			return true
		}
	}
	return false
}
