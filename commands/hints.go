package commands

import (
	"errors"
	"fmt"

	"github.com/wirectl/wirectl/frame"
)

// advice says, for what a stream turned out to be, what to try next.
var advice = [1 << 8]string{
	frame.HTTPResponse:    "an HTTP peer answered: leave out --framing, and what HTTP carries is read",
	frame.HTTPRequest:     "an HTTP client is talking: leave out --framing, and what HTTP carries is read",
	frame.HTTP2:           "gRPC frames are inside HTTP/2 streams: leave out --framing, and they are read",
	frame.GRPCWebTrailers: "HTTP trailers end the stream of a gRPC-Web server: cut them off, or skip them with --framing grpc --resync",
	frame.SSHBanner:       "the bytes were recorded outside ssh: record what ssh carries instead",
	frame.ShellBanner:     "a login shell greets before the program speaks: silence it, or skip it with --resync",
	frame.ShellError:      "the command did not start: run it by hand and read what it says",
	frame.HTML:            "a web server answered: check the address",
	frame.UTF16:           "it was written by a shell that redirects text as UTF-16: write the bytes as they are, or convert them to UTF-8",
	frame.BOM:             "remove the first three bytes, or try --resync",
	frame.Gzip:            "decompress it first (gzip -dc FILE | wirectl decode)",
	frame.Zstd:            "decompress it first (zstd -dc FILE | wirectl decode)",
	frame.Pcap:            "extract the stream's payload from it first",
	frame.TLS:             "it is encrypted: record it inside of TLS",
	frame.CRLF:            "it was written in text mode: write it as binary",
	frame.HeaderFrame:     "try --framing header",
	frame.DecimalLength:   "no framing writes lengths so: strip them and give one payload a line (--framing line)",
	frame.JSONText:        "the stream may be newline-delimited (try --framing line)",
	frame.StackTrace:      "the program failed: its standard error does not belong on its standard output",
	frame.LogLine:         "logs belong on standard error; --resync skips them",
	frame.Terminal:        "a terminal was recorded: run the program without one (ssh -T)",
	frame.PlainText:       "the stream may be newline-delimited (try --framing line), or begin with text (try --resync)",
}

// advised returns the framing that an advice is about, if it is about one: it helps
// nobody who uses that.
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

// withHint adds to the error of a stream what to try next.
func withHint(err error, framing frame.Framing) error {
	hint := hintFor(err, framing)
	if hint == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, hint)
}

func hintFor(err error, framing frame.Framing) string {
	var fe *frame.Error
	if !errors.As(err, &fe) {
		return ""
	}
	switch fe.Accident {
	case frame.HTTPResponse, frame.HTTPRequest, frame.HTTP2:
		switch {
		case errors.Is(err, frame.ErrUnknown):
			return "the recording ends inside the preface with which a client begins"
		case fe.Offset > 0:
			return "HTTP is spoken from here on: look for a proxy on the way, or skip it with --resync"
		}
	}
	if about := advised(fe.Accident); about == nil || about != framing {
		if hint := advice[fe.Accident]; hint != "" {
			return hint
		}
	}
	switch {
	case errors.Is(err, frame.ErrUnknown):
		return "name it with --framing; wirectl list has them all"
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
