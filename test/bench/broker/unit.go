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

// pings compares an answer of the unit with one of a bare echo of the same bytes.
func pings(b *harness.Bench) error {
	if err := b.Build("go", "build", "-o", b.Bin("echo-tcp"), "./peers/echo"); err != nil {
		return err
	}
	echo, err := harness.Serve("(.+)", "echo-tcp")
	if err != nil {
		return err
	}
	defer echo.Stop()
	unit, err := harness.Serve(`tcp://(\S+)`, "wirectl", "unit", "--listen", "tcp://127.0.0.1:0")
	if err != nil {
		return err
	}
	defer unit.Stop()
	n := 20_000 / b.Scale
	took, err := harness.Turns(b.Rounds,
		func() (float64, error) { return trips(echo.Address, n) },
		func() (float64, error) { return trips(unit.Address, n) })
	if err != nil {
		return err
	}
	b.AtLeast("unit, ping over TCP, one after the other: speed of p50 to that of a bare echo", harness.Ratio(took[0], took[1]), 0.8, "")
	rates, err := harness.Turns(b.Rounds, func() (float64, error) { return inFlight(unit.Address, 20*n) })
	if err != nil {
		return err
	}
	b.AtLeast("unit, 64 pings in flight: answers a second", rates[0], 100_000, "")
	return nil
}

// trips makes round trips one after the other, and returns how many seconds the one
// in the middle took.
func trips(address string, n int) (float64, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	answer := make([]byte, len(ping))
	took := make([]float64, n)
	for i := range took {
		begun := time.Now()
		if _, err := io.WriteString(conn, ping); err != nil {
			return 0, err
		}
		if _, err := io.ReadFull(conn, answer); err != nil {
			return 0, err
		}
		took[i] = time.Since(begun).Seconds()
	}
	return harness.Median(took), nil
}

// inFlight returns how many pings a second are answered when 64 are always under way.
func inFlight(address string, n int) (float64, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	begun := time.Now()
	if _, err := io.WriteString(conn, strings.Repeat(ping, 64)); err != nil {
		return 0, err
	}
	answers := make([]byte, 64*len(ping))
	for got, part := 0, 0; got < n; {
		m, err := conn.Read(answers)
		if err != nil {
			return 0, err
		}
		part += m
		whole := part / len(ping)
		part %= len(ping)
		got += whole
		if _, err := io.WriteString(conn, strings.Repeat(ping, whole)); err != nil {
			return 0, err
		}
	}
	return float64(n) / time.Since(begun).Seconds(), nil
}
