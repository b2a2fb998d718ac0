package transport

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A command is an endpoint that is a program, or is reached through one, over its
// standard input and output.
type command struct {
	typed []string // the endpoint as a person types it
	argv  []string
	opts  Options
	// prompts means that the program may ask the user something at the terminal.
	prompts bool
	// failure is the failure of the program itself, by its status, if it only leads to
	// the endpoint; otherwise nil.
	failure *StartError
}

// IsProgram reports whether an endpoint is a program, or is reached through one.
func IsProgram(e Endpoint) bool {
	_, is := e.(*command)
	return is
}

func (c *command) String() string { return quoteWords(c.typed) }

func (c *command) Dial(ctx context.Context) (Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p, err := start(c)
	if err != nil {
		return nil, err
	}
	return p, nil
}

func parseExec(word string, argv []string, opts Options) (Endpoint, error) {
	if len(argv) == 0 {
		return nil, fmt.Errorf("%s needs a command", word)
	}
	return &command{typed: append([]string{"--"}, argv...), argv: argv, opts: opts}, nil
}

// parseContainer makes the endpoint of a command inside a container. Ending the
// runtime's client ends that command only if it reacts to the end of its standard input:
// the runtimes have no other way.
func parseContainer(args []string, opts Options) (Endpoint, error) {
	if len(args) < 2 {
		return nil, errors.New("container needs the NAME of a container and a command to run in it")
	}
	runtime, err := opts.findRuntime()
	if err != nil {
		return nil, err
	}
	return &command{
		typed: append([]string{"container"}, args...),
		argv:  append([]string{runtime, "exec", "-i"}, args...),
		opts:  opts,
		failure: &StartError{
			runtime, 125, errors.New("failed itself (status 125)"),
			"is the container running? check with " + quoteWord(runtime) + " ps",
		},
	}, nil
}

// runtimes are container runtimes with the same command line.
var runtimes = []string{"docker", "podman", "nerdctl"}

func (o *Options) findRuntime() (string, error) {
	if o.Runtime != "" {
		return o.Runtime, nil
	}
	for _, name := range runtimes {
		if _, err := exec.LookPath(name); err == nil {
			return name, nil
		}
	}
	return "", fmt.Errorf("no container runtime: none of %s is on PATH; name another with --runtime", strings.Join(runtimes, ", "))
}

const connectorsDir = "~/.latis/connectors"

// findConnector returns the endpoint of a connector: a program latis-connector-TYPE
// that gets an address and carries frames over its standard input and output. It
// returns nil if there is none for the type.
func findConnector(kind, address string, opts Options) Endpoint {
	name := "latis-connector-" + kind
	path, err := exec.LookPath(name)
	if err != nil {
		home, homeErr := os.UserHomeDir()
		if homeErr != nil {
			return nil
		}
		if path, err = exec.LookPath(filepath.Join(home, ".latis", "connectors", name)); err != nil {
			return nil
		}
	}
	return &command{typed: []string{kind + "://" + address}, argv: []string{path, address}, opts: opts}
}

// parseSSH makes the endpoint of the system's ssh with its arguments.
func parseSSH(args []string, opts Options) (Endpoint, error) {
	if len(args) == 0 {
		return nil, errors.New("ssh needs a HOST and a command, after any options of ssh")
	}
	c := &command{typed: append([]string{"ssh"}, args...), opts: opts, prompts: true}
	if opts.Quote {
		args = slices.Clone(args)
		for i := remoteCommand(args); i < len(args); i++ {
			args[i] = quoteWord(args[i])
		}
	}
	// No terminal on the far side: it would change bytes.
	c.argv = append([]string{"ssh", "-T"}, args...)
	c.failure = &StartError{
		"ssh", 255, errors.New("failed itself (status 255), unless the remote command had that status"),
		"its message on standard error says why; try the command by hand, with -v",
	}
	return c, nil
}

// valueOptions are the options of ssh that take a value.
const valueOptions = "BbcDEeFIiJLlmOoPpQRSWw"

// remoteCommand returns the index of the remote command in ssh's arguments. Options are
// allowed before and after the host.
func remoteCommand(args []string) int {
	i := skipOptions(args, 0)
	return skipOptions(args, min(i+1, len(args)))
}

func skipOptions(args []string, i int) int {
	for i < len(args) && len(args[i]) > 1 && args[i][0] == '-' {
		arg := args[i]
		i++
		if arg == "--" {
			return i
		}
		for j := 1; j < len(arg); j++ {
			if slices.Contains([]byte(valueOptions), arg[j]) {
				if j == len(arg)-1 { // the value is the next word
					i++
				}
				break
			}
		}
	}
	return min(i, len(args))
}
