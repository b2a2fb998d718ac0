//go:build unix

package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A measured load has what it cost the server.
type measured struct {
	result
	cpu  time.Duration // a request
	peak float64       // MiB
}

func measure(p *process, l load) measured {
	l.addr = p.addr
	warm := l
	warm.time = l.time / 5
	warm.run()
	before := p.cpu()
	m := measured{result: l.run()}
	if m.requests > 0 {
		m.cpu = (p.cpu() - before) / time.Duration(m.requests)
	}
	m.peak = p.peak()
	return m
}

func (m measured) String() string {
	return fmt.Sprintf("%8.0f req/s, p50 %v, p99 %v, %v of CPU a request, peak %.1f MiB, %d errors", m.perSecond,
		m.p50.Round(time.Microsecond), m.p99.Round(time.Microsecond), m.cpu.Round(100*time.Nanosecond), m.peak, m.errors)
}

// seconds is how long each load lasts.
const seconds = 3 * time.Second

func run() error {
	if err := rlmDoor(); err != nil {
		return err
	}
	return openaiDoor()
}

func frame(payload string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(payload))), payload...)
}

func rlmDoor() error {
	quick := frame(`{"correlation_id":"0123456789abcdef","model":"mock","prompt":"` + strings.Repeat("what is six times seven? ", 8) + `"}`)
	large := frame(`{"correlation_id":"0123456789abcdef","model":"mock","prompt":"` + strings.Repeat("what is six times seven? ", 40_000) + `"}`)
	rlm := load{request: quick, read: readFrame, clients: 64, time: seconds}
	fresh, deep, mega := rlm, rlm, rlm
	fresh.fresh = true
	deep.deep = 16
	mega.request, mega.fresh, mega.clients = large, true, 4
	var python, ours [2]measured
	for i, l := range []load{fresh, mega} {
		for _, s := range []struct {
			to   *measured
			args []string
		}{
			{&python[i], []string{"python3", filepath.Join(os.Getenv("PEERS"), "broker.py")}},
			{&ours[i], []string{"wirectl", "serve", "-q", "--no-tap", "--any-port", "--print-addresses"}},
		} {
			p, err := start("rlm", s.args...)
			if err != nil {
				return err
			}
			*s.to = measure(p, l)
			p.stop()
		}
		name := []string{"a connection a request, 64 clients", "1 MB prompts, 4 clients"}[i]
		fmt.Printf("rlm, %s\n  python   %v\n  wirectl  %v\n  ratio    %.1f (goal %d)\n", name, python[i], ours[i], ours[i].perSecond/python[i].perSecond, []int{4, 5}[i])
	}
	p, err := start("rlm", "wirectl", "serve", "-q", "--no-tap", "--any-port", "--print-addresses")
	if err != nil {
		return err
	}
	defer p.stop()
	fmt.Printf("rlm, kept connections, 64 clients (goal 60000 req/s)\n  wirectl  %v\n", measure(p, rlm))
	fmt.Printf("rlm, pipelined 16 deep, 64 clients (goal 400000 req/s)\n  wirectl  %v\n", measure(p, deep))
	return nil
}

const chat = `{"model":"mock","messages":[{"role":"system","content":"%s"},{"role":"user","content":"What is six times seven?"}],"temperature":0.2}`

func openaiDoor() error {
	backend, err := start("", os.Args[0], "upstream")
	if err != nil {
		return err
	}
	defer backend.stop()
	body := fmt.Sprintf(chat, strings.Repeat("You are a careful assistant. ", 28))
	request := func(headers string) []byte {
		return fmt.Appendf(nil, "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s", headers, len(body), body)
	}
	config := filepath.Join(os.TempDir(), fmt.Sprintf("wirectl-bench-%d.yaml", os.Getpid()))
	yaml := "default: mock\nproviders:\n  up: {kind: openai, base_url: \"http://" + backend.addr + "/v1\"}\nmodels:\n  mock: {provider: up}\n"
	if err := os.WriteFile(config, []byte(yaml), 0o600); err != nil {
		return err
	}
	defer func() { _ = os.Remove(config) }()
	many := load{request: request(""), read: readHTTP, clients: 64, time: seconds}
	single := many
	single.clients = 1
	servers := []struct {
		name    string
		request []byte
		start   func() (*process, error)
	}{
		{"direct", request(""), func() (*process, error) { return start("", os.Args[0], "upstream") }},
		{"wirectl", request(""), func() (*process, error) {
			return start("openai", "wirectl", "serve", "-q", "--no-tap", "--any-port", "--print-addresses", "--config", config)
		}},
		{"ReverseProxy", request(""), func() (*process, error) { return start("", os.Args[0], "proxy", "http://"+backend.addr) }},
		{"Portkey", request("x-portkey-provider: openai\r\nx-portkey-custom-host: http://" + backend.addr + "/v1\r\nAuthorization: Bearer x\r\n"), func() (*process, error) {
			if os.Getenv("PORTKEY") == "" {
				return nil, nil
			}
			return startAt("127.0.0.1:8787", "node", os.Getenv("PORTKEY"), "--headless")
		}},
	}
	results, alone := map[string]measured{}, map[string]measured{}
	for _, s := range servers {
		p, err := s.start()
		if err != nil {
			return err
		}
		if p == nil {
			fmt.Printf("openai, %s is not there\n", s.name)
			continue
		}
		l, one := many, single
		l.request, one.request = s.request, s.request
		alone[s.name] = measure(p, one)
		results[s.name] = measure(p, l)
		p.stop()
		fmt.Printf("openai, %-12s 64 clients %v\n        %-12s  1 client  %v\n", s.name, results[s.name], "", alone[s.name])
	}
	ours := results["wirectl"]
	for name, goal := range map[string]float64{"ReverseProxy": 2.5, "Portkey": 25} {
		if r, ok := results[name]; ok {
			fmt.Printf("openai, wirectl / %s: %.1f (goal %v)\n", name, ours.perSecond/r.perSecond, goal)
		}
	}
	direct := alone["direct"].p50
	fmt.Printf("openai, added p50 at one connection: %.2f of the direct round trip (goal 0.75)\n", float64(alone["wirectl"].p50-direct)/float64(direct))
	return nil
}
