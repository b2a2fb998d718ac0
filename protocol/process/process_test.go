package process_test

import (
	"testing"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/process"
	"github.com/wirectl/wirectl/test/kit/prototest"
)

const start = `{"event":"start","time":"2026-11-28T03:34:40Z","pid":7,"parent":1,"what":"shell","name":"bash","command":"go test"}`

func TestVectors(t *testing.T) { prototest.Vectors(t, process.Spec.Protocol) }

func TestAllocs(t *testing.T) {
	prototest.NoAllocs(t, process.Spec.Protocol, start, `{"event":"exit","time":"2026-11-28T03:34:41Z","pid":7,"signal":"SIGTERM"}`)
}

func Fuzz(f *testing.F) { prototest.Fuzz(f, process.Spec.Protocol, jsonscan.WellFormed) }

// A long command is cut at the end of its first line, and never inside an escape.
func TestCommand(t *testing.T) {
	long := "0123456789012345678901234567890123456789012345678901234567"
	for command, want := range map[string]string{
		`ls -la`:                  "ls -la",
		`cat <<E\nx\nE`:           "cat <<E",
		long + `ab rest`:          long + "ab",
		long + `\u00e9 and more`:  long,
		long + `a\" and more`:     long + "a",
		long[:50] + `\\\\\\\\\\x`: long[:50],
		long + `aé and more`:      long + "a",
	} {
		var m protocol.Message
		err := process.Spec.Parse([]byte(`{"event":"start","time":"","pid":1,"what":"shell","command":"`+command+`"}`), &m)
		if err != nil || string(m.Label) != want {
			t.Errorf("%s: %q, %v; want %q", command, m.Label, err, want)
		}
	}
}
