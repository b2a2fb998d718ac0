package convert

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/track"
	"github.com/wirectl/wirectl/internal/render"
)

// Options say how a session is to be written to one file.
type Options struct {
	Name    string // of the session, for messages
	Format  Format
	Zstd    bool
	Config  decode.Config
	Version string            // of the program that writes
	Note    func(text string) // is told what the file lacks
}

// Write writes what is left of r to w. A folder is for [WriteRaw].
func (o *Options) Write(ctx context.Context, w io.Writer, r capture.Reader) error {
	switch {
	case o.Format == NDJSON:
		return o.writeNDJSON(ctx, w, r)
	case o.Format == Trace:
		return o.writeTrace(ctx, w, r)
	case o.Format == HAR:
		if err := WriteHAR(w, r, o.Version); err != nil {
			return fmt.Errorf("%s: %w", o.Name, err)
		}
		return nil
	case o.Zstd:
		return WriteZstd(w, r, o.Config.Protocol)
	}
	return WritePcapng(w, r, o.Config.Protocol)
}

// writeNDJSON writes frames as decode does, and the notes between them.
func (o *Options) writeNDJSON(ctx context.Context, w io.Writer, r capture.Reader) error {
	notes := KeepNotes(r)
	view := func() decode.View {
		record := decode.NDJSON()
		return func(dst []byte, it *decode.Item) ([]byte, error) {
			return record(notes.AppendTo(dst, it.Seq), it)
		}
	}
	_, err := decode.Run(ctx, decode.Input{Capture: notes}, w, o.Config, view)
	return errors.Join(err, notes.WriteRest(w))
}

// writeTrace follows the session as lint and stats do, and draws it.
func (o *Options) writeTrace(ctx context.Context, w io.Writer, r capture.Reader) error {
	var ts track.Trackers
	in := decode.Input{Capture: r}
	cfg := o.Config
	cfg.Workers = 1
	f := track.NewFollower(&ts, in, cfg)
	cfg.Event = f.Event
	var line Timeline
	frames := 0
	view := func(dst []byte, it *decode.Item) ([]byte, error) {
		if line.Origin.IsZero() {
			line.Origin = it.First
		}
		dst, err := f.View(dst, it)
		if frames++; frames%EveryFrames == 0 {
			for _, t := range ts.List {
				dst = line.Append(dst, t.Tracker)
			}
		}
		return dst, err
	}
	_, err := decode.Run(ctx, in, w, cfg, func() decode.View { return view })
	switch {
	case err == nil:
		f.End()
	case errors.Is(err, capture.ErrCut):
		f.Release()
	default:
		return err
	}
	if !ts.Timed {
		return fmt.Errorf("%s has no frame times, which a trace needs: convert a capture, or a recording with its timing.jsonl", o.Name)
	}
	return errors.Join(err, o.endTrace(w, &line, ts.List, f.Last))
}

// endTrace writes the rest of a trace, and says if exchanges are missing.
func (o *Options) endTrace(w io.Writer, line *Timeline, list []track.Tracker, end time.Time) error {
	var dst []byte
	var opened int64
	for _, t := range list {
		dst = line.AppendRest(dst, t.Tracker, end)
		opened += t.Stats().Opened
	}
	if missing := opened - line.Seen; missing > 0 {
		o.Note("the trace lacks " + render.Count(missing, "exchange") + ": too many ended at once")
	}
	_, err := w.Write(line.AppendEnd(dst))
	return err
}

// Save writes frames in the format that the name of the file tells. A name without an
// extension, or of a folder that exists, is the folder of a recording.
func Save(name string, r capture.Reader) error {
	format, zstd := FormatOf(name)
	info, err := os.Stat(name)
	isFolder := format == Raw || err == nil && info.IsDir() || format == "" && filepath.Ext(name) == ""
	switch {
	case isFolder:
		return WriteRaw(name, r)
	case format == NDJSON, format == Pcapng:
		o := Options{Format: format, Zstd: zstd, Config: decode.Config{Workers: 1}}
		return WriteFile(name, func(w io.Writer) error { return o.Write(context.Background(), w, r) })
	}
	return fmt.Errorf("%s: the name ends in none of .ndjson, .jsonl, .pcapng and .pcapng.zst; a folder has no extension", name)
}
