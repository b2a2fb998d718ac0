package wait

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

var errOver = errors.New("over")

func TestFor(t *testing.T) {
	for name, tt := range map[string]struct {
		wait, end, took time.Duration // end is 0 for a context that does not end
		err             error
	}{
		"the time passes":                   {wait: time.Minute, took: time.Minute},
		"the context ends first":            {wait: time.Minute, end: time.Second, took: time.Second, err: errOver},
		"no time":                           {},
		"no time, and the context is over":  {end: -1, err: errOver},
		"less than none":                    {wait: -time.Second},
		"some time and the context is over": {wait: time.Hour, end: -1, err: errOver},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				switch {
				case tt.end < 0:
					cancel(errOver)
				case tt.end > 0:
					time.AfterFunc(tt.end, func() { cancel(errOver) })
				}
				start := time.Now()
				if err := For(ctx, tt.wait); !errors.Is(err, tt.err) {
					t.Errorf("got error %v, want %v", err, tt.err)
				}
				if took := time.Since(start); took != tt.took {
					t.Errorf("took %v, want %v", took, tt.took)
				}
			})
		})
	}
}
