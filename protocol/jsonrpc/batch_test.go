package jsonrpc_test

import (
	"slices"
	"testing"

	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/test/kit/prototest"
)

func TestBatch(t *testing.T) {
	prototest.Cases(t, jsonrpc.Plain, []prototest.Case{
		{`[` + call + `,` + progress + `]`, `batch note count=2`},
		{`[]`, `unknown note faults=unknown-kind`},
		{`[{"a":1,"a":2}]`, `batch note count=1 faults=duplicate-key`},
	})
}

func TestItems(t *testing.T) {
	for payload, want := range map[string][]string{
		`[ {"id":1} , 2,"x"]`: {`{"id":1}`, `2`, `"x"`},
		`[]`:                  nil,
		`{"id":1}`:            {`{"id":1}`},
		`[1,2,{]`:             {`1`, `2`},
	} {
		var got []string
		for item := range protocol.Items([]byte(payload)) {
			got = append(got, string(item))
		}
		if !slices.Equal(got, want) {
			t.Errorf("the items of %s are %q, want %q", payload, got, want)
		}
	}
}
