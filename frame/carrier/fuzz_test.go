package carrier_test

import (
	"testing"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
)

// fuzz feeds a carrier with anything: it must lose no byte, and not panic,
// however the bytes are cut.
func fuzz(f *testing.F, kind carrier.Kind) {
	for _, tt := range sessions {
		var both [3]string
		for _, p := range tt.parts {
			both[p.dir] += p.data
		}
		f.Add([]byte(both[frame.C2U]), []byte(both[frame.U2C]), uint8(3))
	}
	for _, name := range []string{"acp-ws", "grpc-cancellation"} {
		p := recorded(f, name)
		f.Add([]byte(p[0].data), []byte(p[1].data), uint8(100))
	}
	f.Fuzz(func(t *testing.T, c2u, u2c []byte, n uint8) {
		parts := []part{{frame.C2U, string(c2u)}, {frame.U2C, string(u2c)}}
		read(t, carrier.Options{Kind: kind, Limit: 1000}, parts, func() int { return int(n) + 1 })
	})
}

func FuzzAuto(f *testing.F)  { fuzz(f, carrier.Auto) }
func FuzzWS(f *testing.F)    { fuzz(f, carrier.WS) }
func FuzzHTTP1(f *testing.F) { fuzz(f, carrier.HTTP1) }
func FuzzH2(f *testing.F)    { fuzz(f, carrier.H2) }
