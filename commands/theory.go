package commands

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/internal/cmdline"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/peer/theory"
	dialect "github.com/wirectl/wirectl/protocol/theory"
	"github.com/wirectl/wirectl/transport"
)

func theoryCommand(inv *invocation) *cli.Command {
	return inv.endingInEndpoint(&cli.Command{
		Name:      "theory",
		Category:  speaking,
		Usage:     "serve a tool over theory.run.v1, or resolve an intent into a request",
		ArgsUsage: "serve [-- PROGRAM…] | resolve [INTENT]",
		Description: "serve runs a tool for each request: a program that reads the request as a line of\n" +
			"JSON and answers with lines (docs/theory.md), or a Python tool. Without either, the\n" +
			"outputs are the inputs. resolve turns an intent, a JSON object with inputs and\n" +
			"outputs, into a Request: presigned URLs for NAME.world, paths for NAME.local.\n\n" +
			"   wirectl theory serve --tool ./mytool\n" +
			"   wirectl send --input text=hi theory ws://127.0.0.1:8090\n" +
			"   wirectl theory resolve --run-id r1 --world w1 intent.json >request.json\n" +
			"   wirectl send --request request.json theory ws://127.0.0.1:8090",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "listen", Value: "127.0.0.1:8090", Usage: "serve: listen on `HOST:PORT`"},
			&cli.BoolFlag{Name: "remote", Usage: "serve: allow --listen beyond loopback"},
			allowOriginFlag(),
			&cli.StringFlag{Name: "handler", Usage: "serve: run the shell command `CMD` for each run"},
			&cli.StringFlag{Name: "tool", Usage: "serve: run the Python tool in `DIR`: protocol/handler.py with entry(payload, emit, ctrl)"},
			&cli.StringFlag{Name: "python", Value: "python3", Usage: "serve: run Python tools with `PROGRAM`"},
			&cli.StringFlag{Name: "digest", Usage: "serve: report `TEXT` as the tool's digest at /healthz"},
			&cli.IntFlag{Name: "max-runs", Value: 16, Usage: "serve: run `N` runs at once; others wait"},
			&cli.BoolFlag{Name: "refuse", Usage: "serve: reject runs beyond --max-runs instead of queueing them"},
			&cli.StringFlag{Name: "dialect", Value: "D", Usage: "serve: speak this dialect: D (documented), C, B or A (oldest)"},
			&cli.StringFlag{Name: "artifacts", Usage: "serve: map /artifacts/ to `DIR`"},
			&cli.BoolFlag{Name: "plain-http", Usage: "serve: allow inputs and outputs on this machine, and http://"},
			&cli.BoolFlag{Name: "private-network", Usage: "serve: allow inputs and outputs at private addresses of other machines"},
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "serve: print only errors on stderr"},
			&cli.StringFlag{Name: "run-id", Usage: "resolve: the `ID` of the run (default: the intent's, or a new one)"},
			&cli.StringFlag{Name: "mode", Usage: "resolve: override the mode of the intent: mock or real"},
			&cli.StringFlag{Name: "world", Usage: "resolve: the `ID` of the world"},
			&cli.StringFlag{Name: "s3", Usage: "resolve: the `URL` of an S3-compatible store; keys come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"},
			&cli.StringFlag{Name: "bucket", Value: "artifacts", Usage: "resolve: the `NAME` of the bucket"},
			&cli.StringFlag{Name: "region", Value: "us-east-1", Usage: "resolve: the `NAME` of the store's region"},
		},
		Action: inv.does(runTheory),
	})
}

func runTheory(inv *invocation, c *cli.Context) error {
	switch words := inv.Operands; {
	case len(words) == 1 && words[0] == "serve":
		return serveTheory(inv, c)
	case len(words) > 0 && len(words) <= 2 && words[0] == "resolve":
		return resolveTheory(inv, c, append(words[1:], "-")[0])
	}
	return usagef("want wirectl theory serve or wirectl theory resolve")
}

// runsEnd is how long a runtime that was told to end may take to answer its runs. Their
// workers have two seconds to end by themselves.
const runsEnd = 10 * time.Second

func serveTheory(inv *invocation, c *cli.Context) error {
	o := theory.Options{
		Digest: c.String("digest"), MaxRuns: c.Int("max-runs"), Refuse: c.Bool("refuse"),
		Files: theory.Files{Root: c.String("artifacts"), PlainHTTP: c.Bool("plain-http"), PrivateNetwork: c.Bool("private-network")},
		Log:   inv.logger(c.Bool("quiet")),
		Listener: transport.Options{
			Remote: c.Bool("remote"),
			Notice: func(string) { // its hint is about TLS
				fmt.Fprintf(inv.Stderr, "wirectl: anyone who reaches %s can start runs: put a proxy with authentication in front of it\n", c.String("listen"))
			},
		},
	}
	var err error
	if o.Listener.Origins, err = allowedOrigins(c); err != nil {
		return err
	}
	if o.Dialect, err = dialect.ParseDialect(c.String("dialect")); err != nil {
		return usagef("invalid --dialect %w", err)
	}
	handler, err := theoryHandler(inv, c, &o)
	if err != nil {
		return err
	}
	address, err := o.Listener.ListenOn(c.String("listen"))
	if err != nil {
		return usagef("%w", err)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(c.Context, "tcp", address)
	if err != nil {
		return asTyped(c.String("listen"), err)
	}
	inv.unlessQuiet(c, fmt.Sprintf("listening at ws://%s/run", l.Addr()))
	inv.Terminable()
	inv.Linger(runsEnd)
	return theory.New(handler, o).Serve(c.Context, l)
}

// theoryHandler returns what answers runs.
func theoryHandler(inv *invocation, c *cli.Context, o *theory.Options) (theory.Handler, error) {
	program, command, dir := inv.Endpoint, c.String("handler"), c.String("tool")
	switch {
	case len(program) > 0 && command+dir != "", command != "" && dir != "":
		return nil, usagef("give one of --handler CMD, --tool DIR and -- PROGRAM")
	case len(program) > 0 && program[0] != "--" && program[0] != "exec" || len(program) == 1:
		return nil, usagef("write the program after --, as in -- python3 handler.py")
	case len(program) > 0:
		return &theory.Process{Argv: program[1:], Log: o.Log}, nil
	case command != "":
		return theory.Shell(command, o.Log), nil
	case dir != "":
		return theory.Tool(c.String("python"), dir, o.Log)
	}
	return theory.HandlerFunc(theory.Echo), nil
}

func resolveTheory(inv *invocation, c *cli.Context, name string) error {
	data, err := inv.readFile(c.Context, name)
	if err != nil {
		return err
	}
	intent, err := parseIntent(name, data)
	if err != nil {
		return err
	}
	control := &intent.Control
	if id := c.String("run-id"); id != "" {
		control.RunID = quoted(id)
	} else if control.RunID == nil {
		control.RunID = quoted("run-" + rand.Text())
	}
	intent.Kind, control.Mode = "Request", cmp.Or(c.String("mode"), control.Mode, "mock")
	scope, err := theoryScope(inv, c, control.RunID)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(intent.Outputs)) {
		if !theory.HasScope(name) {
			fmt.Fprintf(inv.Stderr, "wirectl: the output %q names no place (NAME.world or NAME.local): it will come back inline\n", name)
		}
	}
	intent.Inputs, intent.Outputs, err = scope.Resolve(c.Context, intent.Inputs, intent.Outputs)
	if err != nil {
		return cmdline.WithUnset(c, err, "run-id", "world", "s3")
	}
	e := jsonscan.NewEncoder(inv.ndjson())
	e.SetIndent("", "  ")
	return e.Encode(intent)
}

func parseIntent(name string, data []byte) (*theory.Intent, error) {
	read, err := theory.ParseIntent(data)
	if err != nil {
		return nil, &faultError{fmt.Errorf("%s is not an intent: %w", label(name), err)}
	}
	return read, nil
}

// theoryScope reads the flags that say where what an intent names is.
func theoryScope(inv *invocation, c *cli.Context, runID json.RawMessage) (theory.Scope, error) {
	scope := theory.NewScope(runID, c.String("world"))
	endpoint := c.String("s3")
	if endpoint == "" {
		return scope, nil
	}
	b := theory.Bucket{
		Endpoint: endpoint, Name: c.String("bucket"), Region: c.String("region"),
		Key: inv.Getenv("AWS_ACCESS_KEY_ID"), Secret: inv.Getenv("AWS_SECRET_ACCESS_KEY"), Token: inv.Getenv("AWS_SESSION_TOKEN"),
	}
	if b.Key == "" || b.Secret == "" {
		return scope, usagef("--s3 needs keys: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
	}
	scope.Presign = b.Presign
	return scope, nil
}
