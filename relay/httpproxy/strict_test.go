package httpproxy

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
	"github.com/wirectl/wirectl/transport"
)

// broken makes requests that peers may read in different ways, each followed by
// one that all read alike.
func broken() map[string]string {
	const host, next = "Host: localhost\r\n", "GET /next HTTP/1.1\r\nHost: localhost\r\n\r\n"
	all := map[string]string{}
	add := func(name, request string) { all[name] = request + next }
	// Each of these stands in the head of a request, with a body in three forms.
	bodies := map[string]string{"none": "\r\n", "length": "Content-Length: 5\r\n\r\nhello", "chunks": "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"}
	for name, line := range map[string]string{
		"nothing odd": "", "a bare LF": "A: b\n", "a bare CR in a value": "A: b\rc\r\n", "a CR before CRLF": "A: b\r\r\n",
		"NUL in a value": "A: b\x00c\r\n", "NUL in a name": "A\x00: b\r\n", "DEL in a value": "A: \x7f\r\n", "Latin-1": "A: caf\xe9\r\n",
		"no colon": "abc\r\n", "no name": ": b\r\n", "a space in a name": "A b: c\r\n", "a space before the colon": "A : b\r\n",
		"a folded value": "A: b\r\n c: d\r\n", "a tab that folds": "A: b\r\n\tc\r\n", "two Hosts": "Host: localhost\r\n", "another Host": "Host: other\r\n",
		"a bad Host": "Host: a b\r\n", "an Upgrade": "Upgrade: else\r\n", "a long value": "A: " + strings.Repeat("b", 8<<10) + "\r\n",
		"many fields": strings.Repeat("A: b\r\n", 500), "a length of none": "Content-Length: x\r\n", "an empty length": "Content-Length:\r\n",
		"a length below 0": "Content-Length: -1\r\n", "a length with a sign": "Content-Length: +5\r\n", "a length in hex": "Content-Length: 0x5\r\n",
		"the same length": "Content-Length: 5\r\n", "another length": "Content-Length: 4\r\n", "a list of lengths": "Content-Length: 5, 5\r\n",
		"a huge length": "Content-Length: 99999999999999999999\r\n", "a length of 0": "Content-Length: 0\r\n",
		"gzip": "Transfer-Encoding: gzip\r\n", "gzip and chunks": "Transfer-Encoding: gzip, chunked\r\n", "chunks twice": "Transfer-Encoding: chunked\r\n",
		"chunked that is not": "Transfer-Encoding: xchunked\r\n", "chunked in capitals": "Transfer-Encoding: CHUNKED\r\n", "identity": "Transfer-Encoding: identity\r\n",
		"chunked behind a tab": "Transfer-Encoding:\tchunked\r\n", "chunked in quotes": "Transfer-Encoding: \"chunked\"\r\n", "an empty coding": "Transfer-Encoding:\r\n",
		"trailers announced": "Trailer: A\r\n", "a bad trailer announced": "Trailer: Content-Length\r\n",
	} {
		for form, body := range bodies {
			add(name+", "+form, "POST / HTTP/1.1\r\n"+host+line+body)
		}
		add(name+", first", "POST / HTTP/1.1\r\n"+line+host+bodies["length"])
		add(name+", HTTP/1.0", "POST / HTTP/1.0\r\nConnection: keep-alive\r\n"+host+line+bodies["chunks"])
	}
	for name, first := range map[string]string{
		"no version": "GET /", "HTTP/0.9": "GET / HTTP/0.9", "HTTP/1.2": "GET / HTTP/1.2", "HTTP/3.0": "GET / HTTP/3.0", "a space in the target": "GET /a b HTTP/1.1",
		"two spaces": "GET  / HTTP/1.1", "no target": "GET HTTP/1.1", "a bad method": "G@T / HTTP/1.1", "a method in small letters": "get / HTTP/1.1",
		"a tab": "GET\t/ HTTP/1.1", "a target that is not a path": "GET foo HTTP/1.1", "a whole URL": "GET http://localhost/ HTTP/1.1", "NUL in the target": "GET /\x00 HTTP/1.1",
		"a bare CR": "GET / HTTP/1.1\r", "CONNECT without a port": "CONNECT localhost HTTP/1.1", "a long target": "GET /" + strings.Repeat("a", 8<<10) + " HTTP/1.1",
	} {
		add(name, first+"\r\n"+host+"\r\n")
	}
	add("no Host", "GET / HTTP/1.1\r\n\r\n")
	add("HTTP/1.0 without a Host", "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
	add("empty lines", "\r\n\r\nGET / HTTP/1.1\r\n"+host+"\r\n")
	add("an empty line behind a body", "POST / HTTP/1.1\r\n"+host+"Content-Length: 1\r\n\r\nx\r\n")
	add("a huge head", "GET / HTTP/1.1\r\n"+host+"A: "+strings.Repeat("b", 2<<20)+"\r\n\r\n")
	add("pipelined", strings.Repeat("POST / HTTP/1.1\r\n"+host+"Content-Length: 2\r\n\r\nhi", 5))
	for name, chunks := range map[string]string{
		"an extension": "5;a=b\r\nhello\r\n0\r\n\r\n", "extensions in quotes": "5;a=\"b;c\"\r\nhello\r\n0;d\r\n\r\n", "a bare LF behind a size": "5\nhello\r\n0\r\n\r\n",
		"a bare LF behind a chunk": "5\r\nhello\n0\r\n\r\n", "a bare LF in an extension": "5;a\nhello\r\n0\r\n\r\n", "a bare CR in an extension": "5;a\rb\r\nhello\r\n0\r\n\r\n",
		"leading zeros": "00005\r\nhello\r\n0\r\n\r\n", "many zeros": "00000000000000000005\r\nhello\r\n0\r\n\r\n", "a space before a size": " 5\r\nhello\r\n0\r\n\r\n",
		"a space behind a size": "5 \r\nhello\r\n0\r\n\r\n", "a sign": "+5\r\nhello\r\n0\r\n\r\n", "0x": "0x5\r\nhello\r\n0\r\n\r\n", "no size": "\r\nhello\r\n0\r\n\r\n",
		"an underscore": "0_5\r\nhello\r\n0\r\n\r\n", "too long a chunk": "4\r\nhello\r\n0\r\n\r\n", "a huge size": "fffffffffffffffff\r\nhello\r\n0\r\n\r\n", "capitals": "A\r\nhellohello\r\n0\r\n\r\n",
		"a trailer": "5\r\nhello\r\n0\r\nA: b\r\n\r\n", "a trailer with a bare LF": "5\r\nhello\r\n0\r\nA: b\n\r\n", "an end with a bare LF": "5\r\nhello\r\n0\r\n\n", "a trailer that frames": "5\r\nhello\r\n0\r\nContent-Length: 9\r\n\r\n",
		"a long extension": "5;" + strings.Repeat("a", 5<<10) + "\r\nhello\r\n0\r\n\r\n", "many extensions": strings.Repeat("1;"+strings.Repeat("a", 200)+"\r\nx\r\n", 200) + "0\r\n\r\n",
		"a bad trailer": "5\r\nhello\r\n0\r\nabc\r\n\r\n",
	} {
		add("chunks: "+name, "POST / HTTP/1.1\r\n"+host+"Transfer-Encoding: chunked\r\n\r\n"+chunks)
	}
	return all
}

// A verdict is the requests that were read up to the first that was rejected.
type verdict struct {
	requests []string
	rejected bool
}

// judge is a server of net/http, whose verdicts are kept by the client's address.
type judge struct {
	addr     string
	verdicts sync.Map // of *verdict
}

func newJudge(t *testing.T) *judge {
	j := new(judge)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		kept, _ := j.verdicts.LoadOrStore(r.RemoteAddr, new(verdict))
		v := kept.(*verdict) // its requests come one after the other
		body, err := io.ReadAll(r.Body)
		if v.rejected = v.rejected || err != nil; !v.rejected {
			v.requests = append(v.requests, fmt.Sprintf("%s %s %q", r.Method, r.RequestURI, body))
		}
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Start()
	t.Cleanup(s.Close)
	j.addr = s.Listener.Addr().String()
	return j
}

// read has the server read a stream.
func (j *judge) read(t *testing.T, stream string) verdict {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", j.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go func() {
		_, _ = io.WriteString(conn, stream)
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(io.Discard, conn) // until it has ended
	kept, _ := j.verdicts.LoadOrStore(conn.LocalAddr().String(), new(verdict))
	v := *kept.(*verdict)
	v.rejected = v.rejected || len(v.requests) == 0 || !strings.Contains(v.requests[len(v.requests)-1], "/next")
	return v
}

// byCarrier has our reader read a stream.
func byCarrier(stream string) (v verdict) {
	c := carrier.New(carrier.Options{Kind: carrier.HTTP1, Patient: true, Limit: 4 << 20})
	for _, read := range []func() []frame.Frame{
		func() []frame.Frame { return c.Feed(frame.C2U, []byte(stream)) },
		c.More,
		func() []frame.Frame { return c.End(frame.C2U) },
	} {
		for _, f := range read() {
			switch {
			case v.rejected:
			case f.Flaw != nil:
				v.rejected = true
			case f.Meta.Head != nil:
				v.requests = append(v.requests, fmt.Sprintf("%s %s %q", f.Meta.Head.Method(), f.Meta.Head.Target(), f.Payload()))
			}
		}
	}
	return v
}

// What net/http rejects is flagged, and what it takes has the same bounds here:
// who reads the messages of two requests where the server reads one is deceived.
// Through the proxy, each goes on as it came but for Host, unless its head is too long.
func TestStrict(t *testing.T) {
	all := broken()
	if len(all) < 200 {
		t.Fatalf("there are %d requests", len(all))
	}
	j := newJudge(t)
	for name, stream := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, got := j.read(t, stream), byCarrier(stream)
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("we read %v, and net/http %v, of\n%.300q", got, want, stream)
			}
			r := rewriterOf("localhost", "/", transport.Options{Remote: true})
			forwarded := append(r.push(nil, []byte(stream)), r.held...)
			if r.refusal.status == http.StatusRequestHeaderFieldsTooLarge {
				return
			}
			if string(forwarded) != stream {
				t.Errorf("forwarded as\n%.300q\nwhat came as\n%.300q", forwarded, stream)
			}
		})
	}
}
