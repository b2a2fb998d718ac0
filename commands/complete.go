package commands

import (
	"cmp"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/wirectl/wirectl/broker/config"
	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/completions"
	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/decode/source"
	"github.com/wirectl/wirectl/internal/cmdline"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/relay/wrap"
	"github.com/wirectl/wirectl/run/agent"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/calls"
	"github.com/wirectl/wirectl/session/lint"
	"github.com/wirectl/wirectl/session/query"
	"github.com/wirectl/wirectl/store"
	"github.com/wirectl/wirectl/transport"
)

// completeWord is the command that the scripts of package completions run. It is checked before
// all others, so that Tab never runs another command.
const completeWord = "__complete"

type candidate = cmdline.Candidate

// endpointCandidates are what an ENDPOINT can begin with.
var endpointCandidates = mapped(transport.Beginnings, func(b [2]string) candidate { return candidate{Value: b[0], About: b[1]} })

// completer completes the words that help names.
func completer(inv *invocation) *cmdline.Completer {
	return &cmdline.Completer{
		Operand: inv.operandCompletion,
		Values: map[string]func(string) []candidate{
			"ADDRESS": addressCandidates, "FINDING": findingCandidates, "DOOR=ADDR": doorCandidates,
			"CONDITION": func(text string) []candidate { return conditionCandidates(text, &decode.Fields) },
			"EXPR":      func(text string) []candidate { return conditionCandidates(text, &calls.Fields) },
			"FILTER": func(text string) []candidate {
				return append(cmdline.Plain(store.Words), conditionCandidates(text, &query.Fields{Names: store.FieldNames(), Values: decode.Fields.Values})...)
			},
			"WHAT": func(text string) []candidate { return append(severityCandidates(), findingCandidates(text)...) },
		},
		Endpoints: endpointCandidates,
	}
}

// operandCompletion completes an operand by its name in the ArgsUsage of the command, after the
// operands that were seen.
func (inv *invocation) operandCompletion(word string, seen []string) cmdline.Completion {
	var found cmdline.Completion
	switch word {
	case "CONFIG", "OUT", "INTENT", "PROGRAM":
		found.Shell = ":files"
	case "FILE", "SESSION", "IN", "A", "B":
		found.Candidates, found.Shell = slices.Concat(tapCandidates(inv.Getenv), runCandidates(inv.Getenv), sessionCandidates(inv.Getenv), transcriptCandidates(inv.Getenv), fixtureCandidates()), ":files"
	case "ID":
		found.Candidates = append(sessionCandidates(inv.Getenv), runCandidates(inv.Getenv)...)
	case "AGENT":
		found.Candidates = mapped(agent.Kinds, func(k agent.Kind) candidate { return candidate{Value: k.Name} })
	case "CLIENT":
		found.Candidates, found.Shell = cmdline.Plain(wrap.Words()), ":files"
	case "SERVER":
		found.Candidates = serverCandidates(inv.Getenv, seen)
	case "PROTOCOL":
		found.Candidates = cmdline.Plain(sendProtocols)
	case "SHELL":
		found.Candidates = cmdline.Plain(completions.Shells)
	}
	return found
}

// tapCandidates are the taps that are open now.
func tapCandidates(getenv func(string) string) []candidate {
	dir, err := tap.Dir(getenv)
	if err != nil {
		return nil
	}
	running, err := tap.List(dir, nil)
	if err != nil || len(running) == 0 {
		return nil
	}
	return append([]candidate{{Value: "live", About: "the newest tap"}}, mapped(running, func(info tap.Info) candidate {
		return candidate{Value: "tap:" + info.Name, About: strings.Join(info.Command, " ")}
	})...)
}

// serverCandidates are the servers in the client's configuration that the first operand names;
// none if that cannot be read.
func serverCandidates(getenv func(string) string, seen []string) []candidate {
	if len(seen) != 1 {
		return nil
	}
	file := seen[0]
	if rest, ok := strings.CutPrefix(file, "~/"); ok { // the shell expands it only when the line is run
		file = filepath.Join(getenv("HOME"), rest)
	}
	return mapped(wrap.Completable(file), func(s wrap.Server) candidate {
		return candidate{Value: s.Name, About: map[bool]string{true: "runs through wirectl"}[s.Wrapped]}
	})
}

// sessionCandidates are the recorded sessions.
func sessionCandidates(getenv func(string) string) []candidate {
	return mapped(history.Known(getenv), func(s history.Session) candidate { return candidate{Value: s.ID, About: render.Safe(s.About())} })
}

// runCandidates are the recorded runs.
func runCandidates(getenv func(string) string) (found []candidate) {
	runs, _ := history.Runs(getenv)
	for i, r := range runs {
		if i == 0 {
			found = append(found, candidate{Value: "run:" + history.Latest, About: "the newest run"})
		}
		found = append(found, candidate{Value: "run:" + r.ID, About: render.Safe(r.About())})
	}
	return found
}

// transcriptCandidates are the newest transcripts of agents. They tell nothing of the content.
func transcriptCandidates(getenv func(string) string) (found []candidate) {
	const most = 50
	latest := map[string]bool{}
	list := source.Transcripts(getenv)
	for _, t := range list[:min(most, len(list))] {
		about := t.Time.Local().Format("2006-01-02 15:04")
		if !latest[t.Agent] {
			latest[t.Agent] = true
			found = append(found, candidate{Value: t.Agent + ":latest", About: "the newest transcript"})
		}
		found = append(found, candidate{Value: t.Name, About: about})
	}
	return found
}

func fixtureCandidates() []candidate {
	return mapped(source.Fixtures(), func(name string) candidate {
		return candidate{Value: "fixture:" + name, About: "a session that is built in"}
	})
}

func findingCandidates(string) []candidate {
	return mapped(lint.Rules, func(r session.Rule) candidate { return candidate{Value: r.Name, About: r.Rule} })
}

// conditionCandidates are the fields of a condition, and after the operator the values of a field, if these
// are few or known.
func conditionCandidates(text string, fields *query.Fields) []candidate {
	if !strings.ContainsRune(text, '=') {
		return mapped(fields.Names, func(name string) candidate {
			if slices.Contains(fields.Flags, name) {
				return candidate{Value: name}
			}
			return candidate{Value: name + "=="}
		})
	}
	name, _, differs := strings.Cut(text, "!=")
	operator := map[bool]string{true: "!="}[differs]
	name, _, _ = strings.Cut(name, "=")
	values := fields.Values[name]
	switch name {
	case "kind":
		values = all.Kinds()
	case "wire":
		values = []string{"agent", "model"}
	case "edge":
		values = []string{calls.Exact.String(), calls.Matched.String()}
	}
	return mapped(values, func(value string) candidate { return candidate{Value: name + cmp.Or(operator, "==") + value} })
}

func severityCandidates() []candidate {
	return mapped([]session.Severity{session.Error, session.Warning, session.Note}, func(s session.Severity) candidate {
		return candidate{Value: s.String()}
	})
}

// addressCandidates are the schemes of endpoints.
func addressCandidates(string) []candidate {
	return slices.DeleteFunc(slices.Clone(endpointCandidates), func(e candidate) bool { return !strings.HasSuffix(e.Value, "://") })
}

func doorCandidates(string) []candidate {
	return mapped(config.Doors, func(d config.Door) candidate { return candidate{Value: d.Name + "="} })
}

func completionCommand(inv *invocation) *cli.Command {
	return &cli.Command{
		Name:      "completion",
		Category:  about,
		Usage:     "print a shell completion script",
		ArgsUsage: "SHELL",
		Description: "Shells: " + strings.Join(completions.Shells, ", ") + ". The top of the script says\n" +
			"where to install it. To try it:\n\n" +
			"   source <(wirectl completion bash)",
		Action: func(*cli.Context) error {
			if len(inv.Operands) != 1 {
				return usagef("name one shell: %s", strings.Join(completions.Shells, ", "))
			}
			script, err := completions.Script(inv.Operands[0])
			if err != nil {
				return usagef("%w", err)
			}
			_, err = io.WriteString(inv.Stdout, script)
			return err
		},
	}
}
