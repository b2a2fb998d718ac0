package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/convert"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/render"
)

func convertCommand(inv *invocation) *cli.Command {
	return &cli.Command{
		Name:      "convert",
		Category:  reading,
		Usage:     "convert a session: pcapng, NDJSON, raw bytes, a trace, HAR or spans",
		ArgsUsage: "IN OUT",
		Description: "Reads what decode reads and writes OUT in the format of its name: .pcapng,\n" +
			".pcapng.zst, .ndjson, .json (a trace for Perfetto), .har, or FOLDER/ (raw bytes).\n" +
			"OUT may be - with --to. If OUT is the URL of an OpenTelemetry collector, or otlp for\n" +
			"the one at localhost:4318, spans are sent there. Known secrets are removed unless\n" +
			"--keep-secrets is set.\n\n" +
			"   wirectl convert --keep-secrets session.pcapng folder/\n" +
			"   wirectl convert --redact name --redact-value '[0-9]{16}' dir session.pcapng\n" +
			"   wirectl convert fixture:latis-session trace.json\n" +
			"   wirectl convert session.pcapng http://localhost:4318",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "to", Usage: "override the format that OUT's name implies: " + convert.FormatNames()},
			&cli.BoolFlag{Name: "zstd", Usage: "with pcapng: compress it"},
			&cli.StringSliceFlag{Name: "redact", Usage: "redact values with the name `KEY`, such as apiKey"},
			&cli.StringSliceFlag{Name: "redact-value", Usage: "redact values that match `REGEX`"},
			&cli.BoolFlag{Name: "keep-secrets", Usage: "keep known secrets, such as tokens and passwords"},
			shareFlag(),
			&cli.BoolFlag{Name: "dry-run", Usage: "with --share: write no OUT, but list what would be replaced"},
			&cli.StringFlag{Name: "dir", Usage: "direction of frames that do not state one: c2u (controller to unit) or u2c"},
			&cli.BoolFlag{Name: "resync", Usage: "skip invalid bytes and resume at the next plausible frame"},
			grpcEncodingFlag(),
			quietFlag(),
		}, inputFlags()...),
		Action: inv.does(runConvert, excludes("keep-secrets", "share"), needs("dry-run", "share")),
	}
}

// A conversion holds the operands and flags of convert.
type conversion struct {
	*invocation
	c         *cli.Context
	in, out   string
	with      []string // more sessions, which are joined with in
	format    convert.Format
	zstd      bool
	cfg       decode.Config
	dir       frame.Dir
	redaction capture.Redaction
	share     *capture.Share // nil without --share
}

func runConvert(inv *invocation, c *cli.Context) error {
	v, err := newConversion(inv, c)
	if err != nil {
		return err
	}
	if v.redaction, err = v.needed(); err != nil {
		return err
	}
	v.cfg.Notice = inv.notice(c, v.in)
	r, done, err := v.open(c.Context)
	if err != nil {
		return err
	}
	defer done()
	if v.redaction.IsEmpty() {
		return v.outcome(v.write(r))
	}
	redacted := convert.Redact(r, v.redaction)
	if c.Bool("dry-run") {
		return v.outcome(cmp.Or(convert.Drain(redacted), v.share.Write(inv.Stdout)))
	}
	err = v.write(redacted)
	switch {
	case v.share != nil:
		v.note(v.share.Summary())
	case redacted.Count > 0:
		v.note("secrets were removed from " + render.Count(redacted.Count, "record") + "; --keep-secrets keeps known secrets")
	}
	return v.outcome(err)
}

// newConversion reads the operands and flags.
func newConversion(inv *invocation, c *cli.Context) (*conversion, error) {
	if c.Bool("dry-run") && len(inv.Operands) == 1 {
		inv.Operands = append(inv.Operands, "nothing.pcapng")
	}
	if len(inv.Operands) != 2 {
		return nil, usagef("convert takes two operands, IN and OUT; got %d", len(inv.Operands))
	}
	v := &conversion{invocation: inv, c: c, in: inv.Operands[0], out: inv.Operands[1]}
	var known bool
	if v.dir, known = frame.ParseDir(c.String("dir")); !known {
		return nil, usagef("invalid --dir %q: want c2u or u2c", c.String("dir"))
	}
	var err error
	if v.format, v.zstd, err = convert.ChooseFormat(v.out, c.String("to"), c.Bool("zstd"), inv.IsTerminal(inv.Stdout)); err != nil {
		return nil, err
	}
	if v.cfg, err = decodeConfig(c); err != nil {
		return nil, err
	}
	v.cfg.Wire = v.format == convert.Pcapng || v.format == convert.Raw
	if v.redaction, err = redactionOf(c, v.cfg, !c.Bool("keep-secrets")); err != nil {
		return nil, err
	}
	say := inv.notice(c, v.in)
	if c.IsSet("redact") { // it is incomplete, so say it even with --quiet
		say = func(text string) { inv.say(v.in, text) }
	}
	if c.Bool("share") {
		v.share, err = v.shared(&v.redaction)
	}
	v.redaction.Blind = capture.BlindSpot(say)
	return v, cmp.Or(err, convert.NotSame(v.in, v.out))
}

func shareFlag() cli.Flag {
	return &cli.BoolFlag{Name: "share", Usage: "also replace e-mail addresses and the names of users and hosts, by names that stay the same: user-1"}
}

// shared learns what is to be replaced in IN, beside what x removes.
func (v *conversion) shared(x *capture.Redaction) (*capture.Share, error) {
	if !convert.IsRereadable(v.in) {
		return nil, usagef("--share reads its input twice: save %s to a file first", label(v.in))
	}
	r, done, err := v.open(v.c.Context)
	if err != nil {
		return nil, err
	}
	defer done()
	return convert.Share(r, x), nil
}

// needed returns the redaction if it would change anything in IN, or if that cannot be known
// before: a session without changes must not be marked as redacted.
func (v *conversion) needed() (capture.Redaction, error) {
	if v.redaction.IsEmpty() || v.share != nil || !convert.IsRereadable(v.in) {
		return v.redaction, nil
	}
	r, done, err := v.open(v.c.Context)
	if err != nil {
		return v.redaction, err
	}
	defer done()
	if !convert.HoldsSecrets(r, v.redaction) {
		return capture.Redaction{}, nil
	}
	return v.redaction, nil
}

// open opens IN, with the protocol of every frame.
func (v *conversion) open(ctx context.Context) (capture.Reader, func(), error) {
	src, err := v.opener().Together(ctx, append([]string{v.in}, v.with...), v.cfg, func(string) bool { return false })
	if err = unopened(v.in, err); err != nil {
		return nil, nil, err
	}
	r, done, err := convert.Open(ctx, label(v.in), src.Input, v.cfg, v.dir, func(framing frame.Framing, err error) error { return located(v.in, framing, err) })
	if err != nil {
		src.Close()
		return nil, nil, err
	}
	return r, func() { done(); src.Close() }, nil
}

// write writes the rest of r to OUT.
func (v *conversion) write(r capture.Reader) error {
	o := convert.Options{Name: label(v.in), Format: v.format, Zstd: v.zstd, Config: v.cfg, Version: buildVersion(), Note: v.note}
	write := func(w io.Writer) error { return o.Write(v.c.Context, w, r) }
	switch {
	case v.format == convert.OTLP:
		return o.Send(v.c.Context, v.out, v.Getenv, r)
	case v.format == convert.Raw:
		return v.writeRaw(r)
	case v.out == "-" && v.format == convert.NDJSON:
		return write(v.ndjson())
	case v.out == "-":
		return convert.Buffered(v.Stdout, write)
	}
	return convert.WriteFile(v.out, write)
}

func (v *conversion) writeRaw(r capture.Reader) error {
	err := convert.WriteRaw(v.out, r)
	if errors.Is(err, convert.ErrNoDir) {
		return fmt.Errorf("%s: %w: give --dir c2u or --dir u2c", label(v.in), err)
	}
	if errors.Is(err, convert.ErrUnwrapped) {
		return fmt.Errorf("%s: %w: give --keep-secrets, or write pcapng or NDJSON", label(v.in), err)
	}
	return err
}

func (v *conversion) note(text string) {
	if say := v.notice(v.c, v.in); say != nil {
		say(text)
	}
}

// outcome classifies the error of a conversion. A capture that is cut was converted up to the
// cut.
func (v *conversion) outcome(err error) error {
	switch {
	case is[*faultError](err): // of a stream
		return err
	case errors.Is(err, frame.ErrTooLarge):
		return located(v.in, nil, err)
	case decode.IsForeign(err):
		return unopened(v.in, err)
	case errors.Is(err, capture.ErrCut) && !is[*capture.Error](err):
		return fmt.Errorf("%s: %w", label(v.in), err)
	case !is[*capture.Error](err):
		return err
	case errors.Is(err, capture.ErrCut):
		v.say(v.in, err.Error())
		return nil
	}
	return &faultError{fmt.Errorf("%s: %w", label(v.in), err)}
}
