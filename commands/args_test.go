package commands

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/transport"
)

// A tried is what a command line came to, for a command that takes two operands
// and an endpoint.
type tried struct {
	Operands []string
	Endpoint string
	Listens  string
	Opts     transport.Options
}

func try(t *testing.T, words ...string) (got tried, err error) {
	t.Helper()
	inv := newInvocation(Env{})
	app := newApp(inv)
	app.Commands = append(app.Commands, inv.withEndpoint(&cli.Command{
		Name:  "try",
		Flags: append([]cli.Flag{&cli.StringFlag{Name: "flag", Aliases: []string{"f"}}}, listenFlags()...),
		Action: inv.does(func(inv *invocation, c *cli.Context) error {
			e, err := inv.endpoint(c, 2)
			if err != nil {
				return err
			}
			got.Endpoint = e.String()
			got.Operands = inv.Operands
			if got.Opts, err = inv.transportOptions(c); err != nil || c.String("listen") == "" {
				return err
			}
			l, err := inv.listen(c, false)
			if err != nil {
				return err
			}
			got.Listens = l.Addr()
			return l.Close()
		}),
	}))
	args, err := inv.Arrange(app, append([]string{"wirectl", "try"}, words...))
	if err == nil {
		err = app.RunContext(t.Context(), args)
	}
	return got, err
}

// The endpoint is the end of the line, and its words are nobody else's.
func TestEndpointOnTheLine(t *testing.T) {
	for _, tt := range []struct {
		line     string
		operands []string
		endpoint string
	}{
		{"-- cat -f x", nil, "-- cat -f x"},
		{"exec cat -- x", nil, "-- cat -- x"},
		{"--flag x one two -- cat", []string{"one", "two"}, "-- cat"},
		{"one --flag=x -- cat", []string{"one"}, "-- cat"},
		{"-f ssh stdio", nil, "stdio"}, // the flag's value
		{"--flag tcp://a:1 unix:///run/s", nil, "unix:///run/s"},
		{"-- help", nil, "-- help"},
		{"-- --help", nil, "-- --help"},
		{"-- ssh host", nil, "-- ssh host"}, // a local program, whatever its name
		{"-- -- x", nil, "-- -- x"},
		{"ssh -p 22 host ls -l --flag", nil, "ssh -p 22 host ls -l --flag"},
		{"ssh -- host", nil, "ssh -- host"},
		{"--runtime crun container web sh -c ls", nil, "container web sh -c ls"},
		{"mcp - tcp://localhost:7000", []string{"mcp", "-"}, "tcp://localhost:7000"},
		{"mcp {\"u\":\"http://x\"} http://localhost/mcp", []string{"mcp", "{\"u\":\"http://x\"}"}, "http://localhost/mcp"},
	} {
		got, err := try(t, strings.Fields(tt.line)...)
		if err != nil {
			t.Errorf("%s: %v", tt.line, err)
			continue
		}
		if got.Endpoint != tt.endpoint || !slices.Equal(got.Operands, tt.operands) {
			t.Errorf("%s: operands %q, endpoint %q", tt.line, got.Operands, got.Endpoint)
		}
	}
}

func TestWrongEndpointOnTheLine(t *testing.T) {
	for line, want := range map[string]string{
		"":                          "no endpoint: end with one such as tcp://HOST:PORT, or -- and a command",
		"one two":                   "no endpoint: end with one",
		"one two three":             `invalid endpoint "three": write a program after -- or exec, as in -- three`,
		"one two localhost:7000":    `for TCP write tcp://localhost:7000`,
		"one two run/a.sock":        `for a Unix socket write unix://run/a.sock`,
		"tcp://a:1 --flag x":        `tcp://a:1 is a complete endpoint, but "--flag" follows it`,
		"one tcp://a:1 two":         `but "two" follows it`,
		"npx -y server":             "try has no flag -y; write a program, with its own flags, after -- or exec",
		"--flog x -- cat":           "try has no flag --flog (did you mean --flag?)",
		"--":                        "-- needs a command",
		"unx:///a":                  `unknown kind of endpoint "unx" (did you mean unix?)`,
		"tcp://a":                   "no port: want tcp://HOST:PORT",
		"--grace 0s stdio":          "invalid --grace 0s: want a duration such as 2s",
		"--tls-cert a stdio":        "give both --tls-cert and --tls-key",
		"--header x stdio":          `invalid --header "x": want NAME: VALUE`,
		"--insecure --tls-pin 0 --": "give one of them",
	} {
		_, err := try(t, strings.Fields(line)...)
		if status(err) != statusUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}

func TestTransportOptions(t *testing.T) {
	got, err := try(t, "--quote", "--runtime", "crun", "--grace", "2s", "--subprotocol", "a", "--subprotocol", "b",
		"--header", "Authorization: Bearer x", "--tls-ca", "ca", "--tls-cert", "cert", "--tls-key", "key", "--tls-pin", "00", "--remote", "stdio")
	if err != nil {
		t.Fatal(err)
	}
	got.Opts.Notice, got.Opts.Schemes = nil, nil
	want := transport.Options{
		Quote: true, Runtime: "crun", Grace: 2 * time.Second, Subprotocols: []string{"a", "b"},
		Header: map[string][]string{"Authorization": {"Bearer x"}},
		TLS:    transport.TLS{CA: "ca", Cert: "cert", Key: "key", Pin: "00"},
		Remote: true,
	}
	if diff := cmp.Diff(want, got.Opts); diff != "" {
		t.Error(diff)
	}
}

func TestListenFlag(t *testing.T) {
	got, err := try(t, "--listen", "tcp://127.0.0.1:0", "stdio")
	if err != nil || !strings.HasPrefix(got.Listens, "tcp://127.0.0.1:") {
		t.Errorf("listens at %q, %v", got.Listens, err)
	}
	if _, err := try(t, "--listen", "tcp://0.0.0.0:0", "stdio"); err == nil || !strings.Contains(err.Error(), "give --remote if they may") {
		t.Error(err)
	}
}
