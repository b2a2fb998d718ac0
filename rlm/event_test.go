package rlm

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A run reports these events, in order, with these contents.
func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &rule{root: turns(code("print hi\nask a"), "FINAL(4)"), sub: echo, delay: time.Second, tokens: Tokens{Input: 9, Output: 1}}
		log := &memo{}
		out, err := start(t.Context(), m, &lab{}, log, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range log.events {
			e.Time = time.Time{}
			b, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			text := strings.ReplaceAll(string(b), out.ID, "RUN")
			got = append(got, strings.Replace(text, `"time":"0001-01-01T00:00:00Z",`, "", 1))
		}
		c := code("print hi\nask a")
		quoted, _ := json.Marshal(c)
		want := []string{
			`{"event":"run","ref":"RUN","depth":0,"model":"root","prompt":"why","environment_type":"none"}`,
			`{"event":"turn","ref":"RUN/t1","depth":0,"model":"root"}`,
			`{"event":"cell","ref":"RUN/t1/c1","depth":0,"code":"print hi\nask a"}`,
			`{"event":"call","ref":"RUN/t1/c1/q1","depth":0,"model":"sub","prompt":"a"}`,
			`{"event":"call","done":true,"ref":"RUN/t1/c1/q1","depth":0,"model":"sub","text":"\u003ca\u003e","tokens":{"input":9,"output":1},"took":1,"finish_reason":"stop"}`,
			`{"event":"cell","done":true,"ref":"RUN/t1/c1","depth":0,"text":"hi\n\u003ca\u003e\n\nVariables: last","calls":1,"tokens":{"input":9,"output":1},"took":1}`,
			fmt.Sprintf(`{"event":"turn","done":true,"ref":"RUN/t1","depth":0,"model":"root","text":%s,"cells":1,"calls":1,"tokens":{"input":18,"output":2},"took":2}`, quoted),
			`{"event":"turn","ref":"RUN/t2","depth":0,"model":"root"}`,
			`{"event":"turn","done":true,"ref":"RUN/t2","depth":0,"model":"root","text":"FINAL(4)","tokens":{"input":9,"output":1},"took":1,"finish_reason":"stop"}`,
			`{"event":"answer","ref":"RUN","depth":0,"text":"4","finish_reason":"stop"}`,
			`{"event":"end","ref":"RUN","depth":0,"calls":1,"tokens":{"input":27,"output":3},"took":3,"finish_reason":"stop"}`,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("events differ (-want +got):\n%s", diff)
		}
		trace := "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
		if out.Traceparent != trace || m.asked[1].Traceparent != trace || m.asked[1].Ref != out.ID+"/t1/c1/q1" {
			t.Errorf("trace %s, request %+v", out.Traceparent, m.asked[1])
		}
	})
}

// Events and logs name the environment: that of the caller, of which tools mode has none.
func TestEnvironmentType(t *testing.T) {
	for want, options := range map[string]func(*Options){
		"none":   nil,
		"python": func(o *Options) { o.Metadata.EnvironmentType = "python" },
		"tools": func(o *Options) {
			o.Metadata.EnvironmentType = "python"
			o.Mode, o.Tools, o.Open, o.System = ToolsMode, &kit{}, nil, nil
		},
	} {
		log := &memo{}
		if _, err := start(t.Context(), &rule{root: turns("FINAL(4)")}, &lab{}, log, options); err != nil {
			t.Fatal(err)
		}
		if got := log.events[0].Environment; got != want || log.Run.Metadata.EnvironmentType != want {
			t.Errorf("%q in the event, %q in the log, want %q", got, log.Run.Metadata.EnvironmentType, want)
		}
	}
}

// A run without an id gets a new one.
func TestNewID(t *testing.T) {
	a, b := newID(), newID()
	if a == b || len(a) != 32 || strings.Trim(a, "0123456789abcdef") != "" {
		t.Errorf("ids %q and %q", a, b)
	}
}
