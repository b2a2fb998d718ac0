package opaque_test

import (
	"testing"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol/opaque"
	"github.com/wirectl/wirectl/test/kit/prototest"
)

func TestJSON(t *testing.T) {
	prototest.Cases(t, opaque.JSON, []prototest.Case{
		{` {"a":1} `, `object note`},
		{`[1]`, `array note`},
		{`"a"`, `string note`},
		{`-1.5e3`, `number note`},
		{`true`, `true note`},
		{`false`, `false note`},
		{`null`, `null note`},
		{`{"a":1,"a":1}`, `object note faults=duplicate-key`},
	})
}

func TestBytes(t *testing.T) {
	prototest.Cases(t, opaque.Bytes, []prototest.Case{
		{"\x00\xff", `bytes note`},
		{"", `bytes note`},
	})
}

func TestNoAllocs(t *testing.T) {
	prototest.NoAllocs(t, opaque.JSON, `{"a":[1,"x",null]}`, `7`)
	prototest.NoAllocs(t, opaque.Bytes, "\x00\xff")
}

func FuzzJSON(f *testing.F) { prototest.Fuzz(f, opaque.JSON, jsonscan.WellFormed) }
func FuzzBytes(f *testing.F) {
	prototest.Fuzz(f, opaque.Bytes, func([]byte) error { return nil })
}
