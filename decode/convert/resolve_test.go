package convert_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/pcapng"
	"github.com/wirectl/wirectl/decode/convert"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/jsonrpc"
	"github.com/wirectl/wirectl/protocol/rlm"
)

const (
	initialize  = `{"jsonrpc":"2.0","id":0,"method":"initialize"}`
	initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
	result      = `{"jsonrpc":"2.0","id":0,"result":{}}`
	completion  = `{"model":"m","messages":[]}`
	asked       = `{"correlation_id":"a","prompt":"hi"}`
)

// protocols returns the protocols of all frames, and the session's.
func protocols(t *testing.T, r capture.Reader) (of []string, session string) {
	t.Helper()
	for _, rec := range readAll(t, r) {
		of = append(of, rec.Protocol)
	}
	return of, r.Session().Protocol
}

// named is the record of a payload whose protocol is named.
func named(protocol, payload string) capture.Record {
	rec := line(1, frame.C2U, payload)
	rec.Protocol = protocol
	return rec
}

// onHTTP is such a record of another connection, which is HTTP.
func onHTTP(protocol, payload string) capture.Record {
	rec := named(protocol, payload)
	rec.Conn, rec.Meta = 2, &frame.Meta{Framing: frame.HTTP}
	return rec
}

// All frames of a connection have the protocol that one of them tells.
func TestResolveProtocol(t *testing.T) {
	gap := line(1, frame.C2U, "")
	gap.Gap = true
	opened := capture.Record{Kind: capture.Opened, Text: []byte("unit")}
	for _, c := range []struct {
		name    string
		given   protocol.Protocol
		records []capture.Record
		want    []string
		session string
	}{
		{
			"told by the third", nil,
			[]capture.Record{opened, line(1, frame.C2U, initialize), line(1, frame.U2C, result), line(1, frame.C2U, initialized)},
			[]string{"", "mcp", "mcp", "mcp"},
			"mcp",
		},
		{
			"named too early", nil,
			[]capture.Record{named("jsonrpc", initialize), named("jsonrpc", result), named("mcp", initialized)},
			[]string{"mcp", "mcp", "mcp"},
			"mcp",
		},
		{
			"named as what it does not look like", nil,
			[]capture.Record{named("lsp", initialize), named("lsp", initialized)},
			[]string{"lsp", "lsp"},
			"lsp",
		},
		{
			"calls over HTTP beside other JSON", nil,
			[]capture.Record{onHTTP("", completion), onHTTP("", initialize), onHTTP("", completion), onHTTP("", result), onHTTP("", initialized)},
			[]string{"json", "mcp", "json", "mcp", "mcp"},
			"mcp",
		},
		{
			"never told", nil,
			[]capture.Record{line(1, frame.C2U, initialize), line(1, frame.U2C, result)},
			[]string{"jsonrpc", "jsonrpc"},
			"jsonrpc",
		},
		{
			"nothing known", nil,
			[]capture.Record{line(1, frame.C2U, "\x80"), gap},
			[]string{"", ""},
			"",
		},
		{
			"a connection for each of two", nil,
			[]capture.Record{line(1, frame.C2U, initialize), line(2, frame.C2U, asked), line(1, frame.C2U, initialized)},
			[]string{"mcp", "rlm", "mcp"},
			"mcp",
		},
		{
			"a connection that begins later", nil,
			[]capture.Record{line(1, frame.C2U, initialized), line(2, frame.C2U, initialize), line(3, frame.C2U, asked)},
			[]string{"mcp", "mcp", "rlm"},
			"mcp",
		},
		{
			"a provider beside a broker's door", nil,
			[]capture.Record{named("rlm", asked), onHTTP("", completion), onHTTP("", "[DONE]")},
			[]string{"rlm", "json", "json"},
			"rlm",
		},
		{
			"a provider beside a door, both over HTTP", nil,
			[]capture.Record{onHTTP("nexus", initialize), onHTTP("", completion), onHTTP("nexus", result)},
			[]string{"nexus", "json", "nexus"},
			"nexus",
		},
		{
			"HTTP named too early", nil,
			[]capture.Record{onHTTP("jsonrpc", initialize), onHTTP("mcp", initialized)},
			[]string{"mcp", "mcp"},
			"mcp",
		},
		{
			"given", jsonrpc.ACP,
			[]capture.Record{named("mcp", initialize), line(1, frame.C2U, asked)},
			[]string{"acp", "acp"},
			"acp",
		},
	} {
		r, err := convert.Resolve(&script{records: c.records}, c.given, frame.DirUnknown)
		check(t, err)
		if got, session := protocols(t, r); !slices.Equal(got, c.want) || session != c.session {
			t.Errorf("%s: %q of a session of %q, want %q of %q", c.name, got, session, c.want, c.session)
		}
	}
}

// A session that tells nothing is not read to its end for it.
func TestResolveReadsAheadSoFar(t *testing.T) {
	s := &script{records: slices.Repeat([]capture.Record{line(1, frame.C2U, initialize)}, 100_000)}
	r, err := convert.Resolve(s, nil, frame.DirUnknown)
	check(t, err)
	if left := len(s.records); left < 80_000 {
		t.Errorf("%d of 100000 records were read ahead", 100_000-left)
	}
	if got := len(readAll(t, r)); got != 100_000 {
		t.Errorf("%d records came out", got)
	}
}

func TestResolveUnknownName(t *testing.T) {
	_, err := convert.Resolve(&script{records: []capture.Record{named("nope", "{}")}}, nil, frame.DirUnknown)
	if err == nil || !strings.Contains(err.Error(), `"nope"`) {
		t.Errorf("the error is %v", err)
	}
}

// A direction is that of the record, else the one that was given, else the one
// that the message tells.
func TestResolveDirection(t *testing.T) {
	for _, c := range []struct {
		has, given, want frame.Dir
	}{
		{frame.DirUnknown, frame.DirUnknown, frame.C2U},
		{frame.DirUnknown, frame.U2C, frame.U2C},
		{frame.U2C, frame.C2U, frame.U2C},
	} {
		r, err := convert.Resolve(&script{records: []capture.Record{line(1, c.has, asked)}}, rlm.Protocol, c.given)
		check(t, err)
		if got := readAll(t, r)[0].Dir; got != c.want {
			t.Errorf("%q, with %q given, becomes %q", c.has, c.given, got)
		}
	}
}

// Wireshark shows of a frame what kind it is and which exchange it is about.
func TestLabels(t *testing.T) {
	gap := line(1, frame.C2U, "x")
	gap.Gap = true
	compressed := named("mcp", initialize)
	compressed.Compressed = true
	for _, c := range []struct {
		record capture.Record
		want   string
	}{
		{named("mcp", initialize), "json: initialize 0"},
		{named("mcp", initialized), "json: notifications/initialized"},
		{named("mcp", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}`), `json: notifications/cancelled →"a"`},
		{named("mcp", "no JSON"), ": malformed"},
		{named("mcp", `{"jsonrpc":"2.0","id":1,"method":"\u001b[2J"}`), `json: \x1b[2J 1`},
		{named("", initialize), ": "},
		{gap, ": skipped"},
		{compressed, ": "},
	} {
		var l pcapng.Label
		convert.Labels(nil)(&c.record, &l)
		if got := fmt.Sprintf("%s: %s", l.Dissector, l.Info); got != c.want {
			t.Errorf("%s is labelled %q, want %q", c.record.Raw, got, c.want)
		}
	}
}
