package replay_test

import (
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/peer/replay"
	"github.com/wirectl/wirectl/transport"
)

// callScript returns the script of the gRPC calls of a fixture, and its transport scheme.
func callScript(t *testing.T, name string, side frame.Dir) (*replay.Script, transport.Scheme) {
	t.Helper()
	s := load(t, name).GRPCScripts(side)[0]
	schemes := s.Schemes()
	if len(schemes) != 2 || schemes[0].Name != "grpc" {
		t.Fatalf("%s is not played over gRPC: %v", name, schemes)
	}
	return s, schemes[0]
}

// Recorded calls of any service are played by both sides: of all four kinds without a schema,
// one that its client cancels, and A2A. The unit plays them once, or any number of times.
func TestGRPC(t *testing.T) {
	for name, frames := range map[string]int64{"grpc-route-guide": 122, "grpc-cancellation": 3, "a2a10-ts-grpc": 59} {
		t.Run(name, func(t *testing.T) {
			once, scheme := callScript(t, name, frame.U2C)
			for _, unit := range []replay.Player{once, replay.NewRepeater([]*replay.Script{once}, nil)} {
				address, there := serveWeb(t, unit, scheme, replay.Options{Match: replay.Matcher{Exact: true}}, 1)
				controller, scheme := callScript(t, name, frame.C2U)
				conn, err := scheme.Dial(t.Context(), address, transport.Options{})
				if err != nil {
					t.Fatal(err)
				}
				here := <-start(t.Context(), controller, conn, replay.Options{Side: frame.C2U, Match: replay.Matcher{Exact: true}, Timeout: time.Minute})
				here.check(t, "controller")
				if here.Matched != frames {
					t.Errorf("%d frames as recorded, want %d", here.Matched, frames)
				}
				if _, isOnce := unit.(*replay.Script); isOnce {
					there := <-there
					there.check(t, "unit")
				}
			}
		})
	}
}

// dialGRPC returns a client of grpc-go.
func dialGRPC(t *testing.T, address string) *grpc.ClientConn {
	t.Helper()
	c, err := grpc.NewClient(address[len("grpc://"):], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// A client of grpc-go gets the recorded answers from a unit that repeats them, even if it sends
// fewer messages than were recorded. A call that was not recorded is unimplemented.
func TestGRPCUnit(t *testing.T) {
	unit, scheme := callScript(t, "grpc-route-guide", frame.U2C)
	address, _ := serveWeb(t, replay.NewRepeater([]*replay.Script{unit}, nil), scheme, replay.Options{Match: replay.Matcher{Exact: true}}, 1)
	c := dialGRPC(t, address)
	for range 2 {
		s, err := c.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, "/routeguide.RouteGuide/RecordRoute")
		if err != nil {
			t.Fatal(err)
		}
		if err := s.SendMsg(wrapperspb.Int32(1)); err != nil {
			t.Fatal(err)
		}
		if err := s.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if err := s.RecvMsg(new(emptypb.Empty)); err != nil {
			t.Errorf("the summary: %v", err)
		}
	}
	for _, path := range []string{"/routeguide.RouteGuide/Other", "/routeguide.RouteGuide/GetFeature"} {
		err := c.Invoke(t.Context(), path, wrapperspb.String("other"), new(emptypb.Empty))
		if status.Code(err) != codes.Unimplemented {
			t.Errorf("%s: %v, want %v", path, err, codes.Unimplemented)
		}
	}
}
