package openai_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/test/kit/doortest"
)

// BenchmarkCompletion makes one call after another, through the door to a backend that
// answers at once. Client and backend allocate nothing.
func BenchmarkCompletion(b *testing.B) {
	const answer = `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"mock","choices":[{"index":0,"message":{"role":"assistant","content":"forty-two"},"finish_reason":"stop"}],"usage":{"prompt_tokens":12,"completion_tokens":8,"total_tokens":20}}`
	p := provider.NewOpenAI(provider.Config{BaseURL: answering(b, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(answer), answer))})
	b.Cleanup(p.CloseIdleConnections)
	conn := doortest.Dial(b, strings.TrimPrefix(start(b, p), "http://"))
	body := `{"model":"mock","messages":[{"role":"user","content":"` + strings.Repeat("what is six times seven? ", 36) + `"}]}`
	request := fmt.Appendf(nil, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	r := bufio.NewReader(conn)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := conn.Write(request); err != nil {
			b.Fatal(err)
		}
		if err := skim(r, len(answer)); err != nil {
			b.Fatal(err)
		}
	}
}

// answering returns the URL of a backend that sends the same answer to all requests on its
// one connection.
func answering(b *testing.B, answer string) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { ln.Close() })
	go func() {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		buf, out := make([]byte, 64<<10), []byte(answer)
		for {
			n, err := conn.Read(buf)
			if err != nil {
				return
			}
			if !bytes.HasSuffix(buf[:n], []byte("]}")) {
				continue // only the last piece of a request counts
			}
			if _, err := conn.Write(out); err != nil {
				return
			}
		}
	}()
	return "http://" + ln.Addr().String()
}

// skim reads an answer whose length is known.
func skim(r *bufio.Reader, length int) error {
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) == 2 {
			break
		}
	}
	n, err := r.Discard(length)
	if n < length && err == nil {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// BenchmarkStream streams one completion after another, which the door translates from a
// backend with another API.
func BenchmarkStream(b *testing.B) {
	conn := doortest.Dial(b, strings.TrimPrefix(start(b, provider.NewMock(provider.MockConfig{})), "http://"))
	body := `{"model":"mock","stream":true,"messages":[{"role":"user","content":"` + strings.Repeat("what is six times seven? ", 36) + `"}]}`
	request := fmt.Appendf(nil, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	r := bufio.NewReader(conn)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := conn.Write(request); err != nil {
			b.Fatal(err)
		}
		for {
			line, err := r.ReadSlice('\n')
			if err != nil {
				b.Fatal(err)
			}
			if string(line) == "0\r\n" { // the last chunk
				break
			}
		}
		if _, err := r.Discard(len("\r\n")); err != nil {
			b.Fatal(err)
		}
	}
}
