package theory_test

import (
	"testing"

	"github.com/wirectl/wirectl/fixtures"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol/theory"
	"github.com/wirectl/wirectl/test/kit/prototest"
)

const (
	request   = `{"kind":"Request","control":{"run_id":"r1","mode":"mock"},"inputs":{"text":"hello"},"outputs":{}}`
	ack       = `{"kind":"Ack","control":{"run_id":"r1"}}`
	token     = `{"kind":"Token","control":{"run_id":"r1"},"data":{"text":"hel"}}`
	response  = `{"kind":"Response","control":{"run_id":"r1","status":"success","cost_micro":12,"final":true},"outputs":{"summary":"done"}}`
	failure   = `{"kind":"Response","control":{"run_id":"r1","status":"error","final":true},"outputs":{},"error":{"code":"ERR_INPUTS","message":"no text"}}`
	preempted = `{"kind":"Response","control":{"run_id":"r1","status":"error","final":true},"error":{"code":"ERR_PREEMPTED","message":"preempted"}}`
	openA     = `{"kind":"RunOpen","content":{"role":"client","run_id":"r1","payload":{"text":"hello"}}}`
	openB     = `{"kind":"RunOpen","content":{"run_id":"r1","mode":"real","inputs":{},"outputs":{}}}`
	eventC    = `{"kind":"Event","content":{"phase":"started"}}`
	preempt   = `{"kind":"control","content":{"op":"preempt"}}`
)

func TestVectors(t *testing.T) { prototest.Vectors(t, theory.Protocol) }

func TestParse(t *testing.T) {
	prototest.Cases(t, theory.Protocol, []prototest.Case{
		{request, `Request open from=c2u id="r1" label=mock`},
		{ack, `Ack note from=u2c id="r1"`},
		{token, `Token part from=u2c id="r1"`},
		{response, `Response close from=u2c id="r1" label=success`},
		{failure, `Response fail from=u2c id="r1" label=ERR_INPUTS`},
		{preempted, `Response cancelled from=u2c id="r1" label=ERR_PREEMPTED`},
		{openA, `RunOpen open from=c2u id="r1"`},
		{openB, `RunOpen open from=c2u id="r1" label=real`},
		{eventC, `Event part from=u2c label=started`},
		{`{"kind":"RunResult","content":{"run_id":"r1","outputs":{}}}`, `RunResult close from=u2c id="r1"`},
		{`{"kind":"RunResult","content":{"run_id":"r1","error":{"code":"ERR_RUNTIME","message":"x"}}}`, `RunResult fail from=u2c id="r1" label=ERR_RUNTIME`},

		// Preempt is the only controller op that ends the run.
		{preempt, `control cancel from=c2u label=preempt`},
		{`{"kind":"control","content":{"op":"preempt","run_id":"r1"}}`, `control cancel from=c2u ref="r1" ref-space=run label=preempt`},
		{`{"kind":"control","content":{"op":"pause"}}`, `control note from=c2u label=pause`},

		{`{"kind":"Request","control":{"mode":"mock"}}`, `Request open from=c2u label=mock faults=missing-field`},
		{`{"kind":"Request","control":{"run_id":"  "}}`, `Request open from=c2u id="  " faults=bad-id`},
		{`{"kind":"Request","control":{"run_id":7}}`, `Request open from=c2u id=7`},
		{`{"kind":"Request","control":{"run_id":true}}`, `Request open from=c2u faults=bad-id`},
		{`{"kind":"RunOpen","content":{"role":"client","execution_id":"r1","payload":{}}}`, `RunOpen open from=c2u id="r1"`},
		{`{"kind":"Ack","content":{"execution_id":"r1"}}`, `Ack note from=u2c id="r1"`},
		{`{"kind":"Response","control":{"run_id":"r1"}}`, `Response close from=u2c id="r1" faults=missing-field`},
		{`{"kind":"Event"}`, `Event part from=u2c faults=missing-field`},
		{`{"kind":"Ack","kind":"Ack","control":{}}`, `Ack note from=u2c faults=duplicate-key`},
		{`{"kind":"ack","control":{}}`, `unknown note faults=unknown-kind`},
		{`{}`, `unknown note faults=unknown-kind`},
		{`["kind"]`, `unknown note faults=unknown-kind`},
	})
}

func TestText(t *testing.T) {
	prototest.Texts(t, theory.Protocol, map[string]string{
		request:  `{"text":"hello"}`,
		token:    `"hel"`,
		response: `{"summary":"done"}`,
		failure:  `"no text"`,
		openA:    `{"text":"hello"}`,
	})
}

// A single message shows which dialect a peer speaks.
func TestSeen(t *testing.T) {
	for payload, want := range map[string]theory.Dialect{
		request: theory.D, ack: theory.D, response: theory.D, eventC: theory.C,
		openB: theory.B, openA: theory.A, preempt: theory.A, `{}`: "", `{`: "",
	} {
		if got := theory.Seen([]byte(payload)); got != want {
			t.Errorf("%s is of %v, want %v", payload, got, want)
		}
	}
	vectors, err := fixtures.Vectors("theory")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range vectors {
		if got := theory.Seen(v.Bytes); string(got) != v.Header["dialect"] {
			t.Errorf("%s is of %v, want %q", v.Name, got, v.Header["dialect"])
		}
	}
}

func TestAnyOrder(t *testing.T) {
	prototest.AnyOrder(t, theory.Protocol, request, ack, token, response, failure, openA, openB, eventC, preempt)
}

func TestNoAllocs(t *testing.T) {
	prototest.NoAllocs(t, theory.Protocol, request, ack, token, response, failure, openA, openB, eventC, preempt)
}

func FuzzParse(f *testing.F) { prototest.Fuzz(f, theory.Protocol, jsonscan.WellFormed) }

func BenchmarkParse(b *testing.B) {
	prototest.Bench(b, theory.Protocol, map[string]string{
		"token-100B":    token,
		"response-4KiB": `{"kind":"Response","control":{"run_id":"r1","status":"success"},"outputs":{"summary":"` + prototest.Prose(4000) + `"}}`,
	})
}
