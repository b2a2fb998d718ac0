package transport

import (
	"bufio"
	"log/slog"
)

// LogStderr logs the lines of a process's standard error, with args, until its end. Without
// a log it only reads them, so that the process never blocks.
func LogStderr(p Process, log *slog.Logger, args ...any) {
	lines := bufio.NewReader(p.Stderr())
	for {
		line, _, err := lines.ReadLine() // very long lines come in pieces
		if err != nil {
			return
		}
		if log != nil {
			log.Info(string(line), args...)
		}
	}
}
