package otlp_test

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/wirectl/wirectl/internal/otlp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func nothing(string) string { return "" }

// Headers for a collector come as OpenTelemetry has them in the environment; what
// is none is told of without its value.
func TestHeaders(t *testing.T) {
	got, err := otlp.Headers("api-key=a%20b%3D, X-Team = blue ,,x-team=red")
	if want := (http.Header{"Api-Key": {"a b="}, "X-Team": {"blue", "red"}}); err != nil || !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("got %v, %v", got, err)
	}
	for _, bad := range []string{"secret", "a=b,=secret", "a b=secret", "a=secret%0d%0aX: y", "a=secret%zz"} {
		if _, err := otlp.Headers(bad); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// An address that nothing could be sent to is refused at once.
func TestNoCollector(t *testing.T) {
	for _, address := range []string{"localhost:4318", "ftp://localhost", "http://", "/v1/traces", "http://a b", "http://localhost?key=x"} {
		if _, err := otlp.New(otlp.Options{URL: address, Getenv: nothing}); err == nil {
			t.Errorf("%s is taken", address)
		}
	}
}

// That a collector refuses spans and metrics, or is not there, is told once, and nobody
// waits.
func TestRefused(t *testing.T) {
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }))
	absent := httptest.NewServer(http.NotFoundHandler())
	absent.Close()
	defer refusing.Close()
	for address, why := range map[string]string{refusing.URL: "500", absent.URL: "refused"} {
		var mu sync.Mutex
		var told []string
		e, err := otlp.New(otlp.Options{URL: address, Getenv: nothing, Warn: func(text string) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, text)
		}})
		if err != nil {
			t.Fatal(err)
		}
		for range 5000 {
			e.Send(&otlp.Span{Name: "a", Start: time.Now(), End: time.Now()})
			e.Measure(otlp.MCPDuration, 1)
		}
		if err := e.Close(t.Context()); err != nil || len(told) != 1 || !strings.Contains(told[0], why) {
			t.Errorf("%v, told %q", err, told)
		}
	}
}

// An address that ends in /v1/traces is that of one who takes spans alone.
func TestSpansAlone(t *testing.T) {
	for path, want := range map[string]string{"/a": "/a/v1/metrics /a/v1/traces", "/a/v1/traces": "/a/v1/traces"} {
		var mu sync.Mutex
		var asked []string
		collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, r.URL.Path)
		}))
		e, err := otlp.New(otlp.Options{URL: collector.URL + path, Getenv: nothing})
		if err != nil {
			t.Fatal(err)
		}
		e.Send(&otlp.Span{Name: "a", Start: time.Now(), End: time.Now()})
		e.Measure(otlp.MCPDuration, 1)
		if err := e.Close(t.Context()); err != nil {
			t.Error(err)
		}
		collector.Close()
		slices.Sort(asked)
		if got := strings.Join(asked, " "); got != want {
			t.Errorf("%s: asked %s", path, got)
		}
	}
}
