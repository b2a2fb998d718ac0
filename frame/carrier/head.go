package carrier

import (
	"bytes"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/wirectl/wirectl/frame"
)

// MaxHead bounds the head of a request or a response, in bytes.
const MaxHead = 64 << 10

// HeadEnd returns the length of the head at the beginning of data, with its empty line; 0
// if it is incomplete.
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

// ParseHead parses a head leniently.
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

// A BodySize is the size of a body, as far as the head states it.
type BodySize struct {
	Chunked bool
	// Length is -1 if it is unknown.
	Length int64
}

// SizeOf returns the size of the body after a head. It is false if the head is
// contradictory.
func SizeOf(h *frame.Head) (BodySize, bool) {
	// HTTP/1.0 has no chunks, whatever the head says.
	old := strings.HasPrefix(h.Start, "HTTP/1.0") || strings.HasSuffix(h.Start, " HTTP/1.0")
	if !old && lists(h, "Transfer-Encoding", "chunked") {
		return BodySize{Chunked: true, Length: -1}, true
	}
	n, ok := contentLength(h)
	return BodySize{Length: n}, ok
}

// lists reports whether a field of that name contains the token.
func lists(h *frame.Head, name, token string) bool {
	return httpguts.HeaderValuesContainsToken(h.Values(name), token)
}

// contentLength returns the Content-Length of a head; -1 without one. It is false if the
// value is invalid.
func contentLength(h *frame.Head) (int64, bool) {
	length := int64(-1)
	for _, value := range h.Values("Content-Length") {
		for item := range strings.SplitSeq(value, ",") {
			n, err := strconv.ParseUint(strings.TrimSpace(item), 10, 63)
			if err != nil || length >= 0 && length != int64(n) {
				return -1, false
			}
			length = int64(n)
		}
	}
	return length, true
}

// IsGRPC reports whether the body after a head of HTTP/2 consists of gRPC messages. A body
// of gRPC-Web, which contains its trailers, is one piece.
func IsGRPC(h *frame.Head) bool {
	media := MediaType(h)
	return media == "application/grpc" || strings.HasPrefix(media, "application/grpc+")
}

// LeavesBody reports whether a body may follow the head of a response, whatever the request
// was.
func LeavesBody(h *frame.Head) bool {
	status := h.Status()
	return !strings.HasPrefix(status, "1") && status != "204" && status != "304" && h.Get("Content-Length") != "0"
}

// encodingOf returns the compression of a body, in lower case; "" if there is none.
func encodingOf(h *frame.Head) string {
	encoding := strings.ToLower(strings.TrimSpace(h.Get("Content-Encoding")))
	if encoding == "identity" {
		return ""
	}
	return encoding
}

// MediaType returns the content type without its parameters, in lower case.
func MediaType(h *frame.Head) string {
	t, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(t))
}
