package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/wirectl/wirectl/test/bench/harness"
)

// serve starts the broker; its address is that of a door.
func serve(door string, flags ...string) *harness.Server {
	args := append([]string{"wirectl", "serve", "-q", "--no-tap", "--any-port", "--print-addresses"}, flags...)
	return harness.Serve(`"`+door+`":"([^"]+)"`, args...)
}

// compare measures servers under a load, in turns.
func compare(b *harness.Bench, l load, servers ...*harness.Server) [][]result {
	l.time = 1500 * time.Millisecond / time.Duration(b.Scale)
	var measures []func() result
	for _, s := range servers {
		l.check(s.Address)
		l.run(s.Address) // it warms up
		measures = append(measures, func() result { return l.run(s.Address) })
	}
	return harness.Turns(b.Rounds, measures...)
}

// each returns a value of each round.
func each(results []result, of func(result) float64) (values []float64) {
	for _, r := range results {
		values = append(values, of(r))
	}
	return values
}

func perSecond(r result) float64 { return r.perSecond }
func errorsOf(r result) float64  { return float64(r.errors) }

// rlmDoor measures the rlm door with the mock provider, which answers at once.
func rlmDoor(b *harness.Bench) {
	if !b.Wants("rlm") {
		return
	}
	python := harness.Serve(`(127\.0\.0\.1:\d+)`, "python3", "peers/broker.py")
	defer python.Stop()
	ours := serve("rlm")
	defer ours.Stop()
	const said = "what is six times seven? "
	payload := `{"correlation_id":"0123456789abcdef","model":"mock","prompt":"` + strings.Repeat(said, 8) + `"}`
	l := load{
		request: append(binary.BigEndian.AppendUint32(nil, uint32(len(payload))), payload...),
		answer:  "Echo: " + said, read: readFrame, clients: 64, fresh: true,
	}
	fresh := compare(b, l, ours, python)
	b.AtLeast("rlm, a connection a request, 64 clients: throughput to that of Python's socketserver", harness.Ratio(each(fresh[0], perSecond), each(fresh[1], perSecond)), 3, "")
	l.fresh = false
	kept := compare(b, l, ours)
	b.AtMost("rlm, errors of both in a round", each(append(fresh[0], kept[0]...), errorsOf), 0, "")
}

// openaiDoor measures the OpenAI door in front of a backend that answers at once.
func openaiDoor(b *harness.Bench) {
	if !b.Wants("OpenAI") {
		return
	}
	b.Build("go", "build", "-o", b.Bin("proxy"), "./peers/proxy")
	backend := harness.Serve("(.+)", "proxy")
	defer backend.Stop()
	config := filepath.Join(b.Dir, "config.yaml")
	text := fmt.Sprintf("default: mock\nproviders:\n  up: {kind: openai, base_url: \"http://%s/v1\"}\nmodels:\n  mock: {provider: up}\n", backend.Address)
	harness.Check(os.WriteFile(config, []byte(text), 0o600))
	ours := serve("openai", "--config", config)
	defer ours.Stop()
	proxy := harness.Serve("(.+)", "proxy", "http://"+backend.Address)
	defer proxy.Stop()

	l := load{request: chatRequest(backend.Address), answer: "forty-two", read: readHTTP, clients: 64}
	both := compare(b, l, ours, proxy)
	b.AtLeast("OpenAI door, 64 connections: throughput to that of httputil.ReverseProxy", harness.Ratio(each(both[0], perSecond), each(both[1], perSecond)), 1, "")
	besidePortkey(b, l, ours)
	l.clients = 1
	all := compare(b, l, backend, ours, proxy)
	var added []float64
	for i, direct := range all[0] {
		added = append(added, float64(all[1][i].p50-direct.p50)/float64(all[2][i].p50-direct.p50))
	}
	b.AtMost("OpenAI door, one connection: what it adds to the p50, to what ReverseProxy adds", added, 1.3, "")
	b.AtMost("OpenAI door: peak memory of serve", []float64{ours.Peak()}, 64, "MiB")
}

func besidePortkey(b *harness.Bench, l load, ours *harness.Server) {
	const name = "OpenAI door, 64 connections: throughput to that of Portkey"
	if _, err := exec.LookPath("npm"); err != nil {
		b.Skip(name, "npm is not installed")
		return
	}
	b.Build("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", b.Bin("npm"), "@portkey-ai/gateway@1.15.2")
	portkey := harness.Serve(`listening on (127\.0\.0\.1:\d+)`, "node", "--import=./peers/loopback.mjs",
		b.Bin("npm/node_modules/@portkey-ai/gateway/build/start-server.js"), "--headless", "--port=0")
	defer portkey.Stop()
	both := compare(b, l, ours, portkey)
	b.AtLeast(name, harness.Ratio(each(both[0], perSecond), each(both[1], perSecond)), 12, "")
}

// chatRequest returns the request to all servers. Only Portkey needs some of its headers.
func chatRequest(backend string) []byte {
	body := `{"model":"mock","messages":[{"role":"system","content":"` + strings.Repeat("You are a careful assistant. ", 28) +
		`"},{"role":"user","content":"What is six times seven?"}],"temperature":0.2}`
	return fmt.Appendf(nil, "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nAuthorization: Bearer x\r\n"+
		"x-portkey-provider: openai\r\nx-portkey-custom-host: http://%s/v1\r\nContent-Length: %d\r\n\r\n%s", backend, len(body), body)
}
