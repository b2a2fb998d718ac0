package client_test

import (
	"testing"

	"github.com/wirectl/wirectl/peer/client"
)

// An error tells what there is of it.
func TestPeerError(t *testing.T) {
	for want, e := range map[string]client.PeerError{
		`BUSY: come back later {"in":5}`: {Code: "BUSY", Message: "come back later", Data: []byte(`{"in":5}`)},
		`BUSY`:                           {Code: "BUSY"},
		`come back later`:                {Message: "come back later"},
		`{"in":5}`:                       {Data: []byte(`{"in":5}`)},
		`an error without a message`:     {},
	} {
		if got := e.Error(); got != want {
			t.Errorf("%+v is told as %q, want %q", e, got, want)
		}
	}
}
