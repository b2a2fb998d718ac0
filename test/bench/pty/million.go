//go:build unix

package main

import (
	"path/filepath"
	"regexp"
	"time"
)

// million opens a capture of a million frames, twice: to see how fast it is
// read, and to go from view to view while it is.
func (b *bench) million() error {
	file := filepath.Join(b.dir, "million.pcapng")
	if err := corpus(file); err != nil {
		return err
	}
	if err := b.read(file); err != nil {
		return err
	}
	m, err := start(b.wirectl, b.dir, file)
	if err != nil {
		return err
	}
	if _, err := m.await(calls); err != nil {
		return err
	}
	if err := m.turn(10); err != nil {
		return err
	}
	b.most("a key while they are read, worst", 50, milliseconds(m.slowest), "ms")
	_, _, err = m.quit()
	return err
}

func (b *bench) read(file string) error {
	m, err := start(b.wirectl, b.dir, file)
	if err != nil {
		return err
	}
	if _, err := m.await(calls); err != nil {
		return err
	}
	opened := time.Since(m.begun)
	if _, err := m.await(ended); err != nil {
		return err
	}
	all := time.Since(m.begun)
	if err := scroll(m); err != nil {
		return err
	}
	work, memory, err := m.quit()
	if err != nil {
		return err
	}
	b.most("a million frames: the first screen", 1, opened.Seconds(), "s")
	b.least("all of them, from the start", 1e6, frames/all.Seconds(), "frames/s")
	b.most("processor time, screens and all", 2, work.Seconds()*1e6/frames, "µs a frame")
	b.most("memory", 300, float64(memory)/(1<<20), "MiB")
	b.most("to the first frame, the last, a page up, worst", 50, milliseconds(m.slowest), "ms")
	return nil
}

// scroll goes through the list of frames, and opens one of them.
func scroll(m *monitor) error {
	if err := m.press("2", list); err != nil {
		return err
	}
	for range 5 {
		for _, step := range []struct {
			key    string
			answer *regexp.Regexp
		}{{"g", first}, {"G", last}, {"\x02", middle}, {"\r", opened}, {"\x1b", list}} {
			if err := m.press(step.key, step.answer); err != nil {
				return err
			}
		}
	}
	return nil
}
