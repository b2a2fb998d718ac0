package live

import (
	"context"
	"time"

	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/internal/wait"
	"github.com/wirectl/wirectl/store"
)

// A Choice is a session to look at, and the input that it is.
type Choice struct{ Name, About, Input string }

// Await is the input of the choice to wait for a tap.
const Await = "live"

// Choices returns the taps, the newest first, and the recorded sessions. Without a tap, the
// first choice is to wait for one.
func Choices(getenv func(string) string) ([]Choice, error) {
	past := pastSessions(getenv)
	list, err := openTaps(getenv)
	switch {
	case err != nil && len(past) == 0:
		return nil, err
	case err == nil && len(list) == 0:
		list = []Choice{{Await, "wait for a relay or a broker", Await}}
	}
	return append(list, past...), nil // if there are no taps here, the recorded ones are enough
}

// choicesEvery is how often sessions that start and end are looked for.
const choicesEvery = time.Second / 2

// NextChoices returns the choices a moment later; nil if they cannot be read.
func NextChoices(ctx context.Context, getenv func(string) string) []Choice {
	if wait.For(ctx, choicesEvery) != nil {
		return nil
	}
	list, _ := Choices(getenv)
	return list
}

func openTaps(getenv func(string) string) (list []Choice, err error) {
	dir, err := tap.Dir(getenv)
	if err != nil {
		return nil, err
	}
	taps, err := tap.List(dir, nil)
	for _, t := range taps {
		list = append(list, Choice{t.Name, Age(t) + "  " + t.Controller + " ⇄ " + store.ShortName(t.Unit), "tap:" + t.Name})
	}
	return list, err
}

// pastSessions are the recorded sessions. Those that go on have taps.
func pastSessions(getenv func(string) string) (list []Choice) {
	for _, s := range history.Known(getenv) {
		if !s.Live {
			list = append(list, Choice{s.ID, s.About(), s.ID})
		}
	}
	return list
}
