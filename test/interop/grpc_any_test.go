package interop

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const examples = "google.golang.org/grpc/examples"

// example builds one of the example programs of grpc-go, pinned by a separate module.
func example(t *testing.T, name string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "example.exe")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-C", "grpcexamples", "-o", path, examples+"/"+name).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// exampleFile returns the path of a file of that module.
func exampleFile(t *testing.T, name string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-C", "grpcexamples", "-m", "-f", "{{.Dir}}", examples)
	dir, err := cmd.Output()
	check(t, err)
	return filepath.Join(strings.TrimSpace(string(dir)), name)
}

// served starts a server of the examples. It returns its address and a function that waits
// until the server prints a text.
func served(t *testing.T, program string) (address string, prints func(text string)) {
	t.Helper()
	port := freePort(t)
	out, err := os.Create(filepath.Join(t.TempDir(), "output"))
	check(t, err)
	cmd := exec.CommandContext(t.Context(), program, "-port", port)
	cmd.Stdout, cmd.Stderr = out, out
	check(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		out.Close()
	})
	address = net.JoinHostPort("localhost", port)
	eventually(t, program+" listens", func() bool {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return address, func(text string) {
		t.Helper()
		eventually(t, fmt.Sprintf("%s prints %q", program, text), func() bool {
			said, err := os.ReadFile(out.Name())
			return err == nil && bytes.Contains(said, []byte(text))
		})
	}
}

// eventually waits until holds returns true.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%v pass before %s", patience, what)
		}
	}
}

// runs runs a program to its end, which must succeed.
func runs(t *testing.T, program string, args ...string) (output string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", program, args, err, out)
	}
	return string(out)
}

// recordCalls puts a gRPC relay between a client and a server of the examples and returns
// the capture.
func recordCalls(t *testing.T, server, client string, after ...string) (capture, said string) {
	t.Helper()
	unit, prints := served(t, example(t, server))
	capture = filepath.Join(t.TempDir(), "session.pcapng")
	cmd := exec.CommandContext(t.Context(), wirectl, "relay", "--no-tap", "--capture", capture, "--listen", "grpc://127.0.0.1:0", "grpc://"+unit)
	address, stop := listening(t, cmd, listeningOn)
	said = runs(t, example(t, client), "-addr", strings.TrimPrefix(address, "grpc://"))
	for _, text := range after {
		prints(text)
	}
	stop()
	return capture, said
}

// The example with all four kinds of calls does not notice the relay. With its schema every
// message has its name, and every call its messages.
func TestRelayRouteGuide(t *testing.T) {
	capture, said := recordCalls(t, "route_guide/server", "route_guide/client")
	if !strings.Contains(said, "Berkshire Valley Management Area Trail") || !strings.Contains(said, "Got message Sixth message") {
		t.Errorf("the client says\n%s", said)
	}
	schema := []string{"--proto", exampleFile(t, "route_guide/routeguide/route_guide.proto")}
	command(t, nil, append([]string{"lint", "-q", "--fail-on", "error,warning", capture}, schema...)...)
	stats, _ := command(t, nil, append([]string{"stats", "-q", capture}, schema...)...)
	count(t, stats, map[string]int{"5 exchanges (5 done)": 1, "\nrouteguide.RouteNote ": 1, "/routeguide.RouteGuide/ListFeatures    100": 1})
	ndjson, _ := command(t, nil, append([]string{"decode", "-q", "-o", "ndjson", capture}, schema...)...)
	count(t, ndjson, map[string]int{
		`"kind":"routeguide.Rectangle"`: 1, `"kind":"routeguide.RouteSummary"`: 1,
		`"payload":{"name":"Berkshire Valley Management Area Trail, Jefferson, NJ, USA"`: 2, // once requested, once in the list
		`"summary":"grpc-status 0"`: 5,
	})
}

// The example with all four kinds of calls is replayed in both directions: its client against a
// new server, which answers as recorded, and its server for the client, which does not notice.
func TestReplayRouteGuide(t *testing.T) {
	capture, want := recordCalls(t, "route_guide/server", "route_guide/client")
	schema := exampleFile(t, "route_guide/routeguide/route_guide.proto")
	for _, flags := range [][]string{nil, {"--proto", schema}} {
		unit, _ := served(t, example(t, "route_guide/server"))
		// The server measures the time, in field 4.
		_, said := command(t, nil, slices.Concat([]string{"replay", "--ignore-field", "elapsedTime", "--ignore-field", "3"}, flags, []string{capture, "grpc://" + unit})...)
		if !strings.Contains(said, "received as recorded") {
			t.Error(said)
		}
	}
	for _, flags := range [][]string{{"--fast"}, {"--fast", "--repeat"}} {
		unit := exec.CommandContext(t.Context(), wirectl, slices.Concat([]string{"replay", "--as", "unit", "--listen", "grpc://127.0.0.1:0"}, flags, []string{capture})...)
		mock, stop := listening(t, unit, regexp.MustCompile(`listening at (\S+)`))
		for range 2 {
			said := runs(t, example(t, "route_guide/client"), "-addr", strings.TrimPrefix(mock, "grpc://"))
			if got := withoutTimes(said); got != withoutTimes(want) {
				t.Errorf("%v: the client says\n%s", flags, said)
			}
		}
		stop()
	}
}

// withoutTimes returns the answers in what the example's client says, without the times before
// them. The number of points that the client sends is random.
func withoutTimes(said string) string {
	var lines []string
	for line := range strings.Lines(said) {
		if _, text, ok := strings.Cut(line, ": "); ok && strings.Contains(text, "name:") {
			lines = append(lines, text)
		}
	}
	return strings.Join(lines, "")
}

// A relay that asks the server for its schemas stores them in the capture, so every reader
// knows all messages.
func TestRelayReflection(t *testing.T) {
	unit, _ := served(t, example(t, "features/reflection/server"))
	capture := filepath.Join(t.TempDir(), "session.pcapng")
	cmd := exec.CommandContext(t.Context(), wirectl, "relay", "--no-tap", "--reflect", "--capture", capture, "--listen", "grpc://127.0.0.1:0", "grpc://"+unit)
	address, stop := listening(t, cmd, listeningOn)
	runs(t, example(t, "helloworld/greeter_client"), "-addr", strings.TrimPrefix(address, "grpc://"), "-name", "wirectl")
	stop()
	ndjson, _ := command(t, nil, "decode", "-q", "-o", "ndjson", capture)
	count(t, ndjson, map[string]int{
		`"kind":"helloworld.HelloRequest"`: 1, `"payload":{"name":"wirectl"}`: 1, `"payload":{"message":"Hello wirectl"}`: 1, `"phase":"cancel"`: 0,
	})
}

// A client's cancel reaches the server, and is marked as a cancel in the capture.
func TestRelayCancellation(t *testing.T) {
	capture, said := recordCalls(t, "features/cancellation/server", "features/cancellation/client", "code = Canceled")
	if !strings.Contains(said, `received message "world"`) || !strings.Contains(said, "code = Canceled") {
		t.Errorf("the client says\n%s", said)
	}
	stats, _ := command(t, nil, "stats", "-q", capture)
	count(t, stats, map[string]int{"1 exchange (1 cancelled)": 1})
	schema := exampleFile(t, "features/proto/echo/echo.proto")
	ndjson, _ := command(t, nil, "decode", "-q", "-o", "ndjson", "--proto", schema, capture)
	count(t, ndjson, map[string]int{
		`"kind":"RST_STREAM"`: 1, `"phase":"cancel","summary":"CANCEL"`: 1,
		`"kind":"grpc.examples.echo.EchoResponse"`: 2, `"payload":{"message":"hello"}`: 2,
	})
}

// routeProto is the part of the example's schema that a fixture needs, in a syntax that
// every protoc supports.
const routeProto = `
	syntax = "proto3";
	package routeguide;
	service RouteGuide {
		rpc GetFeature(Point) returns (Feature);
		rpc ListFeatures(Rectangle) returns (stream Feature);
		rpc RecordRoute(stream Point) returns (RouteSummary);
		rpc RouteChat(stream RouteNote) returns (stream RouteNote);
	}
	message Point { int32 latitude = 1; int32 longitude = 2; }
	message Rectangle { Point lo = 1; Point hi = 2; }
	message Feature { string name = 1; Point location = 2; }
	message RouteNote { Point location = 1; string message = 2; }
	message RouteSummary { int32 point_count = 1; }
`

// protoc and wirectl decode each other's messages. The descriptor set that protoc writes
// names the messages of calls.
func TestProtocEncoded(t *testing.T) {
	protoc := need(t, "protoc")
	schema := filepath.Join(t.TempDir(), "route.proto")
	check(t, os.WriteFile(schema, []byte(routeProto), 0o600))
	run := func(stdin []byte, args ...string) []byte {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), protoc, append(args, "-I", filepath.Dir(schema), filepath.Base(schema))...)
		cmd.Stdin = bytes.NewReader(stdin)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, &stderr)
		}
		return out
	}
	const text = "name: \"gr\\303\\274\\303\\237e\"\nlocation {\n  latitude: 1\n  longitude: -2\n}\n"
	payload := run([]byte(text), "--encode=routeguide.Feature")
	frame := append([]byte{0, 0, 0, 0, byte(len(payload))}, payload...)
	typed := []string{"--framing", "grpc", "--proto", schema, "--message", "Feature"}

	ndjson, _ := command(t, frame, append([]string{"decode", "-q", "-o", "ndjson"}, typed...)...)
	count(t, ndjson, map[string]int{`"payload":{"name":"grüße","location":{"latitude":1,"longitude":-2}}`: 1})
	back, _ := command(t, ndjson, "encode")
	if !bytes.Equal(back, frame) {
		t.Errorf("encoded again it is %x, and not %x", back, frame)
	}
	encoded, _ := command(t, []byte(`{"location":{"longitude":-2,"latitude":1},"name":"grüße"}`), append([]string{"encode"}, typed...)...)
	if got := run(encoded[5:], "--decode=routeguide.Feature"); string(got) != text {
		t.Errorf("protoc decodes %s", got)
	}

	set := filepath.Join(t.TempDir(), "set.binpb")
	run(nil, "--descriptor_set_out="+set)
	named, _ := command(t, nil, "decode", "-q", "-o", "ndjson", "--descriptor-set", set, "fixture:grpc-route-guide")
	count(t, named, map[string]int{`"kind":"routeguide.RouteNote"`: 15, `"kind":"message"`: 0})
}
