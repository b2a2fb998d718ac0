//go:build unix

package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A measured round has what it cost the server.
type measured struct {
	result
	cpu  time.Duration // a request
	peak float64       // MiB, up to then
}

// A series is the rounds of one server under one load.
type series []measured

func (s series) median(of func(*measured) float64) float64 {
	var values []float64
	for i := range s {
		values = append(values, of(&s[i]))
	}
	return middle(values)
}

func middle(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func (s series) perSecond() float64 {
	return s.median(func(m *measured) float64 { return m.perSecond })
}

func (s series) cpu() float64 { return s.median(func(m *measured) float64 { return micros(m.cpu) }) }

func (s series) p50() float64 { return s.median(func(m *measured) float64 { return micros(m.p50) }) }

func (s series) p99() float64 {
	return s.median(func(m *measured) float64 { return micros(m.p99) / 1000 })
}
func (s series) peak() float64 { return s[len(s)-1].peak }

func (s series) errors() (n int) {
	for _, m := range s {
		n += m.result.errors
	}
	return n
}

// added is by how much the p50 is larger than another, as a part of that.
func added(s, direct series) float64 {
	var values []float64
	for i := range s {
		values = append(values, float64(s[i].p50-direct[i].p50)/float64(direct[i].p50))
	}
	return middle(values)
}

// compare measures the programs under a load, in turns.
func (b *bench) compare(name string, l load, programs ...program) ([]series, error) {
	all := make([]series, len(programs))
	processes := make([]*process, len(programs))
	for i, p := range programs {
		var err error
		if processes[i], err = start(p); err != nil {
			return nil, err
		}
		defer processes[i].stop()
		if err := l.check(processes[i].addr); err != nil {
			return nil, fmt.Errorf("%s: %w", p.name, err)
		}
		processes[i].measure(l) // it warms up
	}
	for range b.rounds {
		for i, p := range processes {
			all[i] = append(all[i], p.measure(l))
		}
	}
	for i, s := range all {
		b.details = append(b.details, fmt.Sprintf("| %s: %s | %.0f | %.0f µs | %.2f ms | %.1f µs | %.1f MiB | %d |",
			name, programs[i].name, s.perSecond(), s.p50(), s.p99(), s.cpu(), s.peak(), s.errors()))
	}
	return all, nil
}

func (p *process) measure(l load) measured {
	l.addr = p.addr
	before := p.cpu()
	m := measured{result: l.run(), peak: p.peak()}
	m.cpu = (p.cpu() - before) / time.Duration(max(m.requests, 1))
	return m
}

// Figures are what comes of a run.
type figures struct {
	rows, details []string
	short         bool
}

func (f *figures) row(name, measured, goal string, ok bool) {
	verdict := "ok"
	if !ok {
		verdict, f.short = "SHORT", true
	}
	f.rows = append(f.rows, fmt.Sprintf("| %s | %s | %s | %s |", name, measured, goal, verdict))
}

// ratio compares throughput, round by round.
func (f *figures) ratio(name string, ours, peer series, goal float64) {
	var values []float64
	for i := range ours {
		values = append(values, ours[i].perSecond/max(peer[i].perSecond, 1))
	}
	m := middle(values) // which has sorted them
	f.row(name, fmt.Sprintf("%.2f (%.2f to %.2f)", m, values[0], values[len(values)-1]), fmt.Sprintf("≥ %v", goal), m >= goal)
}

func (f *figures) least(name string, value, goal float64) {
	f.row(name, fmt.Sprintf("%.0f", value), fmt.Sprintf("≥ %.0f", goal), value >= goal)
}

func (f *figures) most(name string, value, goal float64, unit string) {
	f.row(name, strings.TrimSpace(fmt.Sprintf("%.3g %s", value, unit)), strings.TrimSpace(fmt.Sprintf("≤ %v %s", goal, unit)), cmp.Compare(value, goal) <= 0)
}

func (f *figures) note(name string, value float64) {
	f.rows = append(f.rows, fmt.Sprintf("| %s | %.3g | | |", name, value))
}

func (f *figures) print() error {
	fmt.Printf("| figure | measured | goal | |\n| --- | --- | --- | --- |\n%s\n\n", strings.Join(f.rows, "\n"))
	fmt.Printf("| load: server | requests/s | p50 | p99 | processor a request | peak memory | errors |\n| --- | --- | --- | --- | --- | --- | --- |\n%s\n", strings.Join(f.details, "\n"))
	if f.short {
		return errors.New("a figure falls short of its goal")
	}
	return nil
}
