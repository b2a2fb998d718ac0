package commands

import (
	"errors"
	"os"
	"runtime"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/internal/prices"
	"github.com/wirectl/wirectl/run/spec"
	"github.com/wirectl/wirectl/table"
)

func testCommand(inv *invocation) *cli.Command {
	return &cli.Command{
		Name: "test", Category: reading, Usage: "test what agents do: tools, outcome, findings, cost", ArgsUsage: "FILE…",
		Description: "A spec is a YAML FILE, or a folder of them. It names a session, or a command that is\n" +
			"run afresh and recorded, and says what is expected. The status is 3 if something is\n" +
			"otherwise, 1 if it could not be tested. docs/test.md has all that a spec may say.\n\n" +
			"   wirectl test --record run:latest > spec.yaml\n   wirectl test spec.yaml\n   wirectl test --runs 5 --pass 4 -o junit specs > specs.xml",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: table.AsText, Usage: "what to print: text or junit"},
			&cli.BoolFlag{Name: "record", Usage: "print a spec that a SESSION meets; for run:ID, one that runs its command afresh"},
			&cli.IntFlag{Name: "jobs", Value: runtime.GOMAXPROCS(0), DefaultText: "the number of processors", Usage: "test `N` specs at once"},
			&cli.IntFlag{Name: "runs", Value: 1, Usage: "run each command `N` times"},
			&cli.IntFlag{Name: "pass", Usage: "with --runs: `N` of them must pass (default: all)"},
			pricesFlag(), colorFlag("the output"), quietFlag(),
		},
		Action: inv.does(runTest, excludes("record", "runs", "output junit"), needs("pass", "runs")),
	}
}

// specReader reads sessions for specs.
func specReader(inv *invocation, c *cli.Context) (*spec.Reader, error) {
	book, err := prices.LoadBook(c.String("prices"), inv.Getenv)
	return &spec.Reader{Opener: inv.opener(), Config: decode.Config{Calls: new(streamConfig).calls(), Prices: book}}, err
}

func runTest(inv *invocation, c *cli.Context) error {
	suite := spec.Suite{Jobs: c.Int("jobs"), Runs: c.Int("runs"), Pass: c.Int("pass"), Environ: os.Environ()}
	if !c.IsSet("pass") {
		suite.Pass = suite.Runs
	}
	var err error
	switch suite.Reader, err = specReader(inv, c); {
	case err != nil:
		return err
	case c.Bool("record") && len(inv.Operands) != 1:
		return usagef("--record takes one session, such as run:latest")
	case c.Bool("record"):
		return misnamed(suite.Reader.Record(c.Context, inv.Operands[0], inv.Stdout))
	case len(inv.Operands) == 0:
		return usagef("name a spec, or a folder of them; wirectl test --record run:latest writes one")
	case suite.Jobs < 1 || suite.Runs < 1 || suite.Pass < 1 || suite.Pass > suite.Runs:
		return usagef("--jobs and --runs are over 0, and --pass is from 1 to --runs")
	}
	if suite.Out, err = inv.table(c, table.AsText, table.AsJUnit); err != nil {
		return err
	}
	if suite.Specs, err = spec.ReadAll(inv.Operands, func(err error) { report(inv.Stderr, err) }); err != nil {
		return asUsage(err)
	}
	inv.Terminable()
	inv.Linger(spec.Parting + time.Second)
	switch result, err := suite.Run(c.Context); {
	case err != nil:
		return err
	case result.Unable > 0:
		return errors.New(result.String())
	case result.Failed > 0:
		return &faultError{errors.New(result.String())}
	default:
		inv.unlessQuiet(c, result.String())
		return nil
	}
}
