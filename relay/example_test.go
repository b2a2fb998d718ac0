package relay_test

import (
	"context"
	"fmt"
	"io"
	"net"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/relay"
)

// A printer is a sink that prints each frame.
type printer struct{}

func (printer) Write(r *capture.Record) error {
	if r.Kind == capture.Frame {
		fmt.Printf("%d %v %s, %s: %s\n", r.Seq, r.Dir, r.Protocol, r.Framing, r.Payload())
	}
	return nil
}

// A relay runs between a controller and a unit, which is an echo here. Neither notices it.
func ExampleRun() {
	controller, near := ends()
	far, unit := ends()
	go func() {
		_, _ = io.Copy(unit, unit)
		_ = unit.CloseWrite()
	}()
	answer := make(chan string)
	go func() {
		_, _ = io.WriteString(controller, `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n")
		_ = controller.CloseWrite()
		text, _ := io.ReadAll(controller)
		answer <- string(text)
	}()

	sink := relay.NewFan(nil, printer{})
	result, err := relay.Run(context.Background(), relay.Config{
		Controller: near, Unit: far, Sink: sink, Protocol: jsonrpc.MCP,
	})
	fmt.Printf("the controller got %s", <-answer)
	fmt.Println(result.ToUnit.Bytes, "bytes one way,", result.ToController.Bytes, "back, error:", err)
	// Output:
	// 1 c2u mcp, line: {"jsonrpc":"2.0","id":1,"method":"ping"}
	// 2 u2c mcp, line: {"jsonrpc":"2.0","id":1,"method":"ping"}
	// the controller got {"jsonrpc":"2.0","id":1,"method":"ping"}
	// 41 bytes one way, 41 back, error: <nil>
}

// ends returns the two ends of a connection.
func ends() (one, other *net.TCPConn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		panic(err)
	}
	s, err := l.Accept()
	if err != nil {
		panic(err)
	}
	return c.(*net.TCPConn), s.(*net.TCPConn)
}
