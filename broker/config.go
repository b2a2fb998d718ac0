package broker

import (
	"time"

	"github.com/wirectl/wirectl/broker/mask"
	"github.com/wirectl/wirectl/broker/provider"
)

// A Config is the configuration of a broker. It is never changed.
type Config struct {
	// Default is the model for calls that name none.
	Default string
	// Models are the models. A name may have one '*', which stands for any text; exact
	// names take precedence, then the longest pattern.
	Models []Model
	// Aliases are further names of models.
	Aliases map[string]string
	// Clients are the budgets of clients, nil for one without, by their names.
	Clients map[string]*Budget
	// Batch is how many calls of one batch run at once; 0 is 16.
	Batch int
	// Group is the state that the broker shares with others; nil is none.
	Group Group
	// Workers serve the models that they offer and the configuration does not have; nil is
	// none.
	Workers Workers
	// Secrets are masked in the answers of providers; nil is none.
	Secrets *mask.Secrets
}

// A Model is a name and the targets of calls for it.
type Model struct {
	Name string
	// Routes are tried one after the other, beginning with the one whose turn it is by
	// weight.
	Routes []Route
	// Fallbacks are the models that are tried after all routes, in order.
	Fallbacks []string
	// Budget bounds the calls to the model, including fallbacks; nil does not. Price is the
	// price of its tokens, nil if unknown.
	Budget *Budget
	Price  *Price
	// Composed says that its provider makes calls of the broker, which are counted
	// separately in the accounts and on the client's budget.
	Composed bool
}

// A Route leads to a model of a backend.
type Route struct {
	Backend *Backend
	// Model is the backend's name for the model; "" is the requested name, or that of the
	// fallback.
	Model string
	// Weight is how often the route goes first, relative to others; 0 is 1.
	Weight int
}

// A Backend is a provider with its limits. A limit of zero means unlimited.
type Backend struct {
	Name     string
	Provider provider.Provider
	// KeyEnv is the environment variable that holds the provider's key, "" if there is none.
	KeyEnv string
	// Concurrency is how many calls run at once.
	Concurrency int
	// Rate is how many calls begin in a second, Burst how many of them at once.
	Rate  float64
	Burst int
	// Retries is how often a failed call is retried. The first retry waits for Backoff,
	// each further one twice as long, with jitter, and at least as long as the backend asks
	// for. If that exceeds MaxWait, the next route is tried instead.
	Retries          int
	Backoff, MaxWait time.Duration
	// Breaker is how many failures in a row open the breaker, and BreakerDelay how long it
	// stays open.
	Breaker      int
	BreakerDelay time.Duration
	// FirstPart bounds the wait for the first part of a stream, Total a whole
	// attempt.
	FirstPart, Total time.Duration
}
