package commands

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/decode/convert"
	"github.com/wirectl/wirectl/frame"
)

func encodeCommand(inv *invocation) *cli.Command {
	return &cli.Command{
		Name:      "encode",
		Category:  reading,
		Usage:     "encode NDJSON, or bare payloads, as frames",
		ArgsUsage: "[FILE…]",
		Description: "Restores the bytes that decode -o ndjson read, or frames payloads, one per line.\n\n" +
			"   wirectl decode -o ndjson a.bin | jq -c 'select(.id != 3)' | wirectl encode\n" +
			"   echo '{\"correlation_id\":\"a\",\"prompt\":\"hi\"}' | wirectl encode --protocol rlm",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "framing", Usage: "override the framing of the records or of the protocol: " + framingNames()},
			&cli.StringFlag{Name: "protocol", Usage: "override the protocol that records name: " + protocolNames()},
		}, payloadFlags()...),
		Action: inv.does(runEncode),
	}
}

func runEncode(inv *invocation, c *cli.Context) error {
	names, err := inv.sources()
	if err != nil {
		return err
	}
	stream, err := streamOf(c)
	switch {
	case err != nil:
		return err
	case stream.schema != nil:
		return usagef("a schema has many messages: name the message with --message NAME")
	}
	cfg := convert.EncodeConfig{Framing: stream.framing, Protocol: stream.protocol, Limit: c.Int("limit-bytes")}
	return inv.each(names, func(_ int, name string) error { return encodeOne(inv, c, name, cfg) })
}

func encodeOne(inv *invocation, c *cli.Context, name string, cfg convert.EncodeConfig) error {
	src, err := inv.open(c.Context, name)
	if err != nil {
		return err
	}
	defer src.Close()
	src.Meter(inv.opener().Meter)
	err = convert.Encode(c.Context, src, inv.bytes(), cfg)
	switch {
	case errors.Is(err, convert.ErrNoFraming):
		return usagef("%s: %w: give --framing or --protocol", label(name), err)
	case is[*convert.EncodeError](err):
		return &faultError{fmt.Errorf("%s: %w", label(name), err)}
	default:
		return located(name, frame.Line, err)
	}
}
