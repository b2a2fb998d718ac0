package commands

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/source"
	"github.com/wirectl/wirectl/decode/track"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
	"github.com/wirectl/wirectl/hub"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/protocol/protobuf"
	"github.com/wirectl/wirectl/transport/grpc"
)

// sources returns the operands that name inputs, with the sessions in folders: standard input if there
// are none. What files repeat of each other counts once.
func (inv *invocation) sources() ([]string, error) {
	var names []string
	for _, name := range inv.Operands {
		if sessions := source.Sessions(name); sessions != nil {
			names = append(names, sessions...)
		} else {
			names = append(names, name)
		}
	}
	if len(names) > 1 {
		inv.seen = new(source.Seen)
	}
	if len(names) > 0 {
		return names, nil
	}
	if inv.IsTerminal(inv.Stdin) {
		return nil, usagef("nothing to read: name a FILE, a FOLDER of transcripts, claude:latest, run:latest, a fixture:NAME, a tap:NAME or a hub:SESSION, or redirect standard input")
	}
	return []string{"-"}, nil
}

// opener returns the opener of inputs. It shows a progress bar if no other output disturbs that.
func (inv *invocation) opener() *source.Opener {
	o := &source.Opener{Stdin: inv.Stdin, Getenv: inv.Getenv, Waiting: inv.say, Hub: hub.Source(inv.Getenv), Seen: inv.seen, Filter: inv.Filter}
	if inv.IsTerminal(inv.Stderr) && (inv.reportsAtEnd || !inv.IsTerminal(inv.Stdout)) {
		o.Meter = inv.Stderr
	}
	return o
}

// open opens an input of bytes.
func (inv *invocation) open(ctx context.Context, name string) (*source.Source, error) {
	src, err := inv.opener().Open(ctx, name)
	return src, misnamed(err)
}

// openSession opens an input of frames.
func (inv *invocation) openSession(ctx context.Context, name string, cfg decode.Config, follow bool) (*source.Session, error) {
	src, err := inv.opener().Session(ctx, name, cfg, follow)
	return src, unopened(name, err)
}

// oneWire is an error for a run, whose wires are played one at a time.
func oneWire(inv *invocation, name string) error {
	folder, err := inv.opener().RunFolder(name)
	if err != nil || folder == "" {
		return misnamed(err)
	}
	wires := source.Wires(folder)
	if len(wires) == 0 {
		return usagef("%s has no wire to play", label(name))
	}
	return usagef("%s is a run, and one wire is played at a time: name one, such as %s, or its agent: wirectl replay %[1]s -- AGENT", label(name), strings.Join(wires[:min(3, len(wires))], ", "))
}

// misnamed makes an error a usage error if the command line is to blame.
func misnamed(err error) error {
	if errors.Is(err, source.ErrFolder) {
		return &source.Error{Err: usagef("%w", err)}
	}
	return err
}

// unopened adds the input to an error, and marks a fault of the input.
func unopened(name string, err error) error {
	if err == nil || is[*source.Error](err) {
		return misnamed(err)
	}
	if errors.Is(err, decode.ErrNoBytes) {
		return &source.Error{Err: usagef("%s: %w: wirectl decode and wirectl calls read it", label(name), err)}
	}
	if fault := located(name, nil, err); fault != err {
		return fault
	}
	return &source.Error{Err: fmt.Errorf("%s: %w", label(name), err)}
}

// label is the name of an input in messages.
func label(name string) string { return source.Label(name) }

// each calls f for every input in turn. It reports an input that cannot be read or has a fault at
// once, goes on with the others, and returns an error at the end. It stops at any other error.
func (inv *invocation) each(names []string, f func(i int, name string) error) error {
	unread, faulty := 0, 0
	for i, name := range names {
		err := f(i, name)
		switch {
		case err == nil:
			continue
		case !isOfInput(err), len(names) == 1:
			return err
		case isUnread(err):
			unread++
		case i == len(names)-1 && unread == 0:
			return err
		default:
			faulty++
		}
		report(inv.Stderr, err)
	}
	err := fmt.Errorf("%s of %d could not be read to the end", render.Count(int64(unread+faulty), "input"), len(names))
	switch {
	case unread > 0:
		return &source.Error{Err: err}
	case faulty > 0:
		return &faultError{err}
	}
	return nil
}

// isOfInput reports whether an error is about one input, and not about the whole run.
func isOfInput(err error) bool {
	return isUnread(err) || is[*faultError](err)
}

// isUnread reports whether an input could not be read, or not to its end, for a reason outside of
// its content.
func isUnread(err error) bool {
	return is[*source.Error](err) && !errors.Is(err, context.Canceled)
}

// streamFlags are the flags that describe a stream.
func streamFlags() []cli.Flag {
	return append([]cli.Flag{
		&cli.StringFlag{Name: "carrier", Usage: "override the detected carrier: " + carrierNames()},
		&cli.StringFlag{Name: "framing", Usage: "override the detected framing: " + framingNames()},
		&cli.StringFlag{Name: "protocol", Usage: "override the detected protocol: " + protocolNames()},
	}, payloadFlags()...)
}

// inputFlags are the flags of commands that read sessions.
func inputFlags() []cli.Flag {
	return append([]cli.Flag{
		&cli.StringFlag{Name: "keylog", Usage: "decrypt TLS in a capture of packets with the keys in `FILE` (SSLKEYLOGFILE); it takes tshark"},
		&cli.StringFlag{Name: "field", Usage: "read messages from the member `NAME` of the lines of a log (default: the member that holds JSON-RPC)"},
	}, streamFlags()...)
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
	src := protobuf.SchemaSource{
		Proto:         c.StringSlice("proto"),
		ImportPaths:   c.StringSlice("import-path"),
		DescriptorSet: c.StringSlice("descriptor-set"),
	}
	switch message := c.String("message"); {
	case len(src.Proto)+len(src.DescriptorSet) == 0:
		return nil
	case c.String("protocol") != "" && c.String("protocol") != "protobuf":
		return usagef("--protocol %s has its own schema: leave out --proto and --descriptor-set", c.String("protocol"))
	case message == "":
		files, err := protobuf.SchemaFiles(c.Context, src)
		if err != nil {
			return err
		}
		s.schema, s.protocol = protobuf.NewMethods(files...), nil
		return nil
	default:
		md, files, err := protobuf.LoadSchema(c.Context, src, message)
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

// readThrough shows all of a session to one view, in order. A fault of the
// framing does not end it, and a capture that is cut is read up to there, which
// is said to people.
func readThrough(inv *invocation, c *cli.Context, name string, cfg decode.Config, newView func(decode.Input, decode.Config) decode.View) (result decode.Result, cut bool, err error) {
	cfg.Workers, cfg.Resync = 1, true
	cfg.Notice = inv.notice(c, name)
	src, err := inv.openSession(c.Context, name, cfg, c.Bool("follow"))
	if err != nil {
		return decode.Result{}, false, err
	}
	defer src.Close()
	view := newView(src.Input, cfg)
	result, err = decode.Run(c.Context, src.Input, inv.Stdout, cfg, func() decode.View { return view })
	if errors.Is(err, capture.ErrCut) {
		inv.say(name, err.Error())
		return result, true, nil
	}
	if err == nil {
		tellEmpty(&result, cfg.Notice)
	}
	return result, false, located(name, result.Framing, err)
}

// tellEmpty tells people that there was nothing in an input, unless notice is nil.
func tellEmpty(result *decode.Result, notice func(text string)) {
	if notice != nil && result.Frames == 0 && result.Faults == 0 && result.Framing == nil {
		notice(noFrames)
	}
}

const noFrames = "the input has no frames"

// trackSession feeds ts with a session, of which see is shown each frame before, if it is
// not nil. What is open where a capture is cut, or reading was interrupted, is not taken
// for unanswered. It returns when the last frame was read, too.
func trackSession(inv *invocation, c *cli.Context, name string, cfg decode.Config, ts *track.Trackers, see func(*decode.Item) error) (decode.Result, time.Time, error) {
	var f *track.Follower
	cfg.Event = func(rec *capture.Record) { f.Event(rec) }
	result, cut, err := readThrough(inv, c, name, cfg, func(in decode.Input, cfg decode.Config) decode.View {
		f = track.NewFollower(ts, in, cfg)
		if see == nil {
			return f.View
		}
		return func(dst []byte, it *decode.Item) ([]byte, error) {
			if err := see(it); err != nil {
				return dst, err
			}
			return f.View(dst, it)
		}
	})
	switch {
	case f == nil:
		return result, time.Time{}, err
	case cut || c.Context.Err() != nil:
		f.Release()
	default:
		f.End()
	}
	return result, f.Last, err
}

// isMessage reports whether an item has a message.
func isMessage(it *decode.Item) bool {
	return !it.Frame.Gap && (it.Err == nil || it.Err == it.Frame.Flaw)
}

// hasCalls reports whether an item may be of a protocol that has calls.
func hasCalls(it *decode.Item) bool {
	return it.Frame.Meta != nil || all.Depth(it.Protocol) >= all.RPC
}

// withoutCalls is the error for a session of no protocol with calls, unless the protocol was named: there is
// nothing to tell of it.
func withoutCalls(name, nothing string, result *decode.Result, known bool, cfg *decode.Config) error {
	if known || result.Frames == 0 || cfg.Protocol != nil {
		return nil
	}
	return &source.Error{Err: fmt.Errorf("%s: %s: %s", label(name), nothing, result.Unknown())}
}

// unread is the error for a session with faults of which no message was read, so that what is told of it
// would be empty; nil for any other.
func unread(name string, result *decode.Result, some bool, ts *track.Trackers) error {
	for _, tr := range ts.List {
		for range tr.Exchanges() { // its messages may be over several lines
			some = true
		}
	}
	if some || result.Faults == 0 {
		return nil
	}
	if result.First != nil {
		result.First = decode.AdvisePassed(fmt.Errorf("%s: %w", label(name), result.First), result.Framing)
	}
	return &faultError{result.FaultError()}
}

// messages returns what tells of each message that is shown to it.
func messages(tell func(seq int64, m *protocol.Message, payload []byte)) func(*decode.Item) error {
	return func(it *decode.Item) error {
		if isMessage(it) {
			tell(it.Seq, &it.Message, it.Payload)
		}
		return nil
	}
}
