package decode

import (
	"encoding/base64"
	"strconv"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/ndjson"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/session/query"
)

// Fields are the fields of conditions on items: the keys of records.
var Fields = query.Fields{Names: ndjson.Keys, Values: map[string][]string{
	"dir": frame.DirNames(), "framing": frame.Names(), "protocol": all.Names(), "phase": protocol.Phases(),
	"redacted": {"true"}, "altered": {"true"},
}}

// Field returns the value in the item's record of one of ndjson.Keys: a JSON token for keys
// of any type, text for the others, and false for a key that does not apply. It is valid
// until the next call. A payload that is not a message has the kind that people see, and
// none in the record.
func (it *Item) Field(key string) ([]byte, bool) {
	v := it.field(key)
	return v, len(v) > 0
}

// field has the keys of any frame, and of any gap.
func (it *Item) field(key string) []byte {
	f := it.Frame
	switch key {
	case "seq":
		return it.formatNumber(it.Seq)
	case "time":
		if it.Time.IsZero() {
			return nil
		}
		it.value = it.Time.UTC().AppendFormat(it.value[:0], ndjson.TimeLayout)
		return it.value
	case "conn":
		if f.Conn == 0 {
			return nil
		}
		return it.formatNumber(int64(f.Conn))
	case "dir":
		return it.word(it.dir().String())
	case "offset":
		return it.formatNumber(f.Offset)
	case "size":
		return it.formatNumber(int64(f.Size()))
	case "framing":
		return it.word(it.Framing.Name())
	case "stream":
		if f.Stream == 0 {
			return nil
		}
		return it.formatNumber(f.Stream)
	case "meta":
		if f.Meta == nil {
			return nil
		}
		it.meta = capture.AppendMeta(it.meta[:0], f.Meta)
		return it.meta
	case "redacted":
		return it.truth(it.Redacted)
	case "altered":
		return it.truth(it.Altered)
	case "error":
		it.CheckForm()
		return it.quote([]byte(it.wrong()))
	case "raw":
		var r ndjson.Record
		it.record(&r)
		it.value = base64.StdEncoding.AppendEncode(it.value[:0], r.Raw)
		return it.value
	case "kind":
		switch {
		case f.Gap:
			return it.word(ndjson.Skipped)
		case !it.well:
			return it.word(string(kindMalformed))
		}
	case "protocol":
		if !f.Gap {
			return it.word(it.Protocol.Name())
		}
	}
	if f.Gap || !it.well {
		return nil
	}
	return it.meaning(key)
}

// meaning has the keys of a message.
func (it *Item) meaning(key string) []byte {
	m := &it.Message
	switch key {
	case "kind":
		return it.quote(m.Kind)
	case "id":
		id, _ := it.ids(m)
		return id
	case "ref":
		_, ref := it.ids(m)
		return ref
	case "phase":
		return it.word(m.Phase.String())
	case "summary":
		return it.quote(it.Summary())
	case "payload":
		form, _, _ := it.JSON()
		return form
	}
	return nil
}

func (it *Item) formatNumber(n int64) []byte {
	it.value = strconv.AppendInt(it.value[:0], n, 10)
	return it.value
}

// truth is "true", or nothing.
func (it *Item) truth(b bool) []byte {
	if !b {
		return nil
	}
	return it.word("true")
}

// quote is text that may look like JSON, as a string; nothing if it is empty.
func (it *Item) quote(text []byte) []byte {
	if len(text) == 0 {
		return nil
	}
	it.value = jsonscan.AppendQuote(it.value[:0], text)
	return it.value
}

func (it *Item) word(w string) []byte {
	it.value = append(it.value[:0], w...)
	return it.value
}
