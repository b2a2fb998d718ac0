// Package convert converts sessions: it adds what a format leaves to its reader, removes
// secrets, and writes captures, recordings, traces and NDJSON.
package convert

import (
	"context"
	"strings"

	"github.com/wirectl/wirectl/capture"
)

// A Format is a form that a session can be written in.
type Format string

const (
	Pcapng Format = "pcapng" // a capture
	NDJSON Format = "ndjson" // a record a line
	Raw    Format = "raw"    // a folder, with a file for each direction
	Trace  Format = "trace"  // trace events, as Perfetto and Chrome show them
	HAR    Format = "har"    // HTTP archive 1.2
	OTLP   Format = "otlp"   // spans, sent to an OpenTelemetry collector
)

// Formats are all of them.
var Formats = []Format{Pcapng, NDJSON, Raw, Trace, HAR, OTLP}

// suffixes say which names are of which format.
var suffixes = []struct {
	suffix string
	format Format
	zstd   bool
}{
	{".pcapng", Pcapng, false},
	{".pcapng.zst", Pcapng, true},
	{".ndjson", NDJSON, false},
	{".jsonl", NDJSON, false},
	{".json", Trace, false},
	{".har", HAR, false},
	{"/", Raw, false},
}

// FormatOf returns the format that the name of a file tells, and whether it is
// to be compressed; "" if the name tells none.
func FormatOf(name string) (f Format, zstd bool) {
	if IsCollector(name) {
		return OTLP, false
	}
	for _, s := range suffixes {
		if strings.HasSuffix(strings.ToLower(name), s.suffix) {
			return s.format, s.zstd
		}
	}
	return "", false
}

// Until returns r, which ends with the cause of ctx's end when that comes first.
func Until(ctx context.Context, r capture.Reader) capture.Reader { return until{r, ctx} }

type until struct {
	capture.Reader
	ctx context.Context
}

func (u until) Next(rec *capture.Record) error {
	if u.ctx.Err() != nil {
		return context.Cause(u.ctx)
	}
	return u.Reader.Next(rec)
}
