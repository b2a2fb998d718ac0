package main

import (
	"io"
	"net"
	"strings"
	"time"

	"github.com/wirectl/wirectl/test/bench/harness"
)

// ping is a frame of PING, as long as the PONG that answers it.
const ping = "\x00\x00\x00\x10\x0a\x011\xf2\x01\x0a\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f"

// pings compares the unit with a bare echo of the same bytes.
func pings(b *harness.Bench) {
	b.Build("go", "build", "-o", b.Bin("echo-tcp"), "./peers/echo")
	echo := harness.Serve("(.+)", "echo-tcp")
	defer echo.Stop()
	unit := harness.Serve(`tcp://(\S+)`, "wirectl", "unit", "--listen", "tcp://127.0.0.1:0")
	defer unit.Stop()
	n := 20_000 / b.Scale
	took := harness.Turns(b.Rounds,
		func() float64 { return trips(echo.Address, n) },
		func() float64 { return trips(unit.Address, n) })
	b.AtLeast("unit, ping over TCP, one after the other: speed of p50 to that of a bare echo", harness.Ratio(took[0], took[1]), 0.8, "")
	rates := harness.Turns(b.Rounds, func() float64 { return inFlight(unit.Address, 20*n) })
	b.AtLeast("unit, 64 pings in flight: answers a second", rates[0], 100_000, "")
}

// trips makes round trips one after the other, and returns their median time in seconds.
func trips(address string, n int) float64 {
	conn := harness.Must(net.Dial("tcp", address))
	defer conn.Close()
	answer := make([]byte, len(ping))
	took := make([]float64, n)
	for i := range took {
		begun := time.Now()
		harness.Must(io.WriteString(conn, ping))
		harness.Must(io.ReadFull(conn, answer))
		took[i] = time.Since(begun).Seconds()
	}
	return harness.Median(took)
}

// inFlight returns how many pings a second are answered if 64 are always in flight.
func inFlight(address string, n int) float64 {
	conn := harness.Must(net.Dial("tcp", address))
	defer conn.Close()
	begun := time.Now()
	harness.Must(io.WriteString(conn, strings.Repeat(ping, 64)))
	answers := make([]byte, 64*len(ping))
	for got, part := 0, 0; got < n; {
		m := harness.Must(conn.Read(answers))
		part += m
		whole := part / len(ping)
		part %= len(ping)
		got += whole
		harness.Must(io.WriteString(conn, strings.Repeat(ping, whole)))
	}
	return float64(n) / time.Since(begun).Seconds()
}
