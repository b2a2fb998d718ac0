package quic_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/wirectl/wirectl/test/kit/transporttest"
	"github.com/wirectl/wirectl/transport"
	"github.com/wirectl/wirectl/transport/quic"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Bytes pass as on TCP, where both sides agree on that.
func TestFrames(t *testing.T) {
	opts := transport.Options{Schemes: quic.Schemes}
	transporttest.Run(t, transporttest.Transport{
		Dial: transporttest.Behind("quic://127.0.0.1:0", opts, nil), OurEnd: true, TheirEnd: true,
	})
}

// With the ALPN of other peers there is gRPC in the stream.
func TestGRPC(t *testing.T) {
	opts := transport.Options{Schemes: quic.Schemes, Subprotocols: []string{quic.GRPC}}
	transporttest.Run(t, transporttest.Transport{
		Dial: transporttest.Behind("quic://127.0.0.1:0", opts, transporttest.Framed), OurEnd: true,
	})
}
