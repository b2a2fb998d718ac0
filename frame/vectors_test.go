package frame_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/wirectl/wirectl/fixtures"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/test/kit/frametest"
)

// outcomes are the errors by which the outcomes of vectors show.
var outcomes = map[fixtures.Outcome]error{
	fixtures.Truncated: frame.ErrTruncated,
	fixtures.TooLarge:  frame.ErrTooLarge,
	fixtures.Garbage:   frame.ErrMalformed,
}

// The annotated vectors say of every framing what becomes of good and of bad
// bytes, however they are read.
func TestVectors(t *testing.T) {
	for _, f := range frame.Framings() {
		vectors, err := fixtures.Vectors(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range vectors {
			t.Run(v.Name, func(t *testing.T) { testVector(t, f, v) })
		}
	}
}

func testVector(t *testing.T, f frame.Framing, v fixtures.Vector) {
	limit := func(s *frame.Scanner) {
		if v.Limit > 0 {
			s.SetLimit(v.Limit)
		}
	}
	frames, s := scan(f, frametest.Ragged(v.Bytes, 1), limit)
	if len(frames) > 0 && frames[len(frames)-1].Gap {
		frames = frames[:len(frames)-1]
	}
	if len(frames) != v.Frames {
		t.Errorf("%d frames, want %d", len(frames), v.Frames)
	}
	var fault *frame.Error
	if !errors.Is(s.Err(), outcomes[v.Expect]) {
		t.Errorf("%v, want %s", s.Err(), v.Expect)
	} else if errors.As(s.Err(), &fault) && fault.Offset != v.Offset {
		t.Errorf("the fault is at %d, want %d", fault.Offset, v.Offset)
	}
	for i, want := range v.Payloads {
		if i < len(frames) && !bytes.Equal(frames[i].Payload(), want) {
			t.Errorf("payload %d is %q, want %q", i+1, frames[i].Payload(), want)
		}
	}
	exact := true
	for i := range frames {
		exact = exact && frame.Exact(f, &frames[i])
	}
	if canonical := v.Header["canonical"] != "no"; exact != canonical {
		t.Errorf("frames are what Append writes: %v, want %v", exact, canonical)
	}
	if looks := v.Header["looks-like"]; looks != "" && frame.Recognize(v.Bytes[v.Offset:]).String() != looks {
		t.Errorf("looks like %s, want %s", frame.Recognize(v.Bytes[v.Offset:]), looks)
	}
}
