package commands

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/decode/source"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/relay/wrap"
	"github.com/wirectl/wirectl/run/agent"
	"github.com/wirectl/wirectl/table"
)

// welcome prints what wirectl is, what was found on this machine, and what to try.
func welcome(env Env) error {
	if _, err := io.WriteString(env.Stdout, "wirectl shows what passes between AI agents, their tools and their models.\n\n"); err != nil {
		return err
	}
	if err := offer(env, env.Stdout); err != nil {
		return err
	}
	_, err := io.WriteString(env.Stdout, "\nwirectl demo plays an example. wirectl help lists all commands.\n")
	return err
}

// offer prints what was found on this machine, and the three commands that fit it best.
func offer(env Env, to io.Writer) error {
	var steps [][]string
	add := func(about, command string, args ...string) {
		steps = append(steps, []string{strings.Join(append([]string{"wirectl", command}, args...), " "), about})
	}
	told := source.Transcripts(env.Getenv)
	newest := func(agent string) int { // the place of its newest transcript among all
		at := slices.IndexFunc(told, func(t source.Transcript) bool { return t.Agent == agent })
		return cmp.Or(at+1, len(told)+1)
	}
	isThere := func(name string) bool { _, err := exec.LookPath(name); return err == nil }
	names := mapped(agent.Kinds, func(k agent.Kind) string { return k.Name })
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(newest(a), newest(b)) })
	names = slices.DeleteFunc(names, func(name string) bool { return !isThere(name) })
	if len(names) > 0 {
		add("start it, and see its model, its tools and its commands together", "run", names[0])
	}
	if runs, err := history.Runs(env.Getenv); err == nil && len(runs) > 0 {
		add("ask why the last run stopped, failed or took so long", "why", "run:latest")
	}
	if len(told) > 0 {
		add("see what its last session did", "calls", told[0].Agent+":latest")
	}
	clients, config, server := configured(env)
	if server != "" {
		add("put wirectl in front of an MCP server", "wrap", config, server)
	}
	found := slices.Concat(names, clients)
	if len(told) > 0 {
		found = append(found, render.Count(int64(len(told)), "transcript"))
	}
	add("see what a recorded session did", "calls", "fixture:mcp-everything")
	add("ask why one of its calls was cancelled", "why", "fixture:mcp-cancel")
	add("list the MCP servers of this machine", "wrap")
	out := table.Output{To: to, Form: table.AsText, Style: &render.Style{}, Indent: "  "}
	if len(found) > 0 {
		if _, err := fmt.Fprintf(to, "Found here: %s.\n\n", strings.Join(found, ", ")); err != nil {
			return err
		}
	}
	columns := []table.Column[[]string]{
		{Title: " ", Value: func(row *[]string) any { return (*row)[0] }}, {Title: " ", Value: func(row *[]string) any { return (*row)[1] }},
	}
	return table.Write(out, columns, steps[:3])
}

// plain matches what needs no quotes in a shell.
var plain = regexp.MustCompile(`^[\w@%+=:,./~-]+$`)

// configured tells the clients whose configurations have MCP servers, with how many, and the first
// server that can be wrapped.
func configured(env Env) (clients []string, config, server string) {
	here, _ := os.Getwd()
	files, _ := wrap.Found(env.Getenv, here)
	for _, file := range files {
		servers := wrap.ServersIn(file.Name)
		if len(servers) > 0 {
			clients = append(clients, file.Client+" with "+render.Count(int64(len(servers)), "MCP server"))
		}
		name := file.Name
		if rest, err := filepath.Rel(here, name); err == nil && filepath.IsLocal(rest) {
			name = rest
		} else if rest, ok := strings.CutPrefix(name, cmp.Or(env.Getenv("HOME"), "\x00")+"/"); ok {
			name = "~/" + rest
		}
		for _, s := range servers {
			if server == "" && !s.Wrapped && len(s.Argv) > 0 && plain.MatchString(name) && plain.MatchString(s.Name) {
				config, server = name, s.Name
			}
		}
	}
	return clients, config, server
}
