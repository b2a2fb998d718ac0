package commands

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/wirectl/wirectl/broker/config"
	"github.com/wirectl/wirectl/capture/tap"
	"github.com/wirectl/wirectl/completions"
	"github.com/wirectl/wirectl/fixtures"
	"github.com/wirectl/wirectl/internal/cmdline"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/relay/wrap"
	"github.com/wirectl/wirectl/session"
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
		found.Candidates, found.Shell = append(tapCandidates(inv.Getenv), fixtureCandidates()...), ":files"
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
	if info, err := os.Stat(file); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	config, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	var list []candidate
	for _, server := range wrap.Servers(config) {
		about := ""
		if server.Wrapped {
			about = "runs through wirectl"
		}
		// What the scripts would take for something else is left out.
		if server.Name == render.Safe(server.Name) && !strings.HasPrefix(server.Name, ":") {
			list = append(list, candidate{Value: server.Name, About: about})
		}
	}
	return list
}

func fixtureCandidates() []candidate {
	var list []candidate
	for _, name := range fixtures.Sessions() {
		list = append(list, candidate{Value: "fixture:" + name, About: "a session that is built in"})
	}
	return list
}

func findingCandidates() []candidate {
	var list []candidate
	for _, rule := range session.Findings {
		list = append(list, candidate{Value: rule.Name, About: rule.Rule})
	}
	return list
}

func severityCandidates() []candidate {
	var list []candidate
	for _, s := range []session.Severity{session.Error, session.Warning, session.Note} {
		list = append(list, candidate{Value: s.String()})
	}
	return list
}

// addressCandidates are the schemes of endpoints.
func addressCandidates() []candidate {
	var list []candidate
	for _, e := range endpointCandidates {
		if strings.HasSuffix(e.Value, "://") {
			list = append(list, e)
		}
	}
	return list
}

func doorCandidates() []candidate {
	var list []candidate
	for _, d := range config.Doors {
		list = append(list, candidate{Value: d.Name + "="})
	}
	return list
}
