package frame_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/frame"
)

// A fault that was written down is still of its kind when it is read back.
func TestRecall(t *testing.T) {
	for _, c := range []struct {
		stream string
		reason error
	}{
		{"\x7f\xff\xff\xff", frame.ErrTooLarge},
		{"\x00\x00\x00\x02{", frame.ErrTruncated},
		{"\x00\x00", frame.ErrTruncated},
	} {
		s := frame.NewScanner(strings.NewReader(c.stream), frame.Len32)
		for s.Scan() {
		}
		fault := frame.Recall(s.Err().Error())
		if !errors.Is(fault, c.reason) || fault.Error() != s.Err().Error() {
			t.Errorf("%q: %v is read back as %v", c.stream, s.Err(), fault)
		}
	}
	if fault := frame.Recall("blank lines"); errors.Is(fault, frame.ErrTooLarge) || errors.Is(fault, frame.ErrTruncated) {
		t.Error(fault)
	}
}
