package python_test

import (
	"context"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/wirectl/wirectl/rlm"
	"github.com/wirectl/wirectl/rlm/env"
	"github.com/wirectl/wirectl/rlm/env/python"
	"github.com/wirectl/wirectl/rlm/sandbox"
	"github.com/wirectl/wirectl/test/kit/envtest"
)

func TestMain(m *testing.M) {
	sandbox.Main()
	goleak.VerifyTestMain(m)
}

type echo = envtest.Echo

var (
	same    = envtest.Same
	blocked = envtest.Blocked
	write   = envtest.Write
)

var found = sync.OnceValues(func() (python.Interpreter, error) { return python.Find(context.Background()) })

func find(t testing.TB) python.Interpreter {
	t.Helper()
	p, err := found()
	switch {
	case err == nil:
		return p
	case os.Getenv("CI") != "":
		t.Fatal(err)
	}
	t.Skip(err)
	return p
}

// An interpreter is an environment under test.
type interpreter struct {
	*envtest.Interpreter
}

func start(t testing.TB, c env.Config, o python.Options) *interpreter {
	t.Helper()
	p := find(t)
	return &interpreter{envtest.Start(t, c, func(c env.Config) (*env.Env, error) { return python.New(p, c, o), nil })}
}

func (i *interpreter) run(code string) rlm.Result {
	i.Helper()
	return i.Run(code)
}

func (i *interpreter) prints(code, want string) rlm.Result {
	i.Helper()
	return i.Prints(code, want)
}

func (i *interpreter) fails(code, want string) rlm.Result {
	i.Helper()
	return i.Fails(code, want)
}
