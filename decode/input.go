package decode

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/ndjson"
	"github.com/wirectl/wirectl/capture/pcapng"
	"github.com/wirectl/wirectl/capture/recording"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
)

// An Input is what to decode: a capture, or else the bytes of one direction of
// a connection.
type Input struct {
	Capture capture.Reader
	Stream  io.Reader

	stored bool // the capture is of frames that were taken under whatever limit
}

func (in Input) feed(cfg Config) feed {
	if in.Capture != nil {
		return newCaptured(in, cfg)
	}
	return newStream(in.Stream, cfg)
}

// Limited returns the capture with what is over the limit of payloads that cfg gives, if
// it gives one, read as it is in a stream: that is a fault of the framing, which ends it
// or, to resync, is passed over by gaps. What is taken out of streams has been limited.
func (in Input) Limited(cfg Config) capture.Reader {
	if cfg.Limit == 0 || !in.stored {
		return in.Capture
	}
	return &limited{Reader: in.Capture, limit: cfg.Limit, resync: cfg.Resync}
}

// Open returns what r holds: a capture if it begins as one in pcapng does,
// which may be compressed, or one in NDJSON; else a stream. A framing that is
// named makes a stream of all but what is sure to be pcapng. It waits for no more
// bytes than it needs to tell.
func Open(r io.Reader, cfg Config) (Input, error) {
	b := bufio.NewReaderSize(r, sniffSize)
	isCapture := isPcapng(b) && (cfg.Framing == nil || isSection(b))
	if head, _ := b.Peek(1); isCapture && head[0] == '(' { // compressed: what it holds decides
		var read bytes.Buffer
		isCapture = pcapng.InZstd(io.TeeReader(b, &read))
		b = bufio.NewReaderSize(io.MultiReader(&read, b), sniffSize)
	}
	switch {
	case isCapture:
		cfg.noticeUnused()
		c, err := pcapng.NewReader(b, max(pcapng.DefaultLimit, pcapng.BlockLimit(cfg.Limit)))
		return Input{Capture: c, stored: true}, err
	case isNDJSON(b) && cfg.Framing == nil:
		cfg.noticeUnused()
		return Input{Capture: ndjson.NewReader(b, max(maxLine, ndjson.LineLimit(cfg.Limit)), cfg.Reframe), stored: true}, nil
	default:
		return openStream(b, cfg), nil
	}
}

// noticeUnused says what of a capture need not be named.
func (cfg *Config) noticeUnused() {
	if cfg.Notice == nil {
		return
	}
	if cfg.Framing != nil {
		cfg.Notice(fmt.Sprintf("a capture, which knows how its frames are delimited: --framing %s is not used", cfg.Framing.Name()))
	}
	if cfg.Carrier != carrier.Auto {
		cfg.Notice(fmt.Sprintf("a capture, whose frames were taken out of what carried them: --carrier %s is not used", cfg.Carrier))
	}
}

func openStream(b *bufio.Reader, cfg Config) Input {
	if cfg.carriedBy(peek(b)) {
		return Input{Capture: newCarried(b, cfg)}
	}
	return Input{Stream: b}
}

// peek returns what tells the carrier of a stream. It waits for more bytes only
// where those that have come do not tell.
func peek(b *bufio.Reader) carrier.Guess {
	for n := 1; ; n++ {
		_, err := b.Peek(n)
		n = b.Buffered()
		head, _ := b.Peek(n)
		if g := carrier.Detect(head, err != nil); !g.More || err != nil {
			return g
		}
	}
}

// carriedBy reports whether a stream that begins so is to be read by a carrier,
// and says what it was taken for.
func (cfg *Config) carriedBy(g carrier.Guess) bool {
	switch {
	case cfg.Carrier == carrier.Auto && cfg.Framing != nil:
		return false
	case cfg.Carrier != carrier.Auto:
		g.Kind = cfg.Carrier
	case g.Kind != carrier.Plain && g.Kind != carrier.Auto && cfg.Notice != nil:
		cfg.Notice(fmt.Sprintf("%s: %s", g.Kind, g.Why))
	}
	return g.Kind != carrier.Plain && g.Kind != carrier.Auto
}

// maxLine is the longest line of NDJSON, in bytes, unless a limit of payloads that
// is given says more.
const maxLine = 64 << 20

// sniffSize is how many bytes of an input are looked at: as many as a carrier may take
// to be known.
const sniffSize = carrier.HeadSize

func isPcapng(b *bufio.Reader) bool {
	for n := 1; n <= 4; n++ {
		head, err := b.Peek(n)
		if err != nil || head[0] != '\n' && head[0] != '(' {
			return false
		}
		if n == 4 {
			return pcapng.Is(head)
		}
	}
	return false
}

// isSection reports whether what begins as a capture goes on as one, and is no
// stream of a framing that is named.
func isSection(b *bufio.Reader) bool {
	head, _ := b.Peek(12)
	return pcapng.IsSection(head)
}

// recordHead matches how our records begin, and hardly any message does.
var recordHead = regexp.MustCompile(`^\{"seq":\d+,"(time|conn|dir|offset)":`)

// isNDJSON reports whether the first line is a record. It waits for no more
// than that line.
func isNDJSON(b *bufio.Reader) bool { return beginsRecord(b) && isRecord(firstLine(b)) }

// recordBody matches what the records that we write have ahead of the bytes.
var recordBody = regexp.MustCompile(`"framing":|"offset":\d+,"size":\d+,"(protocol|kind)":`)

// isRecord reports whether a line, of which the end may be missing, is a record.
// One that cannot be read to its end is if it goes on as ours do.
func isRecord(line []byte) bool {
	var r ndjson.Record
	if isRecord, err := r.Parse(line); err == nil {
		return isRecord
	}
	return recordBody.Match(line)
}

// firstLine returns the first line, or as much of it as is looked at.
func firstLine(b *bufio.Reader) []byte {
	for n := 1; n <= sniffSize; n++ {
		if head, err := b.Peek(n); err != nil || head[n-1] == '\n' {
			return head
		}
	}
	head, _ := b.Peek(sniffSize)
	return head
}

// beginsRecord reports whether the first two keys are those of a record.
func beginsRecord(b *bufio.Reader) bool {
	const begin = `{"seq":`
	for n := 1; n <= sniffSize; n++ {
		head, err := b.Peek(n)
		if err != nil || !bytes.HasPrefix(head, []byte(begin[:min(n, len(begin))])) || head[n-1] == '\n' {
			return false
		}
		if head[n-1] == ':' && n > len(begin) {
			return recordHead.Match(head)
		}
	}
	return false
}

// OpenRecording returns the recording that a folder holds. What the
// configuration leaves open is detected from what the controller sent first.
func OpenRecording(fsys fs.FS, cfg Config) (*recording.Reader, error) {
	if cfg.Notice != nil && hasFiles(fsys, "c2s.bin", "s2c.bin") && !hasFiles(fsys, "timing.jsonl") {
		cfg.Notice("without a timing.jsonl it is not known what came before what: all that the controller sent is taken first")
	}
	if cfg.carriedBy(firstOf(fsys)) {
		return recording.OpenCarried(fsys, cfg.carrier())
	}
	s, err := detectRecording(fsys, cfg)
	if err != nil {
		return nil, err
	}
	return recording.Open(fsys, s.framing, func(scanner *frame.Scanner) { s.adjust(scanner, s.protocol) })
}

func hasFiles(fsys fs.FS, names ...string) bool {
	for _, name := range names {
		if _, err := fs.Stat(fsys, name); err != nil {
			return false
		}
	}
	return true
}

// firstOf returns what tells the carrier of a recording.
func firstOf(fsys fs.FS) carrier.Guess {
	for _, name := range []string{"c2s.bin", "s2c.bin"} {
		f, err := fsys.Open(name)
		if err != nil {
			continue
		}
		g := peek(bufio.NewReaderSize(f, sniffSize))
		f.Close()
		if g.Kind != carrier.Auto && g.Kind != carrier.Plain {
			return g
		}
	}
	return carrier.Guess{Kind: carrier.Plain}
}

// detectRecording returns one of the streams of a recording, with its framing
// and its protocol detected.
func detectRecording(fsys fs.FS, cfg Config) (*stream, error) {
	var failed error
	for _, name := range []string{"c2s.bin", "s2c.bin"} {
		f, err := fsys.Open(name)
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		s := newStream(f, cfg)
		s.detect()
		f.Close()
		if s.framing != nil && s.framing != frame.Unknown {
			return s, nil
		}
		failed = cmp.Or(s.failed, frame.ErrUnknown)
	}
	return nil, failed
}
