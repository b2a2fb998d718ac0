package broker

import (
	"time"

	"github.com/wirectl/wirectl/broker/mask"
	"github.com/wirectl/wirectl/broker/provider"
)

// A Config is what a broker routes by. It is read, never changed.
type Config struct {
	// Default is the model for calls that name none.
	Default string
	// Models are the models by name. A name may have one '*', which stands
	// for any text; exact names go first, then the longest pattern.
	Models []Model
	// Aliases are further names of models.
	Aliases map[string]string
	// Clients are the budgets of clients, nil for one without, by their names.
	Clients map[string]*Budget
	// Batch is how many calls of one batch run at once; 0 is 16.
	Batch int
	// Group is what the broker shares with others; nil is nothing.
	Group Group
	// Workers answer calls for models that nothing else in the configuration has and they
	// offer; nil is none.
	Workers Workers
	// Secrets are masked in what providers answer; nil is none.
	Secrets *mask.Secrets
}

// A Model is a name and where calls for it go.
type Model struct {
	Name string
	// Routes are tried one after the other, beginning at the one whose turn
	// it is by weight.
	Routes []Route
	// Fallbacks are the models that are tried after all routes, in order.
	Fallbacks []string
	// Budget bounds the calls that go to the model, those that fall back to it among
	// them; nil does not. Price is what its tokens cost, nil if that is not known.
	Budget *Budget
	Price  *Price
	// Composed says that its provider makes calls of the broker, which count for
	// themselves: in the accounts, and on the budget of the client.
	Composed bool
}

// A Route leads to a model of a backend.
type Route struct {
	Backend *Backend
	// Model is the backend's name for the model; "" is the name that was asked for,
	// or that was fallen back to.
	Model string
	// Weight is how often the route goes first, relative to others; 0 is 1.
	Weight int
}

// A Backend is a provider and how it is to be treated. The zero limits are none.
type Backend struct {
	Name     string
	Provider provider.Provider
	// KeyEnv is the environment variable that holds the provider's key, "" if there is none.
	KeyEnv string
	// Concurrency is how many calls it gets at once.
	Concurrency int
	// Rate is how many calls it gets in a second, Burst how many of them at once.
	Rate  float64
	Burst int
	// Retries is how often a failed call is made again; Backoff is how long
	// the first retry waits, each further one twice as long, with jitter, and
	// at least as long as the backend asks for, but never over MaxWait: then
	// the next route has its turn.
	Retries          int
	Backoff, MaxWait time.Duration
	// Breaker is how many failures in a row make the backend be left alone,
	// and BreakerDelay for how long.
	Breaker      int
	BreakerDelay time.Duration
	// FirstPart bounds the wait for the first part of a stream, Total a whole
	// attempt.
	FirstPart, Total time.Duration
}
