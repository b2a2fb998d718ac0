//go:build unix

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// A bench is one run.
type bench struct {
	round  time.Duration
	rounds int // how often each server is measured
	figures
}

func run(round string, measure func(*bench) error) error {
	d, err := time.ParseDuration(round)
	if err != nil {
		return err
	}
	b := &bench{round: d, rounds: 3}
	if err := measure(b); err != nil {
		return err
	}
	return b.print()
}

// loads measures many clients. Behind the OpenAI door is the bare backend: beside
// it the difference between the proxies shows, where the mock would take most of
// the processor.
func (b *bench) loads() error {
	return errors.Join(b.rlmDoor(), b.behindDoor("bare", b.throughput))
}

// trips measures one client: what a door adds to a round trip to the mock, which
// is what stands behind it in life, and to one to the bare backend. The goal holds
// where there is one processor, since waking another takes what time it likes. The
// machine changes its pace from one second to the next: hence more turns, and short.
func (b *bench) trips() error {
	b.rounds, b.round = 5*b.rounds, b.round/5
	return errors.Join(b.behindDoor("mock", b.added), b.behindDoor("bare", b.addedToNothing), b.alone())
}

func (b *bench) rlmDoor() error {
	python := program{"Python", "", []string{"python3", filepath.Join(os.Getenv("PEERS"), "broker.py")}}
	ours := wirectl("rlm")
	const said = "what is six times seven? "
	rlm := load{request: wireRequest(said, 8), answer: "Echo: " + said, read: readFrame, clients: 64, time: b.round}
	fresh, deep, mega := rlm, rlm, rlm
	fresh.fresh = true
	deep.deep = 16
	mega.request, mega.fresh, mega.clients = wireRequest(said, 40_000), true, 4

	both, err := b.compare("rlm, a connection a request, 64 clients", fresh, python, ours)
	if err != nil {
		return err
	}
	b.ratio("rlm, a connection a request: throughput to that of Python's socketserver", both[1], both[0], 4)
	b.most("the same, p99", both[1].p99(), 25, "ms")
	b.most("the same, errors", float64(both[1].errors()), 0, "")
	if both, err = b.compare("rlm, 1 MB prompts, 4 clients", mega, python, ours); err != nil {
		return err
	}
	b.ratio("rlm, 1 MB prompts: throughput to that of Python's socketserver", both[1], both[0], 5)
	if both, err = b.compare("rlm, kept connections, 64 clients", rlm, ours); err != nil {
		return err
	}
	b.least("rlm, kept connections, requests a second", both[0].perSecond(), 60_000)
	if both, err = b.compare("rlm, pipelined 16 deep, 64 clients", deep, ours); err != nil {
		return err
	}
	b.least("rlm, pipelined 16 deep, requests a second", both[0].perSecond(), 400_000)
	return nil
}

func wireRequest(said string, times int) []byte {
	payload := `{"correlation_id":"0123456789abcdef","model":"mock","prompt":"` + strings.Repeat(said, times) + `"}`
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(payload))), payload...)
}

// behindDoor has a measurement made of a backend that is asked directly, and by
// the door and its peers.
func (b *bench) behindDoor(kind string, measure func(l load, direct, ours, proxy, portkey program) error) error {
	direct := program{"direct", "", []string{os.Args[0], kind}}
	backend, err := start(direct)
	if err != nil {
		return err
	}
	defer backend.stop()
	config, err := configFile(backend.addr)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(config) }()
	ours := wirectl("openai", "--config", config)
	proxy := program{"ReverseProxy", "", []string{os.Args[0], "proxy", "http://" + backend.addr}}
	portkey := program{"Portkey", ownPort, []string{
		"node", "--import=" + filepath.Join(os.Getenv("PEERS"), "loopback.mjs"), os.Getenv("PORTKEY"), "--headless", "--port=" + ownPort,
	}}
	return measure(load{request: chatRequest(backend.addr), answer: said, read: readHTTP, time: b.round}, direct, ours, proxy, portkey)
}

// wirectl is the broker of which a door is meant.
func wirectl(door string, flags ...string) program {
	return program{"wirectl", door, append([]string{"wirectl", "serve", "-q", "--no-tap", "--any-port", "--print-addresses"}, flags...)}
}

func (b *bench) throughput(l load, direct, ours, proxy, portkey program) error {
	programs := []program{direct, ours, proxy}
	if os.Getenv("PORTKEY") != "" {
		programs = append(programs, portkey)
	}
	l.clients = 64
	all, err := b.compare("OpenAI, 64 connections", l, programs...)
	if err != nil {
		return err
	}
	b.ratio("OpenAI door, 64 connections: throughput to that of httputil.ReverseProxy", all[1], all[2], 2.5)
	if len(all) > 3 {
		b.ratio("the same, to that of @portkey-ai/gateway", all[1], all[3], 25)
	}
	b.most("the same, processor time a request", all[1].cpu(), 20, "µs")
	b.most("the same, peak memory", all[1].peak(), 24, "MiB")
	return nil
}

func (b *bench) added(l load, direct, ours, proxy, _ program) error {
	l.clients = 1
	all, err := b.compare("OpenAI, one connection, a mock behind", l, direct, ours, proxy)
	if err != nil {
		return err
	}
	const name = "OpenAI door, one connection: what it adds to the p50 of the direct round trip to a mock provider"
	if runtime.NumCPU() == 1 {
		b.most(name, added(all[1], all[0]), 0.75, "")
	} else {
		b.note(name, added(all[1], all[0]))
	}
	b.note("the same of httputil.ReverseProxy", added(all[2], all[0]))
	return nil
}

func (b *bench) addedToNothing(l load, direct, ours, proxy, _ program) error {
	l.clients = 1
	all, err := b.compare("OpenAI, one connection, a backend behind that does nothing at all", l, direct, ours, proxy)
	if err != nil {
		return err
	}
	b.note("what it adds to that of a backend that does nothing at all", added(all[1], all[0]))
	b.note("the same of httputil.ReverseProxy", added(all[2], all[0]))
	return nil
}

// alone measures the door with the mock inside the broker.
func (b *bench) alone() error {
	l := load{request: chatRequest("127.0.0.1"), answer: "Echo: What is six times seven?", read: readHTTP, clients: 1, time: b.round}
	all, err := b.compare("OpenAI, one connection, no backend", l, wirectl("openai"))
	if err != nil {
		return err
	}
	b.note("the p50 of the door alone, which answers itself, in µs", all[0].p50())
	return nil
}

// configFile leads the model mock to a backend.
func configFile(addr string) (string, error) {
	f, err := os.CreateTemp("", "wirectl-bench-*.yaml")
	if err != nil {
		return "", err
	}
	defer f.Close()
	_, err = fmt.Fprintf(f, "default: mock\nproviders:\n  up: {kind: openai, base_url: \"http://%s/v1\"}\nmodels:\n  mock: {provider: up}\n", addr)
	return f.Name(), err
}

// chatRequest is the same for all: what Portkey needs to know harms nobody.
func chatRequest(backend string) []byte {
	body := `{"model":"mock","messages":[{"role":"system","content":"` + strings.Repeat("You are a careful assistant. ", 28) +
		`"},{"role":"user","content":"What is six times seven?"}],"temperature":0.2}`
	return fmt.Appendf(nil, "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nAuthorization: Bearer x\r\n"+
		"x-portkey-provider: openai\r\nx-portkey-custom-host: http://%s/v1\r\nContent-Length: %d\r\n\r\n%s", backend, len(body), body)
}
