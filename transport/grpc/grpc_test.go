package grpc_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	libgrpc "google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	latisv1 "github.com/wirectl/wirectl/protocol/schema/latis/v1"
	"github.com/wirectl/wirectl/test/kit/transporttest"
	"github.com/wirectl/wirectl/transport"
	"github.com/wirectl/wirectl/transport/grpc"
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

// Peers may compress what they send.
func TestCompressed(t *testing.T) {
	l := transporttest.Listen(t, "grpc://127.0.0.1:0", opts)
	read := make(chan []byte, 1)
	go func() {
		defer close(read)
		c, err := l.Accept(transporttest.Bounded(t))
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		b, err := io.ReadAll(c)
		if err != nil {
			t.Error(err)
		}
		read <- b
	}()
	call, err := library(t, l).NewStream(transporttest.Bounded(t), &libgrpc.StreamDesc{ClientStreams: true}, "/latis.v1.LatisService/Connect", libgrpc.UseCompressor("gzip"))
	if err != nil {
		t.Fatal(err)
	}
	ping := &latisv1.ConnectRequest{Id: strings.Repeat("1", 1000)}
	if err := errors.Join(call.SendMsg(ping), call.CloseSend()); err != nil {
		t.Fatal(err)
	}
	want, err := proto.Marshal(ping)
	if got := <-read; err != nil || !bytes.Equal(got, append(binary.BigEndian.AppendUint32(nil, uint32(len(want))), want...)) {
		t.Errorf("read %d bytes, %v", len(got), err)
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
	if _, err := c.Write([]byte(`{"jsonrpc":"2.0"}`)); err == nil || !strings.Contains(err.Error(), "gRPC carries len32 framing") {
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

// serve serves with nothing but the library.
func serve(t *testing.T, register func(s *libgrpc.Server)) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := libgrpc.NewServer()
	register(s)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return l.Addr().String()
}

// A server that knows the service by its types hears whoever writes frames, and
// its status is told.
func TestTypedServer(t *testing.T) {
	address := serve(t, func(s *libgrpc.Server) {
		s.RegisterService(&libgrpc.ServiceDesc{ServiceName: "latis.v1.LatisService", Streams: []libgrpc.StreamDesc{{
			StreamName: "Connect", ClientStreams: true, ServerStreams: true,
			Handler: func(_ any, call libgrpc.ServerStream) error {
				for {
					ping := new(latisv1.ConnectRequest)
					if err := call.RecvMsg(ping); err != nil {
						return status.Error(codes.DataLoss, "50% of it\nis lost")
					}
					if err := call.SendMsg(&latisv1.ConnectResponse{Id: ping.Id}); err != nil {
						return err
					}
				}
			},
		}}}, nil)
	})
	c := transporttest.Dial(t, []string{"grpc://" + address}, opts)
	for _, id := range []string{"1", strings.Repeat("long", 1<<16)} {
		ping, err := proto.Marshal(&latisv1.ConnectRequest{Id: id})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := transporttest.Framed(c).Write(ping); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 4+len(ping)) // nothing but the id comes back
		if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got[4:], ping) {
			t.Errorf("read %d bytes, %v", len(got), err)
		}
	}
	if err := c.CloseWrite(); err != nil {
		t.Error(err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil || err.Error() != "DataLoss: 50% of it\nis lost" {
		t.Error(err)
	}
}

// Schemas are asked for in the version that the server has.
func TestReflect(t *testing.T) {
	for _, version := range []string{"v1", "v1alpha", ""} {
		address := serve(t, func(s *libgrpc.Server) {
			s.RegisterService(&libgrpc.ServiceDesc{ServiceName: "latis.v1.LatisService", Metadata: "latis/v1/latis.proto"}, nil)
			of := reflection.ServerOptions{Services: s}
			switch version {
			case "v1":
				grpc_reflection_v1.RegisterServerReflectionServer(s, reflection.NewServerV1(of))
			case "v1alpha":
				grpc_reflection_v1alpha.RegisterServerReflectionServer(s, reflection.NewServer(of))
			}
		})
		raw, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		services, err := grpc.Reflect(transporttest.Bounded(t), raw, "peer")
		switch {
		case version == "" && (err == nil || err.Error() != "unknown service grpc.reflection.v1alpha.ServerReflection"):
			t.Error(err)
		case version != "" && (err != nil || !slices.Equal(services, []string{"grpc.reflection." + version + ".ServerReflection", "latis.v1.LatisService"})):
			t.Errorf("%q, %v", services, err)
		}
	}
}

// A listener of ours answers what it is asked by itself.
func TestReflectOurs(t *testing.T) {
	l := transporttest.Listen(t, "grpc://127.0.0.1:0", opts)
	raw, err := net.Dial("tcp", strings.TrimPrefix(l.Addr(), "grpc://"))
	if err != nil {
		t.Fatal(err)
	}
	services, err := grpc.Reflect(transporttest.Bounded(t), raw, "peer")
	if err != nil || len(services) != 3 {
		t.Errorf("%q, %v", services, err)
	}
}

// A server of something else says so, and what to look at.
func TestAnotherService(t *testing.T) {
	address := serve(t, func(*libgrpc.Server) {})
	c := transporttest.Dial(t, []string{"grpc://" + address}, opts)
	if _, err := c.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "the peer speaks gRPC, but has no latis.v1.LatisService") {
		t.Error(err)
	}
}

// What answers as a web server does, is told apart.
func TestNoGRPC(t *testing.T) {
	address := answers(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "none of that", http.StatusNotFound) })
	c := transporttest.Dial(t, []string{address}, opts)
	const want = "Unimplemented: unexpected HTTP status code received from server: 404 (Not Found)"
	if _, err := c.Read(make([]byte, 1)); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Error(err)
	}
}

// How a call ended badly is told, whatever of it was sent.
func TestBadEnds(t *testing.T) {
	for want, act := range map[string]http.HandlerFunc{
		"ResourceExhausted: grpc: received message larger than max (4294967295 vs. 16777216)": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte{0, 0xff, 0xff, 0xff, 0xff})
		},
		"Internal: grpc: compressed flag set with identity or empty encoding": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte{1, 0, 0, 0, 0}) },
		"Internal: unexpected EOF":    func(w http.ResponseWriter, _ *http.Request) { ended(w, "0", "", 0, 0, 0) },
		"Unknown":                     func(http.ResponseWriter, *http.Request) {},
		"Aborted: 100% of it, \"né\"": func(w http.ResponseWriter, _ *http.Request) { ended(w, "10", "100%25 of it, %22n%C3%A9%22") },
		"Aborted: 100% of it":         func(w http.ResponseWriter, _ *http.Request) { ended(w, "10", "100% of it") },
		"Code(99)":                    func(w http.ResponseWriter, _ *http.Request) { ended(w, "99", "") },
		`Unknown: transport: malformed grpc-status: strconv.ParseInt: parsing "fine": invalid syntax`: func(w http.ResponseWriter, _ *http.Request) { ended(w, "fine", "") },
		"Internal: stream terminated by RST_STREAM with error code: INTERNAL_ERROR":                   func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(want, func(t *testing.T) {
			c := transporttest.Dial(t, []string{answers(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/grpc")
				act(w, r)
			})}, opts)
			if _, err := io.ReadAll(c); err == nil || err.Error() != want {
				t.Error(err)
			}
		})
	}
}

// ended ends a call behind its messages.
func ended(w http.ResponseWriter, status, message string, messages ...byte) {
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(messages)
	w.Header().Set(http.TrailerPrefix+"Grpc-Status", status)
	w.Header().Set(http.TrailerPrefix+"Grpc-Message", message)
}

// answers serves HTTP/2, and returns the address as one of gRPC.
func answers(t *testing.T, act http.HandlerFunc) string {
	s := httptest.NewUnstartedServer(act)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return strings.Replace(s.URL, "http", "grpc", 1)
}

// speaker returns a function that makes requests of a listener as the library would
// not.
func speaker(t *testing.T, l transport.Listener) func(method, path string, body io.Reader, field, value string) (int, http.Header) {
	client := http.Transport{Protocols: new(http.Protocols)}
	client.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(client.CloseIdleConnections)
	return func(method, path string, body io.Reader, field, value string) (int, http.Header) {
		r, err := http.NewRequestWithContext(transporttest.Bounded(t), method, strings.Replace(l.Addr(), "grpc", "http", 1)+path, body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/grpc+proto")
		if field != "" {
			r.Header.Set(field, value)
		}
		answer, err := client.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		return answer.StatusCode, answer.Header
	}
}

// What a listener says to requests that it does not serve.
func TestRefusals(t *testing.T) {
	l := transporttest.Listen(t, "grpc://127.0.0.1:0", opts)
	ask := speaker(t, l)
	for _, c := range []struct {
		method, path, field, value string
		want                       string
	}{
		{"GET", "/", "", "", "405 13"},
		{"POST", "/", "Content-Type", "application/json", "415 3"},
		{"POST", "/acme.Jobs/Start", "", "", "200 12"},
		{"POST", "/latis.v1.LatisService/Other", "", "", "200 12"},
		{"POST", "/latis.v1.LatisService/Connect", "Grpc-Timeout", "soon", "400 13"},
		{"POST", "/latis.v1.LatisService/Connect", "Grpc-Encoding", "unknown", "200 12"},
	} {
		code, head := ask(c.method, c.path, http.NoBody, c.field, c.value)
		if got := fmt.Sprint(code, " ", head.Get("Grpc-Status")); got != c.want {
			t.Errorf("%s %s %s: %s", c.method, c.path, c.value, got)
		}
	}
}

// A client that leaves in the middle of what it says has not ended well; one that had
// said all before has.
func TestClientLeaves(t *testing.T) {
	for _, said := range []bool{true, false} {
		l := transporttest.Listen(t, "grpc://127.0.0.1:0", opts)
		ctx, leave := context.WithCancel(transporttest.Bounded(t))
		call, err := library(t, l).NewStream(ctx, &libgrpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/latis.v1.LatisService/Connect")
		if err != nil {
			t.Fatal(err)
		}
		c, err := l.Accept(transporttest.Bounded(t))
		if err != nil {
			t.Fatal(err)
		}
		if said {
			if err := call.CloseSend(); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("the end of what it says: %v", err)
			}
		}
		leave()
		if _, err := c.Read(make([]byte, 1)); (err == io.EOF) != said || err == nil {
			t.Errorf("said all: %v; its end is %v", said, err)
		}
		c.Close()
	}
}

// A call fails when the time is over that its client gave it.
func TestDeadline(t *testing.T) {
	l := transporttest.Listen(t, "grpc://127.0.0.1:0", opts)
	read := make(chan error, 1)
	go func() {
		c, err := l.Accept(transporttest.Bounded(t))
		if err == nil {
			_, err = io.ReadAll(c)
			c.Close()
		}
		read <- err
	}()
	ctx, cancel := context.WithTimeout(transporttest.Bounded(t), 20*time.Millisecond)
	defer cancel()
	call, err := library(t, l).NewStream(ctx, &libgrpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/latis.v1.LatisService/Connect")
	if err != nil {
		t.Fatal(err)
	}
	if err := call.RecvMsg(new(latisv1.ConnectResponse)); status.Code(err) != codes.DeadlineExceeded {
		t.Error(err)
	}
	if err := <-read; err == nil {
		t.Error("it ended as if all had been said")
	}
}

// A connection ends even if its client accepts nothing of what is written.
func TestCloseWhileWriting(t *testing.T) {
	l := transporttest.Listen(t, "grpc://127.0.0.1:0", opts)
	wrote := make(chan error, 1)
	go func() {
		c, err := l.Accept(transporttest.Bounded(t))
		if err != nil {
			wrote <- err
			return
		}
		go func() {
			var err error
			for framed := transporttest.Framed(c); err == nil; { // more than HTTP/2 lets through
				_, err = framed.Write(make([]byte, 1<<20))
			}
			wrote <- err
		}()
		if _, err := c.Read(make([]byte, 1)); err != nil { // the client says when
			t.Error(err)
		}
		c.Close()
	}()
	c := transporttest.Dial(t, []string{l.Addr()}, opts)
	if _, err := c.Read(make([]byte, 1)); err != nil {
		t.Error(err)
	}
	if _, err := transporttest.Framed(c).Write([]byte("x")); err != nil {
		t.Error(err)
	}
	if err := <-wrote; !errors.Is(err, net.ErrClosed) {
		t.Errorf("the write that was cut short says %v", err)
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
