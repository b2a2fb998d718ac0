package carrier

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/wirectl/wirectl/frame"
)

// MaxHead is how long the head of a request or a response may be, in bytes.
const MaxHead = 64 << 10

// HeadEnd returns where the head that data begins with ends, behind its empty
// line; 0 if it does not.
func HeadEnd(data []byte) int {
	for i := 0; i < len(data); {
		n := bytes.IndexByte(data[i:], '\n')
		if n < 0 {
			return 0
		}
		line := data[i : i+n]
		i += n + 1
		if len(line) == 0 || len(line) == 1 && line[0] == '\r' {
			return i
		}
	}
	return 0
}

// ParseHead reads a head, as far as it is one.
func ParseHead(text []byte) *frame.Head {
	lines := strings.Split(string(text), "\n")
	h := &frame.Head{Start: strings.TrimSuffix(lines[0], "\r")}
	lines = lines[1:]
	for _, line := range lines {
		line = strings.TrimSuffix(line, "\r")
		switch n := len(h.Fields); {
		case line == "":
		case (line[0] == ' ' || line[0] == '\t') && n > 0:
			h.Fields[n-1].Value += " " + strings.Trim(line, " \t")
		default:
			name, value, _ := strings.Cut(line, ":")
			h.Fields = append(h.Fields, frame.Field{Name: name, Value: strings.Trim(value, " \t")})
		}
	}
	return h
}

// A BodySize is how the end of a body is told.
type BodySize struct {
	Chunked bool
	// Length is -1 if the head gives none.
	Length int64
}

// SizeOf returns how the end of the body behind a head is told. It is false
// where what is said makes no sense.
func SizeOf(h *frame.Head) (BodySize, bool) {
	// HTTP/1.0 has no chunks, whatever is said.
	old := strings.HasPrefix(h.Start, "HTTP/1.0") || strings.HasSuffix(h.Start, " HTTP/1.0")
	if !old && lists(h, "Transfer-Encoding", "chunked") {
		return BodySize{Chunked: true, Length: -1}, true
	}
	n, ok := contentLength(h)
	return BodySize{Length: n}, ok
}

// lists reports whether a field of that name has the token among those that it
// lists.
func lists(h *frame.Head, name, token string) bool {
	for _, f := range h.Fields {
		if !strings.EqualFold(f.Name, name) {
			continue
		}
		for item := range strings.SplitSeq(f.Value, ",") {
			if strings.EqualFold(strings.TrimSpace(item), token) {
				return true
			}
		}
	}
	return false
}

// contentLength returns the length that a head gives; -1 without one. It is
// false where what is said makes no sense.
func contentLength(h *frame.Head) (int64, bool) {
	length := int64(-1)
	for _, f := range h.Fields {
		if !strings.EqualFold(f.Name, "Content-Length") {
			continue
		}
		for item := range strings.SplitSeq(f.Value, ",") {
			n, err := strconv.ParseUint(strings.TrimSpace(item), 10, 63)
			if err != nil || length >= 0 && length != int64(n) {
				return -1, false
			}
			length = int64(n)
		}
	}
	return length, true
}

// IsGRPC reports whether the body behind a head of HTTP/2 is messages of gRPC. That
// of gRPC-Web, which has its trailers in the body, is one piece.
func IsGRPC(h *frame.Head) bool {
	media := mediaType(h)
	return media == "application/grpc" || strings.HasPrefix(media, "application/grpc+")
}

// LeavesBody reports whether the head of a response leaves open that a body follows,
// whatever was asked for.
func LeavesBody(h *frame.Head) bool {
	status := h.Status()
	return !strings.HasPrefix(status, "1") && status != "204" && status != "304" && h.Get("Content-Length") != "0"
}

// encodingOf returns how a body is compressed, in lower case; "" if it is not.
func encodingOf(h *frame.Head) string {
	encoding := strings.ToLower(strings.TrimSpace(h.Get("Content-Encoding")))
	if encoding == "identity" {
		return ""
	}
	return encoding
}

// mediaType returns the content type without its parameters, in lower case.
func mediaType(h *frame.Head) string {
	t, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(t))
}
