// Testsum reads the events of go test -json on standard input and prints what
// a reader wants of them: a line for each package, and all that failed tests
// said. Its last line is "N passed, N failed", which counts tests and subtests.
//
//	go test -json ./... | testsum [-noskip]
//
// The status is 1 if anything failed or no test ran.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	noskip := flag.Bool("noskip", false, "count a test that was skipped as failed")
	flag.Parse()
	s := summary{out: os.Stdout, noskip: *noskip, said: map[test]string{}, broken: map[string]bool{}}
	if err := s.read(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "testsum:", err)
		os.Exit(1)
	}
	fmt.Printf("%d passed, %d failed\n", s.passed, s.failed)
	if s.failed > 0 || s.passed == 0 {
		os.Exit(1)
	}
}

// An event is one line of go test -json: see go doc test2json, and go help
// buildjson for what a build adds.
type event struct {
	Action, Package, Test, Output string
}

// A test names a test of a package, or where name is "" the package.
type test struct{ pkg, name string }

type summary struct {
	out            io.Writer
	noskip         bool
	passed, failed int
	said           map[test]string // what the tests that have not ended printed
	broken         map[string]bool // packages with a failed test
}

func (s *summary) read(r io.Reader) error {
	for dec := json.NewDecoder(r); ; {
		var e event
		switch err := dec.Decode(&e); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("not the output of go test -json: %w", err)
		}
		s.take(e)
	}
}

func (s *summary) take(e event) {
	id := test{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		fmt.Fprint(s.out, e.Output)
	case "output":
		s.said[id] += e.Output
	case "pass", "fail", "skip":
		if e.Test == "" {
			s.endPackage(id, e.Action == "fail")
		} else {
			s.endTest(id, e.Action)
		}
	}
}

func (s *summary) endTest(id test, action string) {
	switch {
	case action == "pass":
		s.passed++
	case action == "fail" || s.noskip:
		s.failed++
		s.broken[id.pkg] = true
		fmt.Fprint(s.out, s.said[id])
	}
	delete(s.said, id)
}

// endPackage prints the verdict on a package. One that failed without a failed
// test did not build, or its process died: that counts as one failure, and
// whatever was running may say why.
func (s *summary) endPackage(id test, failed bool) {
	lines := strings.SplitAfter(strings.TrimSpace(s.said[id]), "\n")
	verdict := lines[len(lines)-1]
	if failed && !s.broken[id.pkg] {
		s.failed++
		for running, said := range s.said {
			if running.pkg == id.pkg && running != id {
				fmt.Fprint(s.out, said)
			}
		}
		verdict = strings.Join(lines, "")
	}
	fmt.Fprintln(s.out, verdict)
	delete(s.said, id)
}
