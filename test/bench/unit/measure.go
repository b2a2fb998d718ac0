//go:build unix

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/peer/client"
	"github.com/wirectl/wirectl/protocol/theory"
	"github.com/wirectl/wirectl/transport"
	"github.com/wirectl/wirectl/transport/quic"
)

const rounds = 5

// ping is a frame of PING, as long as the PONG that answers it.
const ping = "\x00\x00\x00\x10\x0a\x011\xf2\x01\x0a\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f"

// measure prints a table of what it finds. The error says how many goals were
// missed.
func measure(n int) error {
	short := 0
	row := func(name, measured, goal string, ok bool) {
		verdict := "ok"
		if !ok {
			verdict = "SHORT"
			short++
		}
		fmt.Printf("| %s | %s | %s | %s |\n", name, measured, goal, verdict)
	}
	fmt.Println("| figure | measured | goal | |")
	fmt.Println("| --- | --- | --- | --- |")
	for _, c := range []struct {
		network string
		goal    float64
	}{{"tcp", 0.8}, {"quic", 0.5}} {
		ratios, err := compare(c.network, n)
		if err != nil {
			return err
		}
		row("ping over "+c.network+", one after the other, p50, against a bare echo",
			fmt.Sprintf("%.2f (%.2f–%.2f)", ratios[rounds/2], ratios[0], ratios[rounds-1]), fmt.Sprintf("at least %.1f", c.goal), ratios[rounds/2] >= c.goal)
	}
	rates, err := inFlight(20*n, ping)
	if err != nil {
		return err
	}
	row("ping over tcp, 64 in flight", fmt.Sprintf("%.0f a second", rates), "at least 100000", rates >= 100_000)
	runs, err := theoryRuns(max(n/4, 100))
	if err != nil {
		return err
	}
	row("theory runs, 16 at once, handler in the process", fmt.Sprintf("%.0f a second", runs), "at least 1000", runs >= 1000)
	took, err := startUp()
	if err != nil {
		return err
	}
	row("theory, a worker process for the run (sh), p50", took.Round(time.Microsecond).String(), "", true)
	if short > 0 {
		return fmt.Errorf("%d of the figures fall short", short)
	}
	return nil
}

// compare returns, sorted, how many times as long as an answer of the unit a bare
// echo takes, by the median of each round: the mean is that of whatever else the
// machine does.
func compare(network string, n int) ([]float64, error) {
	echo, stop, err := start("unit-bench", "-echo", network)
	if err != nil {
		return nil, err
	}
	defer stop()
	unit, stop, err := start("wirectl", "unit", "--listen", network+"://127.0.0.1:0", "--subprotocol", "latis-frames")
	if err != nil {
		return nil, err
	}
	defer stop()
	var ratios []float64
	for range rounds {
		bare, err := pingPong(echo, n)
		if err != nil {
			return nil, err
		}
		ours, err := pingPong(unit, n)
		if err != nil {
			return nil, err
		}
		ratios = append(ratios, bare.Seconds()/ours.Seconds())
	}
	slices.Sort(ratios)
	return ratios, nil
}

// start starts a program and returns the address that it prints.
func start(program string, args ...string) (address string, stop func(), err error) {
	cmd := exec.Command(program, args...)
	r, w, err := os.Pipe()
	if err != nil {
		return "", nil, err
	}
	cmd.Stdout, cmd.Stderr = w, w
	err = cmd.Start()
	w.Close()
	if err != nil {
		return "", nil, err
	}
	stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		r.Close()
	}
	for lines := bufio.NewScanner(r); lines.Scan(); {
		for word := range strings.FieldsSeq(lines.Text()) {
			if strings.Contains(word, "://") {
				go func() { _, _ = io.Copy(io.Discard, r) }()
				return word, stop, nil
			}
		}
	}
	stop()
	return "", nil, fmt.Errorf("%s does not say where it listens", program)
}

func dial(address string) (transport.Conn, error) {
	e, err := transport.Parse([]string{address}, transport.Options{
		Schemes: quic.Schemes, Subprotocols: []string{"latis-frames"}, TLS: transport.TLS{Insecure: true},
	})
	if err != nil {
		return nil, err
	}
	return e.Dial(context.Background())
}

// pingPong makes round trips one after the other, and returns how long the one in
// the middle took.
func pingPong(address string, n int) (time.Duration, error) {
	conn, err := dial(address)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	answer := make([]byte, 4<<10)
	took := make([]time.Duration, n)
	for i := range took {
		begun := time.Now()
		if _, err := io.WriteString(conn, ping); err != nil {
			return 0, err
		}
		size := 4 // of the length
		for got := 0; got < size; {
			m, err := conn.Read(answer[got:])
			if err != nil {
				return 0, err
			}
			if got += m; got >= 4 {
				size = 4 + int(answer[3])
			}
		}
		took[i] = time.Since(begun)
	}
	slices.Sort(took)
	return took[n/2], nil
}

// inFlight returns how many requests a second a unit answers when 64 are always
// under way.
func inFlight(n int, request string) (float64, error) {
	unit, stop, err := start("wirectl", "unit", "--listen", "tcp://127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer stop()
	conn, err := dial(unit)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	begun := time.Now()
	if _, err := io.WriteString(conn, strings.Repeat(request, 64)); err != nil {
		return 0, err
	}
	s := frame.NewScanner(conn, frame.Len32)
	var batch frame.Batch
	for got := 0; got < n; {
		if !s.ScanBatch(&batch) {
			return 0, errors.Join(errors.New("the unit ended the connection"), s.Err())
		}
		got += len(batch.Frames)
		if _, err := io.WriteString(conn, strings.Repeat(request, len(batch.Frames))); err != nil {
			return 0, err
		}
	}
	return float64(n) / time.Since(begun).Seconds(), nil
}

// theoryRuns returns how many runs a second a runtime has.
func theoryRuns(n int) (float64, error) {
	l, err := runTheory(n, 16)
	if err != nil {
		return 0, err
	}
	return float64(l.Calls) / l.Elapsed.Seconds(), nil
}

// startUp returns how long a run takes for which a process is started.
func startUp() (time.Duration, error) {
	l, err := runTheory(50, 1, "--handler", `echo '{"kind":"Response","status":"success","outputs":{}}'`)
	if err != nil {
		return 0, err
	}
	return client.Quantile(l.Total, 0.5), nil
}

func runTheory(n, atOnce int, flags ...string) (*client.Load, error) {
	address, stop, err := start("wirectl", append([]string{"theory", "serve", "--listen", "127.0.0.1:0"}, flags...)...)
	if err != nil {
		return nil, err
	}
	defer stop()
	c := client.NewTheory(address, client.NewWatch(theory.Protocol, nil), client.HTTPOptions{})
	l := client.Run(context.Background(), n, atOnce, c.Run(client.RunRequest{Mode: "mock"}))
	return l, l.Err
}
