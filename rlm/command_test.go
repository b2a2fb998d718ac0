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
		{`stop`, "", "the reply is not as expected"},
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
