//go:build unix

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// rounds is how often each server is measured.
const rounds = 3

// A bench is one run.
type bench struct {
	round time.Duration
	figures
}

func run(round string) error {
	d, err := time.ParseDuration(round)
	if err != nil {
		return err
	}
	b := &bench{round: d}
	if err := errors.Join(b.rlmDoor(), b.openaiDoor()); err != nil {
		return err
	}
	return b.print()
}

func (b *bench) rlmDoor() error {
	python := program{"Python", "", []string{"python3", filepath.Join(os.Getenv("PEERS"), "broker.py")}}
	ours := program{"wirectl", "rlm", []string{"wirectl", "serve", "-q", "--no-tap", "--any-port", "--print-addresses"}}
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

func (b *bench) openaiDoor() error {
	backend, err := start(program{"direct", "", []string{os.Args[0], "upstream"}})
	if err != nil {
		return err
	}
	defer backend.stop()
	config, err := configFile(backend.addr)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(config) }()
	programs := []program{
		{"direct", "", []string{os.Args[0], "upstream"}},
		{"wirectl", "openai", []string{"wirectl", "serve", "-q", "--no-tap", "--any-port", "--print-addresses", "--config", config}},
		{"ReverseProxy", "", []string{os.Args[0], "proxy", "http://" + backend.addr}},
	}
	if at := os.Getenv("PORTKEY"); at != "" {
		programs = append(programs, program{"Portkey", ownPort, []string{
			"node", "--import=" + filepath.Join(os.Getenv("PEERS"), "loopback.mjs"), at, "--headless", "--port=" + ownPort,
		}})
	}
	many := load{request: chatRequest(backend.addr), answer: "Six times seven is forty-two.", read: readHTTP, clients: 64, time: b.round}
	one := many
	one.clients = 1
	all, err := b.compare("OpenAI, 64 connections", many, programs...)
	if err != nil {
		return err
	}
	b.ratio("OpenAI door, 64 connections: throughput to that of httputil.ReverseProxy", all[1], all[2], 2.5)
	if len(all) > 3 {
		b.ratio("the same, to that of @portkey-ai/gateway", all[1], all[3], 25)
	}
	b.most("the same, processor time a request", all[1].cpu(), 20, "µs")
	b.most("the same, peak memory", all[1].peak(), 24, "MiB")
	if all, err = b.compare("OpenAI, one connection", one, programs...); err != nil {
		return err
	}
	b.most("OpenAI door, one connection: what it adds to the p50 of the direct round trip", added(all[1], all[0]), 0.75, "")
	b.note("the same of httputil.ReverseProxy", added(all[2], all[0]))
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
