package commands

import (
	"fmt"
	"regexp"
	"sync/atomic"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/internal/cmdline"
)

// redactionOf reads what is to be taken out of a session, beside what is known to
// be secret if that is to go too.
func redactionOf(c *cli.Context, cfg decode.Config, secrets bool) (x capture.Redaction, err error) {
	if secrets {
		x = capture.Secrets()
	}
	x.Protocol, x.Calls = cfg.Protocol, cfg.Calls
	x.Keys = append(x.Keys, cmdline.ListOf(c, "redact")...)
	for _, expr := range c.StringSlice("redact-value") {
		value, err := regexp.Compile(expr)
		if err != nil {
			return x, usagef("--redact-value: %w", err)
		}
		x.Values = append(x.Values, value)
	}
	return x, nil
}

// A blindSpot warns, once, that a redaction cannot look for names. It is a note
// where only the usual names are looked for, and is said in any case where some
// were given.
type blindSpot struct {
	say  func(text string) // nil says nothing
	said atomic.Bool
}

func (b *blindSpot) warn(r *capture.Record) {
	if b.say == nil || b.said.Swap(true) {
		return
	}
	what := "the bytes of a frame"
	if r.Seq > 0 {
		what = fmt.Sprintf("the bytes of frame %d", r.Seq)
	}
	b.say(what + " could not be searched for names, as those of secrets, because no schema describes them, and so maybe of others:" +
		" give --proto FILE if they are protobuf, or say with --redact-value what secrets look like")
}
