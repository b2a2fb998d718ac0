//go:build !race

package openai_test

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/test/kit/doortest"
)

// stalling returns the URL of a backend that begins its answer to each request and sends a
// part the given number of times. Then it stalls until the test ends.
func stalling(t *testing.T, first, part string, parts int) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	event := func(data string) string { return fmt.Sprintf("%x\r\ndata: %s\n\n\r\n", len(data)+8, data) }
	begin, more := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"+event(first), event(part)
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { conn.Close() })
			go func() {
				buf := make([]byte, 512)
				_, err := conn.Read(buf)
				if err == nil {
					_, err = io.WriteString(conn, begin)
				}
				for range parts {
					if err == nil {
						_, err = io.WriteString(conn, more)
					}
				}
				for err == nil {
					_, err = conn.Read(buf)
				}
			}()
		}
	}()
	return "http://" + ln.Addr().String()
}

// An open call needs at most 64 KiB in any translation, besides the text kept of it. That
// text is bounded if it is passed on unchanged.
func TestOpenCallsAreSmall(t *testing.T) {
	text := strings.Repeat("forty-two ", 20)
	chatPart := `{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"` + text + `"},"finish_reason":null}]}`
	messageStart := `{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}`
	messagePart := `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` + text + `"}}`
	chat := func(parts int) (string, func(string) provider.Provider) {
		return stalling(t, chatPart, chatPart, parts), func(url string) provider.Provider { return provider.NewOpenAI(provider.Config{BaseURL: url}) }
	}
	messages := func(parts int) (string, func(string) provider.Provider) {
		return stalling(t, messageStart, messagePart, parts), func(url string) provider.Provider { return provider.NewAnthropic(provider.Config{BaseURL: url}) }
	}
	const ask, say = `{"messages":[{"role":"user","content":"hi"}],"stream":true}`, `{"max_tokens":9,"stream":true,"messages":[{"role":"user","content":"hi"}]}`
	for _, tt := range []struct {
		name, path, body string
		backend          func(parts int) (string, func(string) provider.Provider)
		parts            int // of 200 bytes each
		kept             int64
	}{
		{"chat", "/v1/chat/completions", ask, chat, 2, 0},
		{"chat, translated", "/v1/chat/completions", ask, messages, 2, 0},
		{"responses", "/v1/responses", `{"input":"hi","stream":true}`, chat, 2, 0},
		{"messages", "/v1/messages", say, chat, 2, 0},
		{"messages as they are", "/v1/messages", say, messages, 2, 0},
		{"gemini", "/v1beta/models/mock:streamGenerateContent?alt=sse", `{"contents":[{"parts":[{"text":"hi"}]}]}`, messages, 2, 0},
		{"a long text", "/v1/chat/completions", ask, chat, 1330, 256 << 10},
		{"a long message", "/v1/messages", say, messages, 1330, 256 << 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			backend, behind := tt.backend(tt.parts)
			request := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", tt.path, len(tt.body), tt.body)
			without := int64(0)
			for range 3 { // less than nothing is measured if the calls before are freed meanwhile
				if without = max(0, openCalls(t, backend, request, tt.parts*len(text))); without > 0 {
					break
				}
			}
			each := openCalls(t, start(t, behind(backend)), request, tt.parts*len(text)) - without
			t.Logf("%d bytes for each, beside %d of client and backend", each, without)
			if each > 64<<10+tt.kept {
				t.Errorf("an open call takes %d bytes", each)
			}
		})
	}
}

// openCalls makes calls whose answers stall, and returns the memory per call once each has
// received that many bytes.
func openCalls(t *testing.T, url, request string, bytes int) int64 {
	t.Helper()
	const calls = 150
	before := int64(0)
	for n := range calls + 1 {
		if n == 1 {
			before = memory() // includes the memory that is shared
		}
		conn := doortest.Dial(t, strings.TrimPrefix(url, "http://"))
		t.Cleanup(func() { conn.Close() })
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		if _, err := io.CopyN(io.Discard, conn, int64(bytes)); err != nil {
			t.Fatal(err)
		}
	}
	return (memory() - before) / calls
}

// memory returns the heap and stacks in use after a collection.
func memory() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
