//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"time"
)

// listen prints the port of a new listener.
func listen() (net.Listener, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		fmt.Println(ln.Addr().(*net.TCPAddr).Port)
	}
	return ln, err
}

// mock is a provider as mocks of them are written: it reads what it is asked,
// and answers at once.
func mock() error {
	ln, err := listen()
	if err != nil {
		return err
	}
	http.HandleFunc("POST /v1/chat/completions", complete)
	return http.Serve(ln, nil) //nolint:gosec // a benchmark on loopback
}

type completion struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Created int64    `json:"created"`
	Model   string   `json:"model"`
	Choices []choice `json:"choices"`
	Usage   usage    `json:"usage"`
}

type choice struct {
	Index   int     `json:"index"`
	Message message `json:"message"`
	Finish  string  `json:"finish_reason"`
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
}

const said = "Six times seven is forty-two."

func complete(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Model       string
		Messages    []message
		Temperature float64
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || len(asked.Messages) == 0 {
		http.Error(w, "no request", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(completion{
		ID: "chatcmpl-1", Object: "chat.completion", Created: time.Now().Unix(), Model: asked.Model,
		Choices: []choice{{Message: message{"assistant", said}, Finish: "stop"}}, Usage: usage{12, 8, 20},
	})
}

// bare is a backend that does nothing at all: it reads requests of a known length
// and writes the same answer to each.
func bare() error {
	ln, err := listen()
	if err != nil {
		return err
	}
	for {
		conn, err := ln.Accept()
		if err != nil {
			return err
		}
		go answer(conn)
	}
}

var answered = []byte("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(always)) + "\r\n\r\n" + always)

const always = `{"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"mock","choices":[{"index":0,"message":{"role":"assistant","content":"` + said + `","refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":12,"completion_tokens":8,"total_tokens":20}}`

func answer(conn net.Conn) {
	defer conn.Close()
	r := bufio.NewReaderSize(conn, 64<<10)
	for {
		length := 0
		for {
			line, err := r.ReadSlice('\n')
			if err != nil {
				return
			}
			if len(line) <= 2 {
				break
			}
			if name, value, ok := bytes.Cut(line, []byte(":")); ok && len(name) == 14 && bytes.EqualFold(name, []byte("content-length")) {
				length, _ = strconv.Atoi(string(bytes.TrimSpace(value)))
			}
		}
		if _, err := r.Discard(length); err != nil {
			return
		}
		if _, err := conn.Write(answered); err != nil {
			return
		}
	}
}

// reverseProxy is net/http's, with enough idle connections. It prints its port.
func reverseProxy(target string) error {
	u, err := url.Parse(target)
	if err != nil {
		return err
	}
	ln, err := listen()
	if err != nil {
		return err
	}
	proxy := httputil.NewSingleHostReverseProxy(u)
	proxy.Transport = &http.Transport{MaxIdleConnsPerHost: 256}
	return http.Serve(ln, proxy) //nolint:gosec // a benchmark on loopback
}
