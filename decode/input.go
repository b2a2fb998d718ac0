package decode

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/ndjson"
	"github.com/wirectl/wirectl/capture/pcapng"
	"github.com/wirectl/wirectl/capture/recording"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
	"github.com/wirectl/wirectl/internal/inflate"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/source"
	forms "github.com/wirectl/wirectl/source/all"
)

// An Input is a capture, or else the bytes of one direction of a connection.
type Input struct {
	Capture capture.Reader
	Stream  io.Reader

	head   *source.Head // of a file that was examined; or nil
	stored bool         // the capture is of frames that were taken under whatever limit

	// OfRun means that the connections are the wires of a run, and Joins that they are of several sessions.
	OfRun, Joins bool
}

// Stored is a capture of frames that were taken under whatever limit.
func Stored(r capture.Reader) Input { return Input{Capture: r, stored: true} }

func (in Input) feed(cfg Config) feed {
	if in.Capture != nil {
		return newCaptured(in, cfg)
	}
	return newStream(in.Stream, cfg)
}

// Limited returns the capture with the limit of cfg, if it gives one, applied to payloads.
// As in a stream, a payload over the limit is a fault of the framing, which ends the
// capture or, with resync, becomes a gap. Frames from streams have been limited already.
func (in Input) Limited(cfg Config) capture.Reader {
	if cfg.Limit == 0 || !in.stored {
		return in.Capture
	}
	return &limited{Reader: in.Capture, limit: cfg.Limit, resync: cfg.Resync}
}

// Open recognizes the content of r: a capture if it begins like pcapng, which may be
// compressed, or like NDJSON; else a stream. With a framing that is named, everything is a
// stream but certain pcapng. Open waits for no more bytes than it needs.
func Open(r io.Reader, cfg Config) (Input, error) { return OpenFile(&source.File{Reader: r}, cfg) }

// OpenFile is Open for a file, which may be one of another program.
func OpenFile(f *source.File, cfg Config) (Input, error) {
	if f.Seen == nil {
		f.Seen = new(source.Seen)
	}
	if f.Notice = cfg.Notice; f.Notice == nil {
		f.Notice = func(string) {}
	}
	var head *source.Head
	if cfg.Framing == nil && cfg.Protocol == nil && cfg.Carrier == carrier.Auto {
		growing, _ := f.Reader.(*follower)
		head = readHead(f)
		own := isNDJSON(bufio.NewReaderSize(bytes.NewReader(head.Bytes), sniffSize))
		form := forms.Detect(head)
		if cfg.Field != "" {
			form = forms.WithField
		}
		if form != nil && !own {
			if growing != nil { // other files of the session may grow when this does not
				growing.polls = true
			}
			return openForm(form, f, head, cfg)
		}
	}
	in, err := open(f.Reader, cfg)
	in.head = head
	return in, err
}

func open(r io.Reader, cfg Config) (Input, error) {
	b := bufio.NewReaderSize(&lasting{Reader: r}, sniffSize)
	isCapture := isPcapng(b) && (cfg.Framing == nil || isSection(b))
	if head, _ := b.Peek(1); isCapture && head[0] == '(' { // compressed: the content decides
		var read bytes.Buffer
		isCapture = pcapng.InZstd(io.TeeReader(b, &read))
		b = bufio.NewReaderSize(io.MultiReader(&read, b), sniffSize)
	}
	if isCapture {
		cfg.noticeUnused()
		c, err := pcapng.NewReader(b, max(pcapng.DefaultLimit, pcapng.BlockLimit(cfg.Limit)))
		return Stored(c), err
	}
	if cfg.Framing == nil && isNDJSON(b) {
		cfg.noticeUnused()
		return Stored(ndjson.NewReader(ndjson.Lines(b), max(maxLine, ndjson.LineLimit(cfg.Limit)), cfg.Reframe)), nil
	}
	return openStream(b, cfg), nil
}

// A lasting reader fails for good, so that a failure while its content is recognized is not
// forgotten.
type lasting struct {
	io.Reader
	err error
}

func (l *lasting) Read(p []byte) (n int, err error) {
	if l.err == nil {
		n, l.err = l.Reader.Read(p)
	}
	return n, l.err
}

// noticeUnused reports options that a capture does not need.
func (cfg *Config) noticeUnused() {
	if cfg.Notice == nil {
		return
	}
	if cfg.Framing != nil {
		cfg.Notice(fmt.Sprintf("a capture records its framing: ignoring --framing %s", cfg.Framing.Name()))
	}
	if cfg.Carrier != carrier.Auto {
		cfg.Notice(fmt.Sprintf("a capture holds frames, not their carrier: ignoring --carrier %s", cfg.Carrier))
	}
}

func openStream(b *bufio.Reader, cfg Config) Input {
	if cfg.carriedBy(peek(b)) {
		return Input{Capture: newCarried(b, cfg)}
	}
	return Input{Stream: b}
}

// peek detects the carrier of a stream. It waits for more bytes only if those that have
// come are not enough.
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

// carriedBy reports whether a stream that begins so needs a carrier, and notes the one that
// was detected.
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

// maxLine is the longest line of NDJSON, in bytes, unless a given limit of payloads allows
// more.
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

// isSection reports whether input that begins like a capture goes on like one, so that it
// is no stream of the framing that is named.
func isSection(b *bufio.Reader) bool {
	head, _ := b.Peek(12)
	return pcapng.IsSection(head)
}

// isNDJSON reports whether the first line that is not blank is a record, or begins one that
// is spread over several lines. It waits only for that record, and only as long as the
// input can be one.
func isNDJSON(b *bufio.Reader) bool {
	for n := 1; ; n++ {
		_, err := b.Peek(n)
		n = b.Buffered()
		head, _ := b.Peek(n)
		head = bytes.TrimLeft(head, " \t\r\n")
		line, _, whole := bytes.Cut(head, []byte("\n"))
		seen := membersOf(line)
		if whole && seen.more {
			line, whole = ndjson.FirstValue(head)
			seen = membersOf(line)
		}
		if whole || err != nil || n >= sniffSize || !seen.more {
			return seen.isRecord(line)
		}
	}
}

// members are the keys at the beginning of a line, which tell whether it is a record.
type members struct {
	keys    []string // that records have, as far as they were read
	foreign bool     // it is not an object, or it has a key that records do not have
	more    bool     // more bytes could tell more
}

// membersOf returns the members of a line that may be incomplete.
func membersOf(line []byte) members {
	var s jsonscan.Scanner
	s.Init(line)
	m := members{foreign: len(line) > 0 && line[0] != '{'}
	for ok := s.Object(); ok && !m.foreign && s.Next(); s.Skip() {
		key := string(s.Key())
		m.keys = append(m.keys, key)
		m.foreign = !slices.Contains(ndjson.Keys, key)
	}
	var cut *jsonscan.SyntaxError
	m.more = !m.foreign && (len(line) == 0 || errors.As(s.Err(), &cut) && cut.Truncated)
	return m
}

// isRecord reports whether the line is a record, and no message that has some of its
// keys. A line that cannot be read to its end is if its members describe a frame.
func (m members) isRecord(line []byte) bool {
	if m.foreign {
		return false
	}
	has := func(key string) bool { return slices.Contains(m.keys, key) }
	placed := has("time") || has("conn") || has("dir") || has("offset")
	var r ndjson.Record
	if isRecord, err := r.Parse(line); err == nil {
		return isRecord && placed && has("seq")
	}
	return placed && (has("framing") || has("offset") && has("size") && (has("protocol") || has("kind")))
}

// OpenRecording returns the recording in a folder. It detects what the configuration leaves
// open from the bytes that the controller sent first.
func OpenRecording(fsys fs.FS, cfg Config) (*recording.Reader, error) {
	if cfg.Notice != nil && hasFiles(fsys, "c2s.bin", "s2c.bin") && !hasFiles(fsys, "timing.jsonl") {
		cfg.Notice("no timing.jsonl, so the order is unknown: the controller's frames are read first")
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

// firstOf detects the carrier of a recording.
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

// Compressions are the names of the message encodings that Config.Compression
// takes, as grpc-encoding spells them.
var Compressions = []string{"gzip", "deflate", "zstd", "identity"}

// An inflater undoes the compression of messages, into memory of its own.
type inflater struct {
	encoding string // of messages that do not say theirs
	limit    int
	out      bytes.Buffer
}

// bytes returns data without its compression, valid until the next call. What
// it takes is bounded by the limit, whatever data says.
func (f *inflater) bytes(encoding string, data []byte) ([]byte, error) {
	if encoding == "identity" {
		return data, nil
	}
	r, err := inflate.Open(encoding, bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("the message is flagged as compressed, but is not %s: %w", encoding, err)
	}
	defer r.Close()
	f.out.Reset()
	if _, err := io.CopyN(&f.out, r, int64(f.limit)+1); err == nil {
		return nil, fmt.Errorf("the message is over the limit of %d bytes once it is decompressed", f.limit)
	} else if err != io.EOF {
		return nil, fmt.Errorf("the compressed message is damaged: %w", err)
	}
	return f.out.Bytes(), nil
}
