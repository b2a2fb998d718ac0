// Package agent starts an agent and captures its wires: its model APIs through a forward proxy that lives
// for one run, and whatever hooks add. The agent is left as it is: what it gets are variables, and
// certificates in a private folder.
package agent

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/decode/pin"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/relay"
	"github.com/wirectl/wirectl/transport"
)

// None is the level of a run that is not recorded.
const None history.Level = "none"

// Levels are the levels of recording.
var Levels = []history.Level{history.Full, history.Metadata, None}

// Options say what is run, and how.
type Options struct {
	Command []string
	Level   history.Level
	Hosts   []string // to open besides those that are known: HOST or HOST:PORT
	BaseURL bool     // move the addresses of model APIs instead
	Linger  bool     // keep the proxy while processes remain
	Quiet   bool     // print nothing at the end
	Pin     pin.Mode // of the tools of MCP servers
	// World, if not nil, takes the place of everything outside.
	World *World
	// Send, if not nil, sends the record in a folder to a hub until the run has ended.
	Send func(ctx context.Context, folder string) error

	Getenv         func(string) string
	Environ        []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Signals        <-chan os.Signal
	Version        string // of wirectl
}

// A Setup is how an agent is about to be started. Hooks change it.
type Setup struct {
	*Kind
	// Program is the path of the agent, and Args its arguments.
	Program string
	Args    []string
	// Env are the variables of the agent. What Set replaces can be restored by Original.
	Env *Environment
	// Private is the folder of this run, which nobody else can read and which is removed at its end. It must
	// hold no secret. Its path is the value of Variable for all processes of the run.
	Private string
	// Folder is the folder of the record, for captures and events; "" if nothing is recorded.
	Folder string
	Level  history.Level
	// Getenv looks up a variable of the user's environment.
	Getenv func(string) string
	// after, if not nil, is called when the agent has ended and, except within a run, its captures are complete.
	after func()
	// named is what the agent is told as its own name, if that is not the one that the user gave.
	named string

	run *running
}

// Hooks change how agents are started, in their order. Each gets the Setup after the ones before it.
var Hooks = []func(context.Context, *Setup) error{hookServers}

// Note adds a remark on what the run does not see.
func (s *Setup) Note(text string) { s.run.remark(text) }

// OpenHosts adds hosts that the proxy opens: HOST or HOST:PORT.
func (s *Setup) OpenHosts(hosts ...string) {
	if s.run.proxy != nil {
		s.run.proxy.list(hosts...)
	} else if s.run.joined != nil && len(hosts) > 0 { // the outer run reads them there
		if f, err := os.OpenFile(filepath.Join(s.Private, hostsFile), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600); err == nil {
			_, _ = io.WriteString(f, strings.Join(hosts, "\n")+"\n")
			f.Close()
		}
	}
}

// Variable is the variable by which the processes of a run find its private folder.
const Variable = "WIRECTL_RUN"

// The files of a private folder.
const (
	stateFile  = "state.json"
	hostsFile  = "hosts"
	driftsFile = "drifts" // of relays, about pins
)

// A State is what the processes of a run know of it.
type State struct {
	PID    int           `json:"pid"` // of wirectl run
	Folder string        `json:"folder,omitempty"`
	Level  history.Level `json:"level"`
	Pin    pin.Mode      `json:"pin,omitempty"`
	Pins   string        `json:"pins,omitempty"` // the folder of the pins
}

// StateOf returns the state of the run that a process belongs to; an error if it belongs to none, or to one
// that has ended.
func StateOf(getenv func(string) string) (*State, error) {
	private := getenv(Variable)
	if private == "" {
		return nil, errors.New("there is no run")
	}
	text, err := os.ReadFile(filepath.Join(private, stateFile))
	if err != nil {
		return nil, err
	}
	var s State
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, err
	}
	if !history.Held(filepath.Join(private, stateFile)) {
		return nil, errors.New("the run has ended")
	}
	return &s, nil
}

// running is the state of a run.
type running struct {
	Options
	setup    *Setup
	joined   *State // the outer run
	writing  *history.Writing
	recorder *Recorder // nil if nothing is recorded
	proxy    *proxy    // nil if the run joins another
	lock     *os.File  // the state, locked while the run goes on
	token    string
	mask     func(string) string
	relays   []*loopback
	doors    []door // what an isolated agent reaches
	isFirst  bool   // no other run is recorded

	pins    string   // the folder of the pins
	drifted []string // what has changed about tools

	unsent error  // why a hub lacks a part of the record
	told   string // of a world

	mu    sync.Mutex
	notes []string
}

// Run runs an agent to its end, and returns its status: 128 and N after signal N.
func Run(ctx context.Context, o Options) (int, error) {
	if _, err := StateOf(o.Getenv); (err != nil || o.World != nil) && o.Getenv(Variable) != "" { // as in a shell that an earlier run has left
		o.Environ = Original(o.Environ)
		o.Getenv = newEnvironment(o.Environ).Get
	}
	r := &running{Options: o}
	path, err := exec.LookPath(o.Command[0])
	if err != nil {
		start := transport.NewStartError(o.Command[0], err)
		return start.Status, start
	}
	r.setup = &Setup{
		Kind: KindOf(o.Command[0]), Program: path, Args: slices.Clone(o.Command[1:]), Env: newEnvironment(o.Environ), Getenv: o.Getenv, Level: o.Level, run: r,
	}
	mask := Secrets().Text()
	r.mask = func(text string) string {
		r.mu.Lock()
		defer r.mu.Unlock()
		return mask(text)
	}
	if o.Pin != "" {
		store, err := pin.Open(o.Getenv)
		if err != nil {
			return 1, err
		}
		r.pins = store.Dir
	}
	if err := r.setUp(ctx); err != nil {
		return 1, errors.Join(err, r.tearDown(1, ""))
	}
	var sending sync.WaitGroup
	if r.writing != nil && r.Send != nil {
		sending.Go(func() {
			r.unsent = r.Send(context.WithoutCancel(ctx), r.setup.Folder)
		})
	}
	status, signal, err := r.agent(ctx)
	left := r.left(ctx)
	if failed := r.tearDown(status, signal); failed != nil {
		r.remark(failed.Error())
	}
	sending.Wait() // its reader sees the end of the record
	r.sum(left)
	return status, err
}

func (r *running) remark(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.notes, text) {
		r.notes = append(r.notes, text)
	}
}

// setUp opens the record and the proxy, and sets up the agent.
func (r *running) setUp(ctx context.Context) error {
	s := r.setup
	if outer, err := StateOf(r.Getenv); err == nil && r.World == nil {
		r.joined = outer
		s.Private, s.Folder, s.Level = r.Getenv(Variable), outer.Folder, outer.Level
		r.Pin, r.pins = cmp.Or(outer.Pin, r.Pin), cmp.Or(outer.Pins, r.pins)
		if proxy, err := url.Parse(r.Getenv("HTTPS_PROXY")); err == nil {
			r.token, _ = proxy.User.Password()
		}
		s.OpenHosts(r.hosts()...)
		return r.prepare(ctx)
	}
	RemoveLeftovers(r.Getenv)
	r.startRecord()
	if r.World != nil && r.writing == nil { // without a record no server is played, and no host opened
		return errors.New("a replay is recorded as a run, but " + strings.Join(r.notes, "; "))
	}
	if r.Pin != "" && s.Folder == "" {
		if r.Pin == pin.Refuse {
			return errors.New("--pin=refuse needs a record, and " + strings.Join(r.notes, "; "))
		}
		r.remark("the tools of servers, which are pinned only with a record")
	}
	if err := r.openProxy(); err != nil && (r.Pin == pin.Refuse || r.World != nil) {
		return err
	} else if err != nil { // the agent runs as it would alone
		r.remark("anything: " + err.Error())
		s.Env = newEnvironment(r.Environ)
		return nil //nolint:nilerr // it is a remark
	}
	return r.prepare(ctx)
}

// openProxy starts the proxy, and has the agent use it.
func (r *running) openProxy() error {
	s := r.setup
	ca, err := newAuthority()
	if err != nil {
		return err
	}
	var trust map[string]string
	var unset []string
	var failed error
	for _, parent := range privateParents(r.Getenv) {
		if trust, unset, err = r.makePrivate(parent, ca); err == nil {
			break
		}
		failed = errors.Join(failed, err)
	}
	if err != nil {
		return failed
	}
	if r.proxy, err = newProxy(ca, r.token, r.recorder, r.Getenv); err != nil {
		return err
	}
	r.proxy.list(r.hosts()...)
	r.doors = append(r.doors, door{r.proxy.listener.Addr().(*net.TCPAddr).Port, r.proxy.serveInside})
	if r.World != nil {
		r.proxy.inhabit(r.World)
	}
	r.proxy.late = func() []string {
		text, _ := os.ReadFile(filepath.Join(s.Private, hostsFile))
		return strings.Fields(string(text))
	}
	if len(unset) > 0 && r.recorder != nil {
		r.remark("programs that need " + strings.Join(unset, ", ") + ": the system's roots are not in a file")
	}
	r.excluded()
	address := r.proxy.url("wirectl").String()
	for _, name := range []string{"HTTPS_PROXY", "HTTP_PROXY"} {
		s.Env.SetBoth(name, address)
	}
	direct := strings.TrimSpace(cmp.Or(r.Getenv("NO_PROXY"), r.Getenv("no_proxy")))
	if direct != "*" { // which means all only where it is alone
		direct = strings.Trim("127.0.0.1,localhost,::1,"+direct, ",")
	}
	s.Env.SetBoth("NO_PROXY", direct)
	s.Env.Set("NODE_USE_ENV_PROXY", "1")
	for _, name := range slices.Sorted(maps.Keys(trust)) {
		s.Env.Set(name, trust[name])
	}
	s.Env.Set(Variable, s.Private)
	return nil
}

// makePrivate makes the private folder, with the state and the certificates. It leaves nothing if it fails.
func (r *running) makePrivate(parent string, ca *authority) (trust map[string]string, unset []string, err error) {
	s := r.setup
	if s.Private, err = os.MkdirTemp(parent, privatePrefix+strconv.Itoa(os.Getpid())+"-"); err != nil {
		return nil, nil, err
	}
	if r.lock, err = os.OpenFile(filepath.Join(s.Private, stateFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err == nil {
		err = history.Hold(r.lock)
	}
	if err == nil {
		_, err = r.lock.Write(jsonscan.MustMarshal(State{PID: os.Getpid(), Folder: s.Folder, Level: s.Level, Pin: r.Pin, Pins: r.pins}))
	}
	if err == nil {
		trust, unset, err = ca.trust(s.Private, r.Getenv)
	}
	if err != nil {
		if r.lock != nil {
			r.lock.Close()
		}
		_ = os.RemoveAll(s.Private)
		s.Private, r.lock = "", nil
	}
	return trust, unset, err
}

// shown returns the words of the command without known secrets. At the level of metadata they are the program
// and the names of flags: a prompt is among the others.
func (r *running) shown() []string {
	words := slices.Clone(r.Command)
	for i, word := range words {
		switch isFlag := strings.HasPrefix(word, "-"); {
		case r.setup.Level == history.Metadata && i > 0 && !isFlag:
			words[i] = "…"
		case r.setup.Level == history.Metadata && isFlag:
			words[i], _, _ = strings.Cut(word, "=")
		case i > 0 && capture.HidesValue(r.Command[i-1], word):
			words[i] = capture.Redacted
		default:
			words[i] = r.mask(word)
		}
	}
	return words
}

// startRecord begins the record of the run, unless there is to be none. Without one the agent runs all the same.
func (r *running) startRecord() {
	s := r.setup
	var random [16]byte
	_, _ = rand.Read(random[:]) // it never fails
	r.token = hex.EncodeToString(random[:])
	if s.Level == None {
		return
	}
	dir, _ := os.Getwd()
	others, _ := history.Runs(r.Getenv)
	r.isFirst = len(others) == 0
	w, err := history.BeginRun(r.Getenv, history.Run{
		Agent: s.Name, AgentVersion: s.versionOf(s.Program), Command: r.shown(), Project: dir, PID: os.Getpid(), Started: time.Now(),
		Level: s.Level, Wirectl: r.Version, Replays: replays(r.World),
	})
	if err == nil {
		session := capture.Session{Created: time.Now(), Controller: s.Name, Unit: "model APIs"}
		if r.recorder, err = Record(w.Folder(), "model.pcapng", session, s.Level, r.remark, r.watchOfHTTP(), r.token); err != nil {
			_ = w.End(1, []string{err.Error()})
		}
	}
	if err != nil {
		r.remark("nothing is recorded: " + err.Error())
		s.Level = None
		return
	}
	r.writing, s.Folder = w, w.Folder()
}

// watchOfHTTP returns the watch of the servers that are reached over HTTP; nil for none.
func (r *running) watchOfHTTP() *pin.Watch {
	if r.Pin == "" {
		return nil
	}
	return pin.NewWatch(&pin.Store{Dir: r.pins}, r.Pin, jsonrpc.MCP, func(text string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.drifted = append(r.drifted, text)
	})
}

// hosts are those that the run opens.
func (r *running) hosts() []string {
	dir, _ := os.Getwd()
	return slices.Concat(modelHosts, r.setup.Hosts, r.Options.Hosts, r.setup.configured(r.Getenv, r.Environ, dir))
}

// excluded notes the hosts that the agent reaches without a proxy, because the user wants that.
func (r *running) excluded() {
	direct := proxyOf(func(name string) string {
		return map[string]string{"HTTPS_PROXY": "http://proxy", "NO_PROXY": cmp.Or(r.Getenv("NO_PROXY"), r.Getenv("no_proxy"))}[name]
	})
	hosts := slices.DeleteFunc(r.hosts(), func(address string) bool {
		u, err := direct(&url.URL{Scheme: "https", Host: address})
		return err != nil || u != nil || strings.Contains(address, "*")
	})
	const most = 3
	if more := len(hosts) - most; more > 0 {
		hosts = append(hosts[:most], render.Count(int64(more), "more host"))
	}
	if len(hosts) > 0 {
		r.remark(strings.Join(hosts, ", ") + " (in NO_PROXY)")
	}
}

// prepare has the kind of agent, and hooks, change how it is started.
func (r *running) prepare(ctx context.Context) error {
	s := r.setup
	if s.Prepare != nil {
		if err := s.Prepare(s); err != nil {
			return err
		}
	}
	if r.proxy != nil && r.recorder != nil && (r.BaseURL || ignoresProxy(ctx, s.Program, r.Environ)) {
		if err := r.moveModels(ctx); err != nil {
			return err
		}
	}
	for _, hook := range Hooks {
		if err := hook(ctx, s); err != nil && r.Pin == pin.Refuse {
			return err
		} else if err != nil { // what it does last is to change the setup
			r.remark("MCP servers over stdio, shell commands: " + err.Error())
		}
	}
	return nil
}

// moveModels has the variables with the addresses of model APIs name relays on loopback.
func (r *running) moveModels(ctx context.Context) error {
	for _, b := range baseURLs {
		target, err := url.Parse(cmp.Or(r.Getenv(b.variable), b.address))
		if err != nil {
			return fmt.Errorf("%s: %w", b.variable, err)
		}
		moved, err := r.setup.Relay(ctx, target)
		if err != nil {
			return err
		}
		r.setup.Env.Set(b.variable, moved)
	}
	return nil
}

// agent runs the agent.
func (r *running) agent(ctx context.Context) (status int, signal string, err error) {
	s := r.setup
	if signal := r.stopped(ctx); signal != 0 { // the agent would not hear of it
		return 128 + int(signal), signal.String(), nil
	}
	if s.Folder != "" && isPipe(r.Stdin) && isPipe(r.Stdout) && s.isDriven(s.Args) {
		if r.World == nil || !r.World.Isolate {
			return r.driven(ctx)
		}
		r.remark("what drives the agent (--isolate)")
	}
	cmd := exec.CommandContext(context.WithoutCancel(ctx), s.Program, s.Args...)
	cmd.Args[0] = cmp.Or(s.named, r.Command[0])
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env = r.Stdin, r.Stdout, r.Stderr, s.Env.List()
	cmd.SysProcAttr = endsWithUs()
	var inside *isolation
	if r.World != nil && r.World.Isolate {
		if inside, err = isolate(cmd, r.doors); err != nil {
			return 1, "", err
		}
	}
	stops, release := stopsOf() // the agent may stop at once
	defer release()
	started, ended := make(chan error), make(chan error, 1)
	go func() {
		// The system may end a program together with the thread that started it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			if err = inside.takeDoors(); err != nil {
				_ = cmd.Wait() // it has not become the agent
			}
		} else if inside != nil {
			_ = inside.takeDoors() // which closes its ends
			err = &isolationError{err}
		}
		if started <- err; err == nil {
			ended <- cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		if _, isOurs := errors.AsType[*isolationError](err); isOurs {
			return 1, "", err
		}
		start := transport.NewStartError(r.Command[0], err)
		return start.Status, "", start
	}
	begun := time.Now()
	r.logEvent(history.Event{
		Event: "start", Time: begun, PID: cmd.Process.Pid, Parent: os.Getpid(), What: "agent", Name: s.Name, Command: strings.Join(r.shown(), " "),
	})
	for {
		select {
		case sig := <-r.Signals:
			// The terminal sends these to the agent, too, if that was there.
			isKey := (sig == os.Interrupt || sig == syscall.SIGQUIT) && time.Since(begun) > hearing
			if sig != syscall.SIGPIPE && !(isKey && ownsTerminal()) {
				_ = cmd.Process.Signal(sig)
			}
		case sig := <-stops:
			followStop(sig, cmd.Process.Pid)
		case err := <-ended:
			if cmd.ProcessState == nil {
				return 1, "", err
			}
			status, signal = exitOf(cmd.ProcessState)
			r.logEvent(history.Event{Event: "exit", Time: time.Now(), PID: cmd.Process.Pid, Status: &status, Signal: signal})
			return status, signal, nil
		}
	}
}

// hearing is how long a signal may take to reach us.
const hearing = 5 * time.Millisecond

// stopped returns the signal that has ended the run before its agent was started; 0 if none has.
func (r *running) stopped(ctx context.Context) syscall.Signal {
	for {
		select {
		case sig := <-r.Signals:
			if number, ok := sig.(syscall.Signal); ok && relay.Terminates(sig) {
				return number
			}
		default:
			if ctx.Err() != nil {
				return syscall.SIGINT
			}
			return 0
		}
	}
}

func exitOf(state *os.ProcessState) (status int, signal string) {
	if w, ok := state.Sys().(interface {
		Signaled() bool
		Signal() syscall.Signal
	}); ok && w.Signaled() {
		return 128 + int(w.Signal()), w.Signal().String()
	}
	return state.ExitCode(), ""
}

func (r *running) logEvent(e history.Event) {
	if r.setup.Folder != "" {
		if err := history.AppendEvent(r.setup.Folder, e); err != nil {
			r.remark(err.Error())
		}
	}
}

func isPipe(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&(os.ModeNamedPipe|os.ModeSocket) != 0
}

// driven relays between the program that drives the agent and the agent, as wirectl relay does.
func (r *running) driven(ctx context.Context) (status int, signal string, err error) {
	s := r.setup
	started := time.Now()
	name := "agent.pcapng"
	if r.joined != nil {
		name = fmt.Sprintf("agent-%d.pcapng", os.Getpid())
	}
	rec, err := Record(s.Folder, name, capture.Session{Created: started, Controller: "driver", Unit: s.Name}, s.Level, r.remark, nil, r.token)
	if err != nil {
		return 1, "", err
	}
	defer rec.Close()
	unit, err := transport.Start(ctx, append([]string{s.Program}, s.Args...), transport.Options{Env: s.Env.List()})
	if err != nil {
		start, ok := errors.AsType[*transport.StartError](err)
		if !ok {
			return 1, "", err
		}
		return start.Status, "", err
	}
	r.logEvent(history.Event{
		Event: "start", Time: started, PID: unit.Pid(), Parent: os.Getpid(), What: "agent", Name: s.Name, Command: strings.Join(r.shown(), " "),
	})
	stdio, err := transport.Parse([]string{"stdio"}, transport.Options{Stdin: r.Stdin, Stdout: r.Stdout})
	if err != nil {
		return 1, "", err
	}
	controller, err := stdio.Dial(ctx)
	if err != nil {
		return 1, "", errors.Join(err, unit.Close())
	}
	result, err := relay.Run(ctx, relay.Config{
		Controller: controller, Unit: unit, Name: s.Name, Sink: rec.Sink, Stderr: r.Stderr, Signals: r.Signals, Warn: r.remark, Alarm: r.remark,
		Grace: transport.DefaultGrace, Conn: 1,
	})
	switch {
	case result.Exit != nil:
		status = result.Exit.Code()
		if result.Exit.Signal != nil {
			signal = result.Exit.Signal.String()
		}
	case err != nil:
		status = 1
	}
	r.logEvent(history.Event{Event: "exit", Time: time.Now(), PID: unit.Pid(), Status: &status, Signal: signal})
	return status, signal, err
}

// left returns the processes that the agent has left. With Linger it waits until they have ended, or for a signal.
func (r *running) left(ctx context.Context) []process {
	if r.joined != nil {
		return nil
	}
	variable := Variable + "=" + r.setup.Private
	// Servers end when they notice that their agent has.
	const notice, pause = 300 * time.Millisecond, 10 * time.Millisecond
	list := remaining(variable)
	for began := time.Now(); len(list) > 0 && time.Since(began) < notice; list = remaining(variable) {
		time.Sleep(pause)
	}
	if !r.Linger || len(list) == 0 {
		return list
	}
	r.say("the agent has ended; the proxy stays for " + names(list) + " (--linger)")
	for {
		select {
		case sig := <-r.Signals:
			if relay.Terminates(sig) {
				return list
			}
		case <-ctx.Done():
			return list
		case <-time.After(notice):
			if list = remaining(variable); len(list) == 0 {
				return nil
			}
		}
	}
}

func names(list []process) string {
	var words []string
	for _, p := range list {
		words = append(words, render.Safe(p.String()))
	}
	return strings.Join(words, ", ")
}

// tearDown closes what setUp has opened.
func (r *running) tearDown(status int, signal string) error {
	if r.joined != nil {
		if r.setup.after != nil { // with what the outer run has written by now
			r.setup.after()
		}
		return nil
	}
	for _, l := range r.relays {
		l.close()
	}
	if r.proxy != nil {
		r.proxy.close()
		if r.recorder != nil && r.recorder.number == 0 && !r.proxy.hasFailed() {
			r.remark("models (no connection; for a program that does not use HTTPS_PROXY, try --base-url)")
		}
		if r.recorder != nil {
			r.notes = append(r.notes, r.proxy.unseen(r.setup.Kind)...)
		}
	}
	err := r.recorder.Close()
	if r.World != nil {
		r.told = r.World.Tell(notesIn(r.setup.Private))
	}
	if r.setup.after != nil {
		r.setup.after()
	}
	if text, failed := os.ReadFile(filepath.Join(r.setup.Private, driftsFile)); failed == nil && r.setup.Private != "" {
		r.drifted = append(r.drifted, strings.Split(strings.TrimSpace(string(text)), "\n")...)
	}
	if r.lock != nil {
		err = errors.Join(err, r.lock.Close())
	}
	if r.setup.Private != "" {
		err = errors.Join(err, os.RemoveAll(r.setup.Private))
	}
	if r.writing != nil {
		if r.writing.Signal = signal; r.proxy != nil {
			r.writing.Unread = r.proxy.unread()
		}
		err = errors.Join(err, r.writing.End(status, r.notes))
	}
	return err
}

func (r *running) say(text string) {
	if name := "run"; !r.Quiet {
		if r.World != nil {
			name = "replay"
		}
		fmt.Fprintf(r.Stderr, "wirectl %s: %s\n", name, text)
	}
}

// seen returns the servers whose connections were recorded.
func (r *running) seen() []string {
	var names []string
	if r.proxy != nil {
		names = r.proxy.seen()
	}
	for _, l := range r.relays {
		if l.record != nil && len(l.record.numbers) > 0 && !slices.Contains(names, l.host) {
			names = append(names, l.host)
		}
	}
	return names
}

// sum prints what was captured, where it is, and what was not seen.
func (r *running) sum(left []process) {
	if r.joined != nil {
		return
	}
	text := "nothing was recorded"
	if r.writing != nil {
		text = "recorded " + render.Count(int64(r.recorder.number), "connection")
		if seen := r.seen(); len(seen) > 0 {
			text += " to " + strings.Join(seen, ", ")
		}
		text += hookedIn(r.writing.Folder()) + ": wirectl calls run:" + r.writing.ID
		if r.isFirst {
			text += "; records are in " + filepath.Dir(r.writing.Folder()) + " for 14 days (wirectl sessions rm run:" + r.writing.ID + " deletes this one, sessions off stops recording)"
		}
	}
	if r.told != "" {
		text = r.told + "; " + text
	}
	slices.Sort(r.drifted)
	for _, drifted := range slices.Compact(r.drifted) {
		text += "; " + drifted
	}
	if len(r.notes) > 0 {
		text += "; not seen: " + strings.Join(r.notes, "; ")
	}
	if r.unsent != nil {
		text += "; the hub has not all of it: " + r.unsent.Error()
	}
	if len(left) > 0 {
		text += "; still running: " + names(left)
	}
	r.say(render.Safe(strings.ReplaceAll(text, "\n", "; "))) // of joined errors
}

// The private folders of runs.
const privatePrefix = "wirectl-run-"

// privateParents are the folders that may hold private ones, the best first.
func privateParents(getenv func(string) string) (list []string) {
	if dir := getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			list = append(list, dir)
		}
	}
	return append(list, os.TempDir())
}

// RemoveLeftovers removes the private folders of runs that have not ended by themselves, and returns how many.
func RemoveLeftovers(getenv func(string) string) (removed int) {
	for _, parent := range privateParents(getenv) {
		found, _ := filepath.Glob(filepath.Join(parent, privatePrefix+"*", stateFile))
		for _, state := range found {
			dir := filepath.Dir(state)
			info, err := os.Lstat(dir)
			if err != nil || !info.IsDir() || history.Held(state) {
				continue
			}
			if text, err := os.Stat(state); err == nil && text.Size() == 0 && time.Since(text.ModTime()) < patience {
				continue // a run that begins has yet to lock it
			}
			if os.RemoveAll(dir) == nil { // that of another user stays
				removed++
			}
		}
	}
	return removed
}
