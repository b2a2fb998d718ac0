package commands

import (
	"regexp"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/convert"
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

// checkCapture refuses a --capture whose name promises another format.
func checkCapture(c *cli.Context) error {
	name := c.String("capture")
	if format, _ := convert.FormatOf(name); format == "" || format == convert.Pcapng {
		return nil
	}
	return usagef("--capture writes pcapng, so %s has the wrong name: end it with .pcapng, and use wirectl convert for other formats", name)
}
