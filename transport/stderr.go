package transport

import (
	"bufio"
	"log/slog"
)

// LogStderr logs what a process writes to its standard error, line by line and
// with args, until that ends. Without a log it is read all the same, so that the
// process never waits for a reader.
func LogStderr(p Process, log *slog.Logger, args ...any) {
	lines := bufio.NewReader(p.Stderr())
	for {
		line, _, err := lines.ReadLine() // one that is very long comes in pieces
		if err != nil {
			return
		}
		if log != nil {
			log.Info(string(line), args...)
		}
	}
}
