package live

import (
	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/store"
)

// A Choice is a session to look at, and the input that it is.
type Choice struct{ Name, About, Input string }

// Choices returns the taps and the recorded sessions to choose from. If there are recorded
// ones, waiting for a tap is a choice too. If there are none, and at most one tap, there is
// nothing to choose.
func Choices(getenv func(string) string) ([]Choice, error) {
	past := pastSessions(getenv)
	list, err := openTaps(getenv)
	switch {
	case err != nil && len(past) == 0:
		return nil, err
	case err != nil: // no taps here, and no need of any
		return past, nil //nolint:nilerr // the recorded ones are enough
	case len(past) == 0 && len(list) < 2:
		return nil, nil
	case len(list) == 0:
		list = []Choice{{"live", "wait for a relay or a broker", "live"}}
	}
	return append(list, past...), nil
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
