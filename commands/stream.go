package commands

import (
	"math"
	"strings"
	"sync"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/protocol/protobuf"
	"github.com/wirectl/wirectl/protocol/protobuf/protofile"
	"github.com/wirectl/wirectl/transport/grpc"
)

// streamFlags are the flags that describe a stream.
func streamFlags() []cli.Flag {
	return append([]cli.Flag{
		&cli.StringFlag{Name: "carrier", Usage: "override the detected carrier: " + carrierNames()},
		&cli.StringFlag{Name: "framing", Usage: "override the detected framing: " + framingNames()},
		&cli.StringFlag{Name: "protocol", Usage: "override the detected protocol: " + protocolNames()},
	}, payloadFlags()...)
}

// payloadFlags are the flags that say how payloads are read.
func payloadFlags() []cli.Flag {
	return []cli.Flag{
		&cli.IntFlag{Name: "limit-bytes", Usage: "refuse payloads over `N` bytes (default: 10000000 for rlm, 16777216 for others)"},
		&cli.StringSliceFlag{Name: "proto", Usage: "decode protobuf with the schema in `FILE`; without --message, the path of a gRPC call selects the message"},
		&cli.StringSliceFlag{Name: "import-path", Aliases: []string{"I"}, Usage: "search `DIR` for imports of --proto files"},
		&cli.StringSliceFlag{Name: "descriptor-set", Usage: "like --proto, for `FILE` with a serialized FileDescriptorSet"},
		&cli.StringFlag{Name: "message", Usage: "decode payloads as the protobuf message `NAME`"},
	}
}

// mapped returns of(item) for each item of a list.
func mapped[T, U any](list []T, of func(T) U) []U {
	var found []U
	for _, item := range list {
		found = append(found, of(item))
	}
	return found
}

// namesOf lists names for people.
func namesOf[T any](list []T, name func(T) string) string {
	return strings.Join(mapped(list, name), ", ")
}

func framingNames() string { return namesOf(frame.Framings(), frame.Framing.Name) }

func protocolNames() string { return namesOf(all.List(), protocol.Protocol.Name) }

func carrierNames() string { return namesOf(carrier.Kinds(), carrier.Kind.String) }

// carrierOf returns the carrier that the flags name; Auto if they do not.
func carrierOf(c *cli.Context) (carrier.Kind, error) {
	name := c.String("carrier")
	if name == "" {
		return carrier.Auto, nil
	}
	k, err := carrier.Named(name)
	return k, asUsage(err)
}

// A streamConfig holds the flags on a stream; nil for a flag that is not given.
type streamConfig struct {
	framing  frame.Framing
	protocol protocol.Protocol
	schema   *protobuf.Methods // given without a message: the path of a call selects it
}

// maxLimit is the largest limit of a payload. Buffers of several times that size must have a
// length in the range of an int.
const maxLimit = math.MaxInt / 16

func streamOf(c *cli.Context) (s streamConfig, err error) {
	if name := c.String("framing"); name != "" {
		if s.framing, err = frame.Named(name); err != nil {
			return s, usagef("%w", err)
		}
	}
	if name := c.String("protocol"); name != "" {
		if s.protocol, err = all.Named(name); err != nil {
			return s, usagef("%w", err)
		}
	}
	if limit := c.Int("limit-bytes"); c.IsSet("limit-bytes") && (limit < 1 || limit > maxLimit) {
		return s, usagef("invalid --limit-bytes %d: want a number of bytes from 1 to %d, or leave it out for the default", limit, maxLimit)
	}
	return s, s.readSchema(c)
}

// readSchema reads the flags that give a schema.
func (s *streamConfig) readSchema(c *cli.Context) error {
	src := protofile.Source{
		Proto:         c.StringSlice("proto"),
		ImportPaths:   c.StringSlice("import-path"),
		DescriptorSet: c.StringSlice("descriptor-set"),
	}
	given := len(src.Proto)+len(src.DescriptorSet) > 0
	switch message := c.String("message"); {
	case !given && message == "" && len(src.ImportPaths) > 0:
		return usagef("--import-path needs --proto FILE")
	case !given && message == "":
		return nil
	case !given:
		return usagef("--message needs a schema: give --proto FILE or --descriptor-set FILE")
	case c.String("protocol") != "" && c.String("protocol") != "protobuf":
		return usagef("--protocol %s has its own schema: leave out --proto and --descriptor-set", c.String("protocol"))
	case message == "":
		files, err := protofile.Files(c.Context, src)
		if err != nil {
			return err
		}
		s.schema, s.protocol = protobuf.NewMethods(files...), nil
		return nil
	default:
		md, files, err := protofile.Load(c.Context, src, message)
		if err != nil {
			return err
		}
		s.protocol = protobuf.Message(md, files...)
		return nil
	}
}

// reflection are the methods of gRPC reflection.
var reflection = sync.OnceValue(func() *protobuf.Methods { return protobuf.NewMethods(grpc.Reflection()...) })

// calls returns the known gRPC calls.
func (s *streamConfig) calls() *all.Calls { return &all.Calls{Known: reflection(), Schema: s.schema} }
