package client_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/wirectl/wirectl/client"
	"github.com/wirectl/wirectl/frame"
	latisv1 "github.com/wirectl/wirectl/proto/latis/v1"
	"github.com/wirectl/wirectl/protocol/latis"
)

// TestNothingAfterTheEnd lets a unit go on with a prompt that was given up: who
// gave it up hears no more of it, and may use what was heard.
func TestNothingAfterTheEnd(t *testing.T) {
	over := make(chan struct{})
	nc := listen(t, func(nc net.Conn) {
		if requests := frame.NewScanner(nc, frame.Len32); !requests.Scan() {
			t.Errorf("there is no prompt: %v", requests.Err())
		}
		sendChunk(t, nc, "heard")
		<-over
		sendChunk(t, nc, "too late")
	})
	l := client.DialLatis(nc, client.NewWatch(latis.Protocol, nil))
	ctx, giveUp := context.WithCancel(t.Context())
	var h heard
	err := l.Prompt(client.LatisPrompt{Content: "hi"})(ctx, func(p client.Part) {
		h.part(p)
		giveUp()
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the prompt ends with %v", err)
	}
	h.text = append(h.text, "end")
	close(over)
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if want := []string{"heard", "end"}; !slices.Equal(h.text, want) {
		t.Errorf("heard was %q, and not %q", h.text, want)
	}
}

// sendChunk sends a part of the answer to the first request.
func sendChunk(t *testing.T, nc net.Conn, text string) {
	chunk := &latisv1.ConnectResponse_ResponseChunk{ResponseChunk: &latisv1.ResponseChunk{Content: text}}
	payload, err := proto.Marshal(&latisv1.ConnectResponse{Id: "1", Payload: chunk})
	if err != nil {
		t.Error(err)
		return
	}
	wire, err := frame.Append(nil, frame.Len32, payload)
	if err == nil {
		_, err = nc.Write(wire)
	}
	if err != nil {
		t.Error(err)
	}
}
