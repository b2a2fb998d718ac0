package rlm

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// policy is the program of these tests. It reads a line, and writes its reply with the
// question in place of %s.
func policy(reply string) {
	line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	switch reply {
	case "hang":
		time.Sleep(time.Hour)
	case "nothing":
		return
	}
	if strings.Contains(reply, "%s") {
		b, _ := json.Marshal(strings.TrimSpace(line))
		reply = fmt.Sprintf(reply, b)
	}
	fmt.Println(reply) //nolint:forbidigo // the program's reply
}

func program(t *testing.T, reply string) Command {
	t.Setenv("GORACE", "atexit_sleep_ms=0") // otherwise the race detector delays the exit by a second
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Command{Args: []string{self, "policy", reply}, Timeout: time.Minute}
}

// A program stops a run with its reason, or lets it continue.
func TestCommandStops(t *testing.T) {
	for _, c := range []struct{ reply, want, err string }{
		{`{"stop":"enough"}`, "enough", ""},
		{`{"stop":true}`, "stopped", ""},
		{`{"stop":false}`, "", ""},
		{`{"stop":null}`, "", ""},
		{`{}`, "", ""},
		{`{"stop":%s}`, `{"iteration":2,"max_iterations":3,"mode":"code","depth":1,"history":[{"role":"user","content":"q"}],"last_result":"x"}`, ""},
		{`{"stop":1}`, "", "stop is 1, want a string, true or false"},
		{`{"halt":true}`, "", `unknown field "halt"`},
		{`stop`, "", `the reply "stop" is not as expected: invalid character`},
		{``, "", `the reply "" is not as expected: EOF`},
		{`null`, "", "want one JSON object"},
		{`{"stop":false} done`, "", "want one JSON object"},
		{`{"stop":false}{"stop":true}`, "", "want one JSON object"},
		{`nothing`, "", "it ended without a reply"},
	} {
		reason, err := program(t, c.reply).Stop(t.Context(), State{
			Iteration: 2, Max: 3, Mode: "code", Depth: 1, History: []Message{{Role: "user", Content: "q"}}, Last: "x",
		})
		if reason != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %q, %v, want %q, %s", c.reply, reason, err, c.want, c.err)
		}
	}
}

// A program starts child runs by its reply, which must say so.
func TestCommandNests(t *testing.T) {
	for _, c := range []struct {
		reply string
		want  bool
		err   string
	}{
		{`{"nested":true,"mode":"code","tools":["a"],"max_iterations":2,"max_depth":3}`, true, ""},
		{`{"nested":false}`, false, ""},
		{`{"nested":null}`, false, "the reply has no nested, which is true or false"},
		{`{"max_iterations":2}`, false, "the reply has no nested, which is true or false"},
		{`{"nested":"yes"}`, false, `the reply "{\"nested\":\"yes\"}" is not as expected: json: `},
		{`{"nest":true}`, false, `unknown field "nest"`},
		{`{"nested":true,"mode":"chat"}`, false, `mode is "chat", want code or tools`},
		{`{"nested":true,"max_depth":-1}`, false, "max_iterations and max_depth are 1 or more"},
	} {
		n, start, err := program(t, c.reply).Orchestrate(t.Context(), json.RawMessage(`"p"`), 0)
		if start != c.want || start && n.MaxIterations != 2 || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, %v, want %v, %s", c.reply, start, err, c.want, c.err)
		}
	}
}

// A wrong reply is reported at once, before the call or the turn ends, and each error once.
func TestWrongReplyIsReportedAtOnce(t *testing.T) {
	m := &rule{sub: echo}
	m.root = func(int, []Message) string { return code("ask a\nask b\nfinal last") }
	var told []string
	_, err := start(t.Context(), m, &lab{}, &memo{}, func(o *Options) {
		o.Limits.Depth = 1
		o.Stopping, o.Nesting, o.Compressor = program(t, `{"halt":true}`), program(t, `{"nest":true}`), program(t, `{"result":"x"}`)
		o.Observe = func(e Event) {
			switch {
			case e.Kind == EventPolicy:
				what, _, _ := strings.Cut(e.Error, ":")
				_, at, _ := strings.Cut(e.Ref, "/")
				told = append(told, what+" at "+at)
			case e.Kind == EventTurn && e.Done, e.Kind == EventTurn:
				told = append(told, fmt.Sprintf("turn %v", e.Done))
			}
		}
	})
	if want := "stopping policy at t1; turn false; nesting policy at t1/c1/q1; compressor at t1/c1/q1; turn true"; err != nil || strings.Join(told, "; ") != want {
		t.Errorf("%q, %v, want %q", told, err, want)
	}
}

// A program that does not reply is killed, and the result is an error.
func TestCommandHangs(t *testing.T) {
	c := program(t, "hang")
	c.Timeout = time.Second
	if _, err := c.Stop(t.Context(), State{}); err == nil || !strings.Contains(err.Error(), "no reply within 1s") {
		t.Errorf("error %v", err)
	}
	if _, err := (Command{Args: []string{"wirectl-no-such-program"}}).Stop(t.Context(), State{}); err == nil {
		t.Error("a program that does not exist is no error")
	}
}

// In a run, programs can compress answers and start children.
func TestCommandsInARun(t *testing.T) {
	m, l := &rule{sub: echo}, &lab{}
	m.root = func(_ int, messages []Message) string {
		if question(messages) == "a" {
			return "FINAL(child)"
		}
		return code("ask a\nfinal last")
	}
	compress := program(t, `{"text":%s}`)
	out, err := start(t.Context(), m, l, &memo{}, func(o *Options) {
		o.Limits.Depth = 1
		o.Nesting = program(t, `{"nested":true,"max_iterations":2,"max_depth":3}`)
		o.Compressor = compress
		o.Stopping = program(t, `{"stop":false}`)
	})
	if want := `{"text":"child","max_tokens":5000}`; err != nil || out.Answer != want || l.opened != 2 || out.PolicyErr != nil {
		t.Errorf("%q with %d environments, %v, %v, want %q", out.Answer, l.opened, err, out.PolicyErr, want)
	}
}
