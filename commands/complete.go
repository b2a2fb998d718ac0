package commands

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/broker/config"
	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/completions"
	"github.com/wirectl/wirectl/fixtures"
	"github.com/wirectl/wirectl/internal/cmdline"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/relay/wrap"
	"github.com/wirectl/wirectl/session"
	"github.com/wirectl/wirectl/session/lint"
)

// completeWord is the command by which the scripts of package completions ask.
// It stands ahead of all others, so that no Tab ever runs one.
const completeWord = "__complete"

type candidate = cmdline.Candidate

// endpointCandidates are what an ENDPOINT can begin with.
var endpointCandidates = []candidate{
	{Value: "--", About: "a program, with its arguments"},
	{Value: "exec", About: "a program, with its arguments"},
	{Value: "ssh", About: "a program elsewhere: what you would type for ssh"},
	{Value: "container", About: "a program in a running container"},
	{Value: "stdio", About: "our own standard input and output"},
	{Value: "tcp://", About: "HOST:PORT"},
	{Value: "tls://", About: "HOST:PORT"},
	{Value: "unix://", About: "PATH of a socket"},
	{Value: "ws://", About: "a WebSocket"},
	{Value: "wss://", About: "a WebSocket in TLS"},
	{Value: "http://", About: "an HTTP server"},
	{Value: "https://", About: "an HTTP server in TLS"},
	{Value: "quic://", About: "HOST:PORT"},
	{Value: "grpc://", About: "HOST:PORT"},
	{Value: "grpcs://", About: "HOST:PORT, in TLS"},
}

// completer knows what stands for the words that help names.
func completer(inv *invocation) *cmdline.Completer {
	return &cmdline.Completer{
		Operand: inv.operandCompletion,
		Values: map[string]func() []candidate{
			"ADDRESS": addressCandidates, "FINDING": findingCandidates, "DOOR=ADDR": doorCandidates,
			"WHAT": func() []candidate { return append(severityCandidates(), findingCandidates()...) },
		},
		Endpoints: endpointCandidates,
	}
}

// operandCompletion completes an operand by the word for it in the ArgsUsage of
// its command, behind those that were seen.
func (inv *invocation) operandCompletion(word string, seen []string) cmdline.Completion {
	var found cmdline.Completion
	switch word {
	case "CONFIG", "OUT", "INTENT", "PROGRAM":
		found.Shell = ":files"
	case "FILE", "SESSION", "IN", "A", "B":
		found.Candidates, found.Shell = slices.Concat(tapCandidates(inv.Getenv), sessionCandidates(inv.Getenv), fixtureCandidates()), ":files"
	case "ID":
		found.Candidates = sessionCandidates(inv.Getenv)
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
	list := []candidate{{Value: "live", About: "the newest tap"}}
	for _, info := range running {
		list = append(list, candidate{Value: "tap:" + info.Name, About: strings.Join(info.Command, " ")})
	}
	return list
}

// serverCandidates are the servers of the client's configuration that the one
// operand so far names; none if that cannot be read.
func serverCandidates(getenv func(string) string, seen []string) []candidate {
	if len(seen) != 1 {
		return nil
	}
	file := seen[0]
	if rest, ok := strings.CutPrefix(file, "~/"); ok { // what a shell does once the line is whole
		file = filepath.Join(getenv("HOME"), rest)
	}
	return candidatesOf(wrap.Completable(file), func(s wrap.Server) candidate {
		return candidate{Value: s.Name, About: map[bool]string{true: "runs through wirectl"}[s.Wrapped]}
	})
}

// sessionCandidates are the recorded sessions.
func sessionCandidates(getenv func(string) string) []candidate {
	return candidatesOf(history.Known(getenv), func(s history.Session) candidate { return candidate{Value: s.ID, About: render.Safe(s.About())} })
}

// candidatesOf returns what stands for each item of a list.
func candidatesOf[T any](list []T, of func(T) candidate) []candidate {
	var found []candidate
	for _, item := range list {
		found = append(found, of(item))
	}
	return found
}

func fixtureCandidates() []candidate {
	return candidatesOf(fixtures.Sessions(), func(name string) candidate {
		return candidate{Value: "fixture:" + name, About: "a session that is built in"}
	})
}

func findingCandidates() []candidate {
	return candidatesOf(lint.Rules, func(r session.Rule) candidate { return candidate{Value: r.Name, About: r.Rule} })
}

func severityCandidates() []candidate {
	return candidatesOf([]session.Severity{session.Error, session.Warning, session.Note}, func(s session.Severity) candidate {
		return candidate{Value: s.String()}
	})
}

// addressCandidates are the schemes of endpoints.
func addressCandidates() []candidate {
	return slices.DeleteFunc(slices.Clone(endpointCandidates), func(e candidate) bool { return !strings.HasSuffix(e.Value, "://") })
}

func doorCandidates() []candidate {
	return candidatesOf(config.Doors, func(d config.Door) candidate { return candidate{Value: d.Name + "="} })
}
