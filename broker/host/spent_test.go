package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/wirectl/wirectl/broker"
	"github.com/wirectl/wirectl/broker/provider"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newBroker(t *testing.T) *broker.Broker {
	t.Helper()
	b, err := broker.New(broker.Config{Models: []broker.Model{{
		Name: "m", Budget: &broker.Budget{Calls: 2},
		Routes: []broker.Route{{Backend: &broker.Backend{Name: "p", Provider: provider.NewMock(provider.MockConfig{})}}},
	}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The next broker continues with the spent amounts, and two cannot write at the same time.
func TestSpentSurvives(t *testing.T) {
	name := filepath.Join(t.TempDir(), "new", "spent.json")
	ask := func(b *broker.Broker) error {
		return b.Do(t.Context(), &broker.Call{Model: "m", Prompt: []byte(`"q"`)})
	}
	for range 2 {
		b := newBroker(t)
		f, err := keepSpent(name, b, func(text string) { t.Error(text) })
		if err != nil {
			t.Fatal(err)
		}
		if err := ask(b); err != nil {
			t.Error(err)
		}
		if _, err := keepSpent(name, newBroker(t), nil); err == nil || !strings.Contains(err.Error(), "another broker keeps its budgets there") {
			t.Errorf("a second one: %v", err)
		}
		f.Close()
	}
	b := newBroker(t)
	f, err := keepSpent(name, b, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := ask(b); err == nil {
		t.Error("what was spent is forgotten")
	}
}

// An invalid file is not replaced automatically.
func TestSpentBroken(t *testing.T) {
	for _, text := range []string{"{", `[]`, `{"model m":{"calls":-1}}`, `{"model m":{"calls":"x"}}`} {
		name := filepath.Join(t.TempDir(), "spent.json")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := keepSpent(name, newBroker(t), nil); err == nil || !strings.HasPrefix(err.Error(), name+": ") || !strings.Contains(err.Error(), "remove it to start at zero") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
