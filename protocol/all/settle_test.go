package all_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol/all"
)

// wrap puts payloads into frames.
func wrap(t *testing.T, f frame.Framing, payloads ...string) string {
	t.Helper()
	var stream []byte
	for _, p := range payloads {
		var err error
		if stream, err = frame.Append(stream, f, []byte(p)); err != nil {
			t.Fatal(err)
		}
	}
	return string(stream)
}

// A frame whose payload is broken is told by how it is framed, in whichever
// pieces it arrives and whether or not another frame follows.
func TestDetectBrokenPayload(t *testing.T) {
	const rlm = `{"correlation_id":"a","prompt":"hi","x":NaN}`
	for _, tt := range []struct{ comment, payload, protocol string }{
		{"NaN", rlm, "rlm"},
		{"NaN, with no mark", `{"prompt":"hi","x":NaN}`, "json"},
		{"a lone surrogate", `{"prompt":"\ud800"}`, "rlm"},
		{"a surrogate in UTF-8", "{\"correlation_id\":\"a\",\"prompt\":\"\xed\xa0\x80\"}", "rlm"},
		{"an object that has no end", `{"prompt":"hi","arguments":{`, "json"},
		{"a bare key", `{prompt:1}`, "json"},
		{"too deep", strings.Repeat(`{"a":`, 10001) + "1" + strings.Repeat("}", 10001), "json"},
		{"no JSON", "\xff\xfe", "bytes"},
	} {
		frame1 := wrap(t, frame.Len32, tt.payload)
		for _, stream := range []string{frame1, frame1 + frame1, frame1 + frame1 + frame1} {
			checkPieces(t, tt.comment, stream, "len32", tt.protocol)
		}
	}
	checkPieces(t, "and a frame that is cut", wrap(t, frame.Len32, rlm, rlm)[:60], "len32", "rlm")
	checkPieces(t, "on gRPC", wrap(t, frame.GRPC, rlm), "grpc", "rlm")
	checkPieces(t, "behind a varint", wrap(t, frame.Varint, rlm+strings.Repeat(" ", 200)), "varint", "rlm")
	checkPieces(t, "in a stream that is longer than detection looks", strings.Repeat(wrap(t, frame.Len32, rlm), 2000), "len32", "rlm")
}

// checkPieces detects a stream in pieces of several sizes.
func checkPieces(t *testing.T, comment, stream, framing, protocol string) {
	t.Helper()
	for _, size := range []int{1, 7, 4096, len(stream)} {
		if size < 4096 && len(stream) > 1024 {
			continue
		}
		if f, p, _ := detect(all.Guess{}, stream, size); f != framing || p != protocol {
			t.Errorf("%s, in pieces of %d, is %s, %s; want %s, %s", comment, size, f, p, framing, protocol)
		}
	}
}

func TestDetectLittle(t *testing.T) {
	for _, tt := range []struct{ stream, framing, protocol string }{
		{"\n\n\n", "line", "json"},
		{"   ", "line", "json"},
		{"\r\r", "line", "json"},
		{strings.Repeat(" ", 33), "line", "json"},
		{strings.Repeat("\n", 70_000), "line", "json"},
		{"5\n", "line", "json"},
		{"abc\n", "line", "json"},
		{"{\"a\":\"\xe2\x82", "line", "json"},
		{"\x00", "none", "none"},
		{"\x00\x00", "none", "none"},
		{"\x00\x00\x00", "none", "none"},
		{"\x00\x00\x00\x00", "len32", "bytes"},
		{"\x00\x02\x08\x01", "varint", "bytes"},
		{`0036{"correlation_id":"a","prompt":"x"}`, "none", "none"},
		{"\x80\x00\x00\x00\x0fgrpc-status:0\r\n", "none", "none"},
		{wrap(t, frame.Varint, `{"prompt":"`+strings.Repeat("x", 37)+`"}`), "varint", "rlm"}, // the length is "2"
	} {
		checkPieces(t, fmt.Sprintf("%.40q", tt.stream), tt.stream, tt.framing, tt.protocol)
	}
}

// A message that ends nowhere in the head is told by its first bytes.
func TestDetectCut(t *testing.T) {
	long := "\x0a\x80\x80\x08" + strings.Repeat("x", 128<<10)
	gzip := "\x1f\x8b\x08\x00" + strings.Repeat("\x9e", 128<<10)
	for _, tt := range []struct{ comment, stream, framing, protocol string }{
		{"a long message", wrap(t, frame.GRPC, long), "grpc", "latis"},
		{"a message that is cut", wrap(t, frame.GRPC, long)[:200], "grpc", "latis"},
		{"a long compressed message", "\x01" + wrap(t, frame.Len32, gzip), "grpc", "protobuf"},
		{"a compressed message that is cut", "\x01" + wrap(t, frame.Len32, gzip)[:200], "grpc", "protobuf"},
		{"a long message behind headers", wrap(t, frame.Header, strings.Repeat("\xc8", 70_000)), "header", "json"},
		{"long text behind a length", wrap(t, frame.Len32, strings.Repeat("x", 72_000)), "len32", "bytes"},
		{"long JSON that is broken", wrap(t, frame.Len32, "{\"jsonrpc\":\"2.0\",\"result\":\"\xe9"+strings.Repeat("x", 70_000)+"\"}"), "len32", "jsonrpc"},
		{"long JSON that is broken, on gRPC", wrap(t, frame.GRPC, `{"x":NaN,"y":"`+strings.Repeat("o", 70_000)+`"}`), "grpc", "json"},
		{"a long line of JSON that is broken", `{"jsonrpc":"2.0","result":"\ud83d` + strings.Repeat("x", 70_000) + "\"}\n", "line", "jsonrpc"},
		{"a long line of an array that is broken", `[{"a":NaN},"` + strings.Repeat("x", 70_000) + "\"]\n", "line", "json"},
	} {
		checkPieces(t, tt.comment, tt.stream, tt.framing, tt.protocol)
	}
}

// A stream of just as many bytes as detection looks at is the same whether or
// not its end is known.
func TestDetectAtSize(t *testing.T) {
	for _, stream := range []string{
		strings.Repeat("x", frame.DetectSize),
		wrap(t, frame.Len32, strings.Repeat("\xff", frame.DetectSize-4)),
		wrap(t, frame.GRPC, "\x0a\xff\xff\x7f"+strings.Repeat("\xff", frame.DetectSize)),
	} {
		var open, ended all.Guess
		head := bytes.Clone([]byte(stream)[:frame.DetectSize])
		open.Detect(head, false)
		ended.Detect(head, true)
		if open.String() != ended.String() {
			t.Errorf("%q…: %s, and with the end known: %s", head[:8], &open, &ended)
		}
	}
}
