package ndjson

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
)

// AppendMeta appends the member meta, the frame's carrier metadata. It includes the position
// of the payload in the raw bytes, as "at". If the payload lies elsewhere, and the member
// payload is not verbatim, it includes the payload as "data".
func AppendMeta(dst []byte, f *frame.Frame, verbatim bool) []byte {
	dst = capture.AppendMeta(dst, f.Meta)
	add := func(key string) {
		dst = dst[:len(dst)-1] // remove the closing brace
		if dst[len(dst)-1] != '{' {
			dst = append(dst, ',')
		}
		dst = append(dst, key...)
	}
	if f.Compressed {
		add(`"compressed":true}`)
	}
	switch {
	case f.Gap || f.Size() == 0:
	case !f.Meta.Apart:
		add(`"at":[`)
		dst = strconv.AppendInt(dst, int64(f.Start), 10)
		dst = strconv.AppendInt(append(dst, ','), int64(f.End), 10)
		dst = append(dst, "]}"...)
	case !verbatim:
		add(`"data":"`)
		dst = base64.StdEncoding.AppendEncode(dst, f.Meta.Data)
		dst = append(dst, `"}`...)
	}
	return dst
}

// place sets the fields of a frame from the record's meta.
func place(f *frame.Frame, r *Record) error {
	data := []byte(r.Payload)
	placed := false
	m, err := capture.ParseMeta(r.Meta, func(key, value []byte) {
		switch string(key) {
		case "compressed":
			f.Compressed = string(value) == "true"
		case "at":
			placed = setAt(f, value)
		case "data":
			text, _ := jsonscan.Unquote(value)
			data, _ = base64.StdEncoding.DecodeString(string(text))
		}
	})
	if err != nil {
		return fmt.Errorf("meta: %w", err)
	}
	m.Framing = r.Framing
	f.Meta, f.Flaw = m, nil
	if !placed && !f.Gap {
		f.Start, f.End = len(f.Raw), len(f.Raw)
		m.Apart = r.Size > 0
		if m.Apart {
			m.Data = data
		}
	}
	return nil
}

// setAt sets the position of the payload in the raw bytes.
func setAt(f *frame.Frame, value []byte) bool {
	var at [2]int
	if json.Unmarshal(value, &at) != nil || at[0] < 0 || at[1] < at[0] || at[1] > len(f.Raw) {
		return false
	}
	f.Start, f.End = at[0], at[1]
	return true
}
