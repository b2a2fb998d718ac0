package commands

import (
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/protocol/protobuf"
	"github.com/wirectl/wirectl/protocol/protobuf/protofile"
)

// streamFlags are the flags that say what a stream is.
func streamFlags() []cli.Flag {
	var framings, protocols []string
	for _, f := range frame.Framings() {
		framings = append(framings, f.Name())
	}
	for _, p := range all.List() {
		protocols = append(protocols, p.Name())
	}
	return []cli.Flag{
		&cli.StringFlag{Name: "carrier", Usage: "what carries the frames, rather than to detect it: " + carrierNames()},
		&cli.StringFlag{Name: "framing", Usage: "how frames are delimited, rather than to detect it: " + strings.Join(framings, ", ")},
		&cli.StringFlag{Name: "protocol", Usage: "what payloads mean, rather than to detect it: " + strings.Join(protocols, ", ")},
		&cli.IntFlag{Name: "limit-bytes", Usage: "refuse payloads over `N` bytes (default: 10000000 for rlm, 16777216 for others)"},
		&cli.StringSliceFlag{Name: "proto", Usage: "read protobuf payloads by the schema in `FILE`; needs --message"},
		&cli.StringSliceFlag{Name: "import-path", Aliases: []string{"I"}, Usage: "look for imports of --proto files in `DIR`"},
		&cli.StringSliceFlag{Name: "descriptor-set", Usage: "read protobuf payloads by the schema in `FILE`, a serialized FileDescriptorSet; needs --message"},
		&cli.StringFlag{Name: "message", Usage: "the `NAME` of the protobuf message that payloads are"},
	}
}

func carrierNames() string {
	var names []string
	for _, k := range carrier.Kinds() {
		names = append(names, k.String())
	}
	return strings.Join(names, ", ")
}

// carrierOf returns the carrier that the flags name; Auto if they do not.
func carrierOf(c *cli.Context) (carrier.Kind, error) {
	name := c.String("carrier")
	if name == "" {
		return carrier.Auto, nil
	}
	k, err := carrier.Named(name)
	if err != nil {
		return k, &usageError{err}
	}
	return k, nil
}

// streamOf returns the framing and the protocol that the flags name; nil for
// what they leave open.
func streamOf(c *cli.Context) (framing frame.Framing, p protocol.Protocol, err error) {
	if name := c.String("framing"); name != "" {
		if framing, err = frame.Named(name); err != nil {
			return nil, nil, &usageError{err}
		}
	}
	if name := c.String("protocol"); name != "" {
		if p, err = all.Named(name); err != nil {
			return nil, nil, &usageError{err}
		}
	}
	if c.Int("limit-bytes") < 0 {
		return nil, nil, usagef("--limit-bytes is a number of bytes, and not %d", c.Int("limit-bytes"))
	}
	schema, err := schemaOf(c)
	if schema != nil {
		p = schema
	}
	return framing, p, err
}

// schemaOf returns the protocol of payloads whose schema is given by flags;
// nil if none is.
func schemaOf(c *cli.Context) (protocol.Protocol, error) {
	src := protofile.Source{
		Proto:         c.StringSlice("proto"),
		ImportPaths:   c.StringSlice("import-path"),
		DescriptorSet: c.StringSlice("descriptor-set"),
	}
	given := len(src.Proto)+len(src.DescriptorSet) > 0
	switch {
	case !given && c.String("message") == "":
		return nil, nil
	case !given:
		return nil, usagef("--message needs a schema: give --proto FILE or --descriptor-set FILE")
	case c.String("message") == "":
		return nil, usagef("a schema has many messages: say with --message NAME which one the payloads are")
	case c.String("protocol") != "" && c.String("protocol") != "protobuf":
		return nil, usagef("a schema is given, and --protocol %s has its own", c.String("protocol"))
	}
	md, err := protofile.Load(c.Context, src, c.String("message"))
	if err != nil {
		return nil, err
	}
	return protobuf.Message(md), nil
}
