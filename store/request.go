package store

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"net"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/session"
)

// A Request is a recorded request as it can be sent again. Known secrets are masked.
type Request struct {
	Protocol, Method string
	Params           string // JSON; "" if there are none
	Server           string // the address or the command of the server; "" if unknown
	head             []string
	url, verb, body  string // over HTTP
	ofUnit           bool   // the server sends it
}

// maxRequest bounds the requests that are written as a command.
const maxRequest = 1 << 20

// maxWord bounds a word of a command: Linux starts no program with a longer one.
const maxWord = 128<<10 - 1

// Request returns the request of that frame.
func (s *Store) Request(seq int64) (*Request, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.frames.at(seq)
	if e == nil {
		return nil, errors.New("the request is no longer kept")
	}
	if err := s.load(seq, e); err != nil {
		return nil, err
	}
	it, mask := s.item, s.trackers.Hide
	switch m := it.Frame.Meta; {
	case m != nil && m.Head.IsAbsent():
		return nil, errors.New("the request was not recorded")
	case capture.IsOutlined(it.Payload):
		return nil, errors.New("only an outline of the request was recorded, without its texts")
	}
	if len(it.Payload) > maxRequest {
		return nil, errors.New("the request is too large for a command: w writes it to a file")
	}
	r := &Request{Protocol: it.Protocol.Name(), Method: string(it.Message.Kind), Server: s.session.Unit}
	if p := s.peers[int(e.conn)]; p != nil && p.Name != "" {
		r.Server = p.Name
	}
	if _, rest, ok := strings.Cut(r.Server, ": "); ok && s.trackers.Joins { // after the name of its wire
		r.Server = rest
	}
	if r.ofUnit = e.dir() == frame.U2C; it.Framing == frame.GRPC {
		r.Method = "" // it has the name of a message
	}
	r.Server = strings.TrimPrefix(r.Server, "-- ") // as relay was given a command
	_, to, isLabel := strings.Cut(r.Server, " → ") // of both sides
	if isLabel {
		r.Server = to
	}
	if host, port, err := net.SplitHostPort(r.Server); err == nil && !strings.ContainsAny(host, " /") && strings.Trim(port, "0123456789") == "" {
		scheme := "tcp"
		if m := it.Frame.Meta; m != nil && frame.IsCarried(m.Framing) {
			scheme = m.Framing
		}
		r.Server = scheme + "://" + r.Server
	} else if isLabel {
		r.Server = "" // the name of a server starts none
	}
	r.Server = mask(capture.MaskCommand(r.Server))
	for _, name := range []string{"params", "arguments"} {
		if form, _, _ := it.JSON(); r.Params == "" && form != nil {
			if raw, ok := jsonscan.Get(form, name); ok {
				r.Params = mask(compact(raw))
			}
		}
	}
	if m := it.Frame.Meta; m != nil && m.Head != nil && m.Signal != frame.Response {
		r.ofHead(m.Head, mask)
		r.body = mask(string(it.Payload))
	}
	return r, nil
}

func compact(raw []byte) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}

// hops are fields of a head that a client writes anew, or that tell of bytes before they were decoded.
var hops = []string{"host", "content-length", "connection", "transfer-encoding", "accept-encoding", "user-agent", "keep-alive", "te", "expect", "content-encoding"}

func (r *Request) ofHead(h *frame.Head, mask func(string) string) {
	verb, rest, _ := strings.Cut(h.Start, " ")
	path, _, _ := strings.Cut(rest, " ")
	host := cmp.Or(h.Get("Host"), h.Get(":authority"))
	if host == "" || path == "" {
		return
	}
	scheme := "https://"
	if name, _, err := net.SplitHostPort(host); err == nil || net.ParseIP(name) != nil {
		scheme = "http://"
	}
	r.verb, r.url = verb, mask(scheme+host+path)
	for _, f := range h.Fields {
		if name := strings.ToLower(f.Name); !slices.Contains(hops, name) && !strings.HasPrefix(name, ":") && !strings.HasPrefix(name, "@") {
			r.head = append(r.head, mask(f.Name+": "+f.Value))
		}
	}
}

// Refuses says why wirectl send cannot send the request; "" if it can. It takes methods of these
// protocols.
func (r *Request) Refuses(speaks []string) string {
	switch {
	case r.ofUnit:
		return "the server sends this request, so it cannot be sent to one"
	case !slices.Contains(speaks, r.Protocol) || r.Method == "" || strings.HasPrefix(r.Method, "-") || strings.ContainsFunc(r.Method, unicode.IsSpace):
		return "wirectl send has no " + strings.TrimSpace(r.Protocol+" "+r.Method) + ": y copies the call as a command if there is one"
	}
	return ""
}

// Args returns the arguments of wirectl that send the request to a server: an address, or a
// command line.
func (r *Request) Args(server string) []string {
	args := []string{"send", r.Protocol, r.Method}
	if r.Params != "" {
		args = append(args, r.Params)
	}
	if strings.Contains(server, "://") && !strings.HasPrefix(server, "-") && !strings.ContainsFunc(server, unicode.IsSpace) || server == "ENDPOINT" {
		return append(args, server)
	}
	return append(append(args, "--"), strings.Fields(server)...)
}

// Command returns a command for a shell that sends the request: wirectl send if that speaks its
// protocol, or else curl; "" if neither can.
func (r *Request) Command(speaks []string) string {
	var words []string
	switch {
	case r.Refuses(speaks) == "":
		server := r.Server
		if r.url != "" {
			server = r.url
		}
		words = append([]string{"wirectl"}, r.Args(cmp.Or(server, "ENDPOINT"))...)
	case r.url != "":
		words = []string{"curl", "-X", r.verb, r.url}
		if strings.ContainsAny(r.url, "[]{}") {
			words = append(words, "--globoff")
		}
		for _, f := range r.head {
			words = append(words, "-H", f)
		}
		if r.body != "" {
			words = append(words, "--data-raw", r.body) // in which @ names no file
		}
	}
	for i, w := range words {
		if len(w) > maxWord {
			return ""
		}
		if strings.ContainsFunc(w, func(c rune) bool { return c == utf8.RuneError || unicode.IsControl(c) && c != '\n' && c != '\t' }) {
			return "" // a shell would take it for keys
		}
		if w == "" || strings.Trim(w, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./_-") != "" {
			words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

// refusal says why no cancel of an exchange can be sent; "" if one can.
func (s *Store) refusal(r *row) string {
	if r.outcome != uint8(session.Open) {
		return "it has ended: only calls in flight are cancelled"
	}
	e := s.frames.at(r.first)
	spec := all.Of(s.spoken[r.spoken])
	switch kind := s.kinds.list[r.kind]; {
	case e == nil || e.size > maxAsking || s.load(r.first, e) != nil:
		return ""
	case slices.Contains(spec.Rules.Uncancellable, kind):
		return spec.Name() + " forbids to cancel " + kind
	case spec.AppendTask != nil && r.accepted:
		return "it goes on as a task, which only its sender can cancel"
	}
	if _, err := spec.AppendCancel(nil, &protocol.Target{Opened: &s.item.Message, Payload: s.item.Payload}, 1); err != nil {
		if spec.API != nil {
			return err.Error() + ": the client closes the connection instead"
		}
		return err.Error()
	}
	return ""
}
