package decode

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/render"
)

// about is the advice for each kind of content that a stream may turn out to have.
var about = [1 << 8]string{
	frame.HTTPResponse:    "an HTTP peer answered: leave out --framing to read what HTTP carries",
	frame.HTTPRequest:     "an HTTP client is talking: leave out --framing to read what HTTP carries",
	frame.HTTP2:           "gRPC frames are inside HTTP/2 streams: leave out --framing to read them",
	frame.GRPCWebTrailers: "HTTP trailers end the stream of a gRPC-Web server: cut them off, or skip them with --framing grpc --resync",
	frame.SSHBanner:       "the bytes were recorded outside ssh: record what ssh carries instead",
	frame.ShellBanner:     "a login shell greets before the program speaks: silence it",
	frame.ShellError:      "the command did not start: run it by hand and read what it says",
	frame.HTML:            "a web server answered: check the address",
	frame.UTF16:           "it was written by a shell that redirects text as UTF-16: write the bytes as they are, or convert them to UTF-8",
	frame.BOM:             "remove the first three bytes",
	frame.Gzip:            "decompress it first (gzip -dc FILE | wirectl decode)",
	frame.Zstd:            "decompress it first (zstd -dc FILE | wirectl decode)",
	frame.Zip:             "take the file out of it first (unzip -p FILE | wirectl decode)",
	frame.Pcap:            ofPackets,
	frame.SQLite:          "take the messages out of it first (sqlite3 FILE 'SELECT …' | wirectl decode)",
	frame.TLS:             "it is encrypted: record it inside of TLS",
	frame.CRLF:            "it was written in text mode: write it as binary",
	frame.HeaderFrame:     "try --framing header",
	frame.DecimalLength:   "no framing writes lengths like this: strip them and put each payload on a line (--framing line)",
	frame.JSONText:        "the stream may be newline-delimited (try --framing line)",
	frame.ServerSentEvent: "the head of the HTTP answer is missing: take the data out of the events (sed -n 's/^data: *//p' FILE | wirectl decode)",
	frame.StackTrace:      "the program failed: its standard error does not belong on its standard output",
	frame.LogLine:         "logs belong on standard error",
	frame.Terminal:        "a terminal was recorded: run the program without one (ssh -T)",
	frame.PlainText:       "the stream may be newline-delimited (try --framing line)",
}

// ofPackets is the advice for a capture of packets.
const ofPackets = "take the bytes of one direction out of it first (tshark -r FILE -Y tcp.dstport==PORT -T fields -e tcp.payload | xxd -r -p | wirectl decode)"

// skipping says how --resync helps, for the kinds that it helps with.
var skipping = map[frame.Accident]string{
	frame.ShellBanner: ", or skip it with --resync",
	frame.BOM:         ", or try --resync",
	frame.StackTrace:  "; --resync skips it",
	frame.LogLine:     "; --resync skips them",
	frame.PlainText:   ", or begin with text (try --resync)",
}

// advised returns the framing that an advice names, if it names one: it is no help to users
// of that framing.
func advised(a frame.Accident) frame.Framing {
	switch a {
	case frame.HeaderFrame:
		return frame.Header
	case frame.DecimalLength, frame.JSONText, frame.PlainText:
		return frame.Line
	default:
		return nil
	}
}

// Advise adds the advice to the error of a stream.
func Advise(err error, framing frame.Framing) error {
	return withHint(err, hintFor(err, framing))
}

func withHint(err error, hint string) error {
	if hint == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, hint)
}

func hintFor(err error, framing frame.Framing) string {
	var fe *frame.Error
	switch {
	case errors.Is(err, capture.ErrTooLarge):
		return "raise the limit with --limit-bytes"
	case errors.Is(err, capture.ErrPackets):
		return ofPackets
	case !errors.As(err, &fe):
		return ""
	}
	if errors.Is(err, frame.ErrUnknown) && isHTTP(fe.Accident) {
		return "the recording ends inside the client's connection preface"
	}
	if isStrayText(fe, framing) {
		return skipText(fe.Offset)
	}
	if hint := adviceOn(fe.Accident, fe.Offset, framing); hint != "" {
		if isHTTP(fe.Accident) && fe.Offset > 0 {
			return hint + ", or skip it with --resync"
		}
		return hint + skipping[fe.Accident]
	}
	switch {
	case errors.Is(err, frame.ErrUnknown):
		return "name it with --framing; wirectl list shows them"
	case framing == nil && errors.Is(err, frame.ErrTooLarge): // in a capture, which says how it is framed
		return "raise the limit with --limit-bytes, or skip the frame with --resync"
	case framing == nil:
		return ""
	case errors.Is(err, frame.ErrTooLarge):
		return "raise the limit with --limit-bytes, or check that the framing really is " + framing.Name()
	case errors.Is(err, frame.ErrMalformed):
		return "check that the framing really is " + framing.Name() + ", or skip the fault with --resync"
	case errors.Is(err, frame.ErrTruncated):
		return "the recording was cut, or the framing is not " + framing.Name()
	}
	return ""
}

// isStrayText reports whether text that no framing of lines would hold is in the place of a
// frame: in the place of a length, or after frames of a framing that no text has by chance.
func isStrayText(fe *frame.Error, framing frame.Framing) bool {
	if fe.Accident == frame.NoAccident {
		return fe.TextLength() != ""
	}
	return fe.Offset > 0 && advised(fe.Accident) == frame.Line &&
		(framing == frame.Len32 || framing == frame.Header || framing == frame.GRPC)
}

// skipText is the hint for text in the place of a frame.
func skipText(offset int64) string {
	if offset == 0 {
		return "skip it with --resync, or try --framing line"
	}
	return "skip it with --resync"
}

// AdvisePassed adds the advice to the error of a fault that decoding has passed.
func AdvisePassed(err error, framing frame.Framing) error {
	var fe *frame.Error
	var fault *Fault
	hint := ""
	switch {
	case errors.As(err, &fe) && fe.Accident != frame.PlainText && !isStrayText(fe, framing): // between frames that were read
		hint = adviceOn(fe.Accident, fe.Offset, framing)
	case errors.As(err, &fault):
		hint = adviceInside(fault)
	}
	return withHint(err, hint)
}

// adviceInside returns the advice for a frame that holds something other than a message. In
// most framings no text is a frame by chance, so the framing is right then.
func adviceInside(f *Fault) string {
	switch a := f.Accident(); {
	case f.Framing == frame.Line:
		return cmp.Or(adviceOn(a, f.Offset, f.Framing), onLine(f))
	case f.Framing == frame.Varint:
		return adviceOn(a, f.Offset, f.Framing)
	case a == frame.NoAccident:
		return ""
	case a == frame.ShellError, a == frame.HTML, a == frame.StackTrace, a == frame.LogLine:
		return about[a] // it is about the writer
	default:
		return "the frame is complete, but holds no message: check its sender, or name another --protocol"
	}
}

// onLine returns the advice for a line that holds text, or the first part of JSON.
func onLine(f *Fault) string {
	var syntax *jsonscan.SyntaxError
	switch {
	case f.Accident() == frame.PlainText:
		return "non-protocol output belongs on standard error"
	case errors.As(f.Err, &syntax) && syntax.Truncated:
		return "if it continues on the next line, put each message on one line (jq -c . FILE | wirectl decode)"
	}
	return ""
}

// adviceOn returns the advice for an accident at an offset in a stream of that framing.
func adviceOn(a frame.Accident, offset int64, framing frame.Framing) string {
	if isHTTP(a) && offset > 0 {
		return "the rest is HTTP: look for a proxy in between"
	}
	if f := advised(a); f != nil && f == framing {
		return ""
	}
	return about[a]
}

func isHTTP(a frame.Accident) bool {
	return a == frame.HTTPResponse || a == frame.HTTPRequest || a == frame.HTTP2
}

// Remarks that are kept, so as not to repeat them.
const (
	maxRemarks = 256
	maxRemark  = 1 << 10 // bytes of one
)

// Remarks returns a function that tells the notes of a capture, each before the frame of
// that number. Of the notes of a tap to its viewers, it tells only how many frames they
// lost. It tells a note about connections once, even if it is about several.
func Remarks(tell func(seq int64, text string)) func(seq int64, rec *capture.Record) {
	told := map[string]bool{}
	return func(seq int64, rec *capture.Record) {
		if _, ofRun := capture.ParsePlace(rec); ofRun {
			return // for views
		}
		text := string(rec.Text)
		if n, ofTap := tap.ParseNote(rec); ofTap && n.Tap == tap.Drift {
			text = n.Text()
		} else if b, ofMerge := capture.ParseBetween(rec); ofMerge {
			text = b.Between + ": " + b.Text
		} else if ofTap {
			if n.Lost == 0 {
				return
			}
			text = render.Count(n.Lost, "frame") + " went by unseen"
		} else if rec.Dir == frame.DirUnknown {
			if told[text] {
				return
			}
			if len(told) < maxRemarks && len(text) <= maxRemark {
				told[text] = true
			}
		}
		tell(seq, text)
	}
}
