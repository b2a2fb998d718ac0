// Package recording reads and writes a session as a folder of plain files. One file per
// direction has the bytes as they were on the wire; another one has the times of the reads.
//
//	c2s.bin       bytes sent by the controller
//	s2c.bin       bytes sent by the unit
//	stderr.bin    standard error of the unit's process
//	timing.jsonl  one line for each read, and for each event
//	conn-2/       the same of the second connection, and so on
//
// The folder does not say how frames are delimited: the reader must know.
package recording

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/wirectl/wirectl/frame"
)

// Names of the files in a folder.
const (
	timingFile = "timing.jsonl"
	stderrFile = "stderr.bin"
	connPrefix = "conn-"
)

// streams lists the streams of a connection, with their names as files and in timing.jsonl.
var streams = [...]struct{ file, name string }{
	frame.DirUnknown: {stderrFile, "err"},
	frame.C2U:        {"c2s.bin", "c2s"},
	frame.U2C:        {"s2c.bin", "s2c"},
}

// line is one line of timing.jsonl. It is a read if Event is empty.
type line struct {
	Event string `json:"event"` // start, eof, exit or note
	Dir   string `json:"dir"`   // of a read or an eof; of an exit, c2s if it was requested
	Off   int64  `json:"off"`   // position of the read in its stream
	Len   int64  `json:"len"`
	Nanos int64  `json:"t_ns"` // since the recording began

	Unix int64    `json:"unix_ns"` // of a start: the time of day
	Argv []string `json:"argv"`    // of a start: the process
	Dial string   `json:"dial"`    // of a start: the address

	Redacted bool `json:"redacted"` // of a start: secrets were removed
	Altered  bool `json:"altered"`  // of a start: faults or edits were enabled

	Code   int    `json:"code"`   // of an exit
	State  string `json:"state"`  // of an exit, in words
	Signal int    `json:"signal"` // of an exit by a signal

	Text string `json:"text"` // of a note; of an exit, why the unit did not start
}

// Events of timing.jsonl.
const (
	eventStart = "start"
	eventEOF   = "eof"
	eventExit  = "exit"
	eventNote  = "note"
)

// killed begins the state of a process that a signal ended.
const killed = "signal: "

func parseLine(text []byte) (line, error) {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return l, err
	}
	if l.Off < 0 || l.Len < 0 || l.Off+l.Len < 0 {
		return l, fmt.Errorf("a read of %d bytes at byte %d", l.Len, l.Off)
	}
	return l, nil
}

// dir returns the direction of a read or an eof; false if it is missing or not valid. For
// standard error it is frame.DirUnknown.
func (l *line) dir() (frame.Dir, bool) {
	for d, s := range streams {
		if s.name == l.Dir {
			return frame.Dir(d), true
		}
	}
	return frame.DirUnknown, false
}

// unit returns the command or address of the unit.
func (l *line) unit() string {
	if l.Dial != "" {
		return l.Dial
	}
	return strings.Join(l.Argv, " ")
}

// signal returns the name of the signal that ended the process.
func (l *line) signal() (string, bool) { return strings.CutPrefix(l.State, killed) }
