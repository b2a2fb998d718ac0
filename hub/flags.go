package hub

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/wirectl/wirectl/capture/history"
)

// State is the folder of the user's state, which spools and hubs are in.
func State(getenv func(string) string) (string, error) {
	folder, err := history.Open(getenv)
	if err != nil {
		return "", err
	}
	return filepath.Dir(folder.Dir), nil
}

// Flags are what a command line says of a hub.
type Flags struct {
	// Address is where it is, unless nothing is Given: the environment says it then.
	Address       string
	Given         bool
	Policy, Level string
	Quiet         bool // tell of nothing but trouble
}

// NewSending returns how sessions of a kind are sent; nil if they are not.
func NewSending(getenv func(string) string, kind string, f Flags, warn func(string)) (*Sending, error) {
	if !f.Given {
		f.Address = getenv(Variable)
	}
	if f.Address == "" {
		return nil, nil
	}
	s := &Sending{Kind: kind, Policy: Policy(f.Policy), Level: history.Level(f.Level), Say: warn, Warn: warn}
	if f.Quiet {
		s.Say = func(string) {}
	}
	switch {
	case !slices.Contains(Policies, s.Policy):
		return nil, fmt.Errorf("invalid --hub-policy %q: want lossy or lossless", f.Policy)
	case !slices.Contains(history.Levels, s.Level):
		return nil, fmt.Errorf("invalid --hub-level %q: want full or metadata", f.Level)
	}
	var err error
	if s.Address, err = ParseAddress(f.Address); err != nil {
		return nil, err
	}
	s.State, err = State(getenv)
	return s, err
}
