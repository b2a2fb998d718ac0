package broker

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"sync/atomic"
)

// Secrets are the keys that a broker knows. Nothing that it writes down says them,
// not even where a provider does.
type Secrets struct{ known atomic.Pointer[[]string] }

// shortestSecret is how long a secret is at least: what is shorter may be a word,
// as are the keys of backends that ask for none.
const shortestSecret = 8

// Add makes further secrets known. What was one before stays one: a call may run
// that was begun with it. Add is for one goroutine.
func (s *Secrets) Add(secrets ...string) {
	known := slices.Clone(s.list())
	for _, secret := range secrets {
		if len(secret) >= shortestSecret && !slices.Contains(known, secret) {
			known = append(known, secret)
		}
	}
	s.known.Store(&known)
}

func (s *Secrets) list() []string {
	if s == nil || s.known.Load() == nil {
		return nil
	}
	return *s.known.Load()
}

// Hide returns b with as many asterisks in the place of each secret, or b itself
// if it has none.
func (s *Secrets) Hide(b []byte) []byte {
	for _, secret := range s.list() {
		if bytes.Contains(b, []byte(secret)) {
			b = bytes.ReplaceAll(b, []byte(secret), []byte(strings.Repeat("*", len(secret))))
		}
	}
	return b
}

// Writer returns what writes to w, without the secrets. What is written at once is
// looked at by itself.
func (s *Secrets) Writer(w io.Writer) io.Writer { return hider{s, w} }

type hider struct {
	*Secrets
	w io.Writer
}

func (h hider) Write(p []byte) (int, error) {
	if _, err := h.w.Write(h.Hide(p)); err != nil {
		return 0, err
	}
	return len(p), nil
}
