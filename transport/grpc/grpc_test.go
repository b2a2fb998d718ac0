package grpc_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"go.uber.org/goleak"
	libgrpc "google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/proto"

	latisv1 "github.com/wirectl/wirectl/proto/latis/v1"
	"github.com/wirectl/wirectl/transport"
	"github.com/wirectl/wirectl/transport/grpc"
	"github.com/wirectl/wirectl/transport/transporttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var opts = transport.Options{Schemes: grpc.Schemes}

func TestBehaviour(t *testing.T) {
	for _, address := range []string{"grpc://127.0.0.1:0", "grpcs://127.0.0.1:0"} {
		t.Run(address, func(t *testing.T) {
			transporttest.Run(t, transporttest.Transport{Dial: transporttest.Behind(address, opts, transporttest.Framed), OurEnd: true})
		})
	}
}

// library connects with nothing but the library.
func library(t *testing.T, l transport.Listener) *libgrpc.ClientConn {
	t.Helper()
	cc, err := libgrpc.NewClient(strings.TrimPrefix(l.Addr(), "grpc://"), libgrpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cc.Close() })
	return cc
}

// A client that knows the service by its types speaks to a listener that knows
// nothing but bytes.
func TestTypedClient(t *testing.T) {
	l := transporttest.Listen(t, "grpc://127.0.0.1:0", opts)
	received := make(chan []byte, 1)
	go func() {
		c, err := l.Accept(transporttest.Bounded(t))
		if err != nil {
			t.Error(err)
			return
		}
		frame := make([]byte, 4+6)
		if _, err := io.ReadFull(c, frame); err != nil || !bytes.HasPrefix(frame, []byte{0, 0, 0, 6}) {
			t.Errorf("read %x, %v", frame, err)
		}
		received <- frame[4:]
		answer, err := proto.Marshal(&latisv1.ConnectResponse{Id: "1", Payload: &latisv1.ConnectResponse_Pong{Pong: &latisv1.Pong{}}})
		if err == nil {
			_, err = transporttest.Framed(c).Write(answer)
		}
		if err != nil {
			t.Error(err)
		}
		c.Close()
	}()
	desc := &libgrpc.StreamDesc{ClientStreams: true, ServerStreams: true}
	s, err := library(t, l).NewStream(transporttest.Bounded(t), desc, "/latis.v1.LatisService/Connect")
	if err != nil {
		t.Fatal(err)
	}
	ping := &latisv1.ConnectRequest{Id: "1", Payload: &latisv1.ConnectRequest_Ping{Ping: &latisv1.Ping{}}}
	if err := s.SendMsg(ping); err != nil {
		t.Fatal(err)
	}
	got := new(latisv1.ConnectRequest)
	if err := proto.Unmarshal(<-received, got); err != nil || !proto.Equal(got, ping) {
		t.Errorf("the listener read %v, %v", got, err)
	}
	pong := new(latisv1.ConnectResponse)
	if err := s.RecvMsg(pong); err != nil || pong.GetPong() == nil {
		t.Errorf("the client read %v, %v", pong, err)
	}
	if err := s.RecvMsg(pong); err != io.EOF {
		t.Errorf("the call ends with %v", err)
	}
}

// Tools ask a server for its services before they know any.
func TestReflection(t *testing.T) {
	l := transporttest.Listen(t, "grpc://127.0.0.1:0", opts)
	s, err := grpc_reflection_v1.NewServerReflectionClient(library(t, l)).ServerReflectionInfo(transporttest.Bounded(t))
	if err != nil {
		t.Fatal(err)
	}
	ask := func(r *grpc_reflection_v1.ServerReflectionRequest) *grpc_reflection_v1.ServerReflectionResponse {
		if err := s.Send(r); err != nil {
			t.Fatal(err)
		}
		answer, err := s.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	var names []string
	list := ask(&grpc_reflection_v1.ServerReflectionRequest{MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{}})
	for _, s := range list.GetListServicesResponse().GetService() {
		names = append(names, s.GetName())
	}
	if len(names) == 0 || names[len(names)-1] != "latis.v1.LatisService" {
		t.Errorf("the services are %q", names)
	}
	file := ask(&grpc_reflection_v1.ServerReflectionRequest{MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_FileContainingSymbol{
		FileContainingSymbol: "latis.v1.LatisService",
	}})
	if len(file.GetFileDescriptorResponse().GetFileDescriptorProto()) == 0 {
		t.Errorf("the schema is %v", file)
	}
	if err := s.CloseSend(); err != nil {
		t.Error(err)
	}
}

// A frame is one message, however its bytes were written; an empty one is, too.
func TestFrames(t *testing.T) {
	c := transporttest.Behind("grpc://127.0.0.1:0", opts, nil)(t, transporttest.Echoes)
	sent := "\x00\x00\x00\x03one\x00\x00\x00\x00\x00\x00\x00\x05three"
	for i := range len(sent) {
		if _, err := c.Write([]byte{sent[i]}); err != nil {
			t.Fatal(err)
		}
	}
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != sent {
		t.Errorf("%q, %v", got, err)
	}
}

// What has no length in front cannot be sent, and what is cut is not.
func TestNoFrames(t *testing.T) {
	c := transporttest.Behind("grpc://127.0.0.1:0", opts, nil)(t, transporttest.Endures)
	if _, err := c.Write([]byte(`{"jsonrpc":"2.0"}`)); err == nil || !strings.Contains(err.Error(), "in gRPC goes what has len32 framing") {
		t.Error(err)
	}
	c = transporttest.Behind("grpc://127.0.0.1:0", opts, nil)(t, transporttest.Endures)
	if _, err := c.Write([]byte{0, 0, 0, 9, 1}); err != nil {
		t.Error(err)
	}
	if err := c.CloseWrite(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("ended inside a frame: %v", err)
	}
}

// A server of something else says so, and what to look at.
func TestAnotherService(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := libgrpc.NewServer()
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	c := transporttest.Dial(t, []string{"grpc://" + l.Addr().String()}, opts)
	if _, err := c.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "the peer speaks gRPC, and has no latis.v1.LatisService") {
		t.Error(err)
	}
}

func TestRefused(t *testing.T) {
	l := transporttest.Listen(t, "grpc://127.0.0.1:0", opts)
	l.Close()
	e, err := transport.Parse([]string{l.Addr()}, opts)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Dial(transporttest.Bounded(t)); err == nil || !strings.Contains(err.Error(), "connection refused: nothing listens there") {
		t.Error(err)
	}
}
