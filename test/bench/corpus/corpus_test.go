package corpus

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"
)

// The ratios mean nothing if the frames are not what the table says they are.
func TestCorpusIsAsDescribed(t *testing.T) {
	for name, g := range grammars {
		t.Run(name, func(t *testing.T) {
			tx := &texter{rnd: rand.New(rand.NewPCG(1, 2))}
			for n := range int64(5000) {
				size := minPayload + latisHeaders + tx.rnd.IntN(maxPayload-minPayload-latisHeaders+1)
				payload := g(tx, nil, n, size)
				if len(payload) < minPayload || len(payload) > maxPayload {
					t.Fatalf("message %d has %d bytes", n, len(payload))
				}
				if name != "latis" && !json.Valid(payload) {
					t.Fatalf("message %d is not JSON: %s", n, payload)
				}
			}
			if every := float64(tx.bytes) / float64(tx.marks); math.Abs(every-markEvery) > 2 {
				t.Errorf("a mark every %.1f bytes, want about %d", every, markEvery)
			}
		})
	}
}

// Slopes subtract a small corpus from a large one, so it has to be a part of it.
func TestSmallCorpusIsPrefixOfLarge(t *testing.T) {
	for framing := range wrappings {
		var small, large bytes.Buffer
		for out, size := range map[*bytes.Buffer]int64{&small: 1 << 16, &large: 1 << 18} {
			if err := Write(out, "latis", framing, size); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.HasPrefix(large.Bytes(), small.Bytes()) {
			t.Errorf("%s: the small corpus is no prefix of the large one", framing)
		}
	}
}
