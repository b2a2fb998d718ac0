package httpproxy

import (
	"strings"
	"testing"

	"github.com/wirectl/wirectl/frame/carrier"
	"github.com/wirectl/wirectl/transport"
)

func rewriterOf(host, path string, opts transport.Options) *rewriter {
	return &rewriter{host: host, path: path, opts: &opts, forwards: func(string) {}}
}

// Heads are changed wherever the reads end, and all else stays.
func TestRewrite(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{
			"Host and the path", "POST / HTTP/1.1\r\nhOST:x\r\nContent-Length: 9\r\n\r\nHost: x\r\nGET /a HTTP/1.1\nHost: x\n\n",
			"POST /mcp HTTP/1.1\r\nhOST: server:1\r\nContent-Length: 9\r\n\r\nHost: x\r\nGET /a HTTP/1.1\nHost: server:1\n\n",
		},
		{
			"chunks", "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n9;x\r\nHost: x\r\n\r\n0\r\nHost: y\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
			"POST /a HTTP/1.1\r\nHost: server:1\r\nTransfer-Encoding: chunked\r\n\r\n9;x\r\nHost: x\r\n\r\n0\r\nHost: y\r\n\r\nGET /mcp HTTP/1.1\r\nHost: server:1\r\n\r\n",
		},
		{"an upgrade", "GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n\r\n\x81\x89Host: x\r\n", "GET /mcp HTTP/1.1\r\nHost: server:1\r\nUpgrade: websocket\r\n\r\n\x81\x89Host: x\r\n"},
		{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nHost: x\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nHost: x\r\n"},
		{"what is not HTTP", "\x00\x00\x00\x02{}\r\nHost: x\r\n\r\n", "\x00\x00\x00\x02{}\r\nHost: x\r\n\r\n"},
		{"a length that is none", "POST / HTTP/1.1\r\nContent-Length: x\r\n\r\nGET / HTTP/1.1\r\n\r\n", "POST / HTTP/1.1\r\nContent-Length: x\r\n\r\nGET / HTTP/1.1\r\n\r\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, size := range []int{1, 2, 7, len(tt.in)} {
				r := rewriterOf("server:1", "/mcp", transport.Options{Remote: true})
				var got []byte
				for in := tt.in; in != ""; {
					n := min(size, len(in))
					got = r.push(got, []byte(in[:n]))
					in = in[n:]
				}
				if string(got) != tt.want {
					t.Errorf("in reads of %d:\n%q, want\n%q", size, got, tt.want)
				}
			}
		})
	}
}

// Of a request that is not admitted, and of what follows, nothing goes on.
func TestRewriteRefuses(t *testing.T) {
	const first = "GET / HTTP/1.1\r\nHost: [::1]:7000\r\nOrigin: http://localhost:6274\r\n\r\n"
	long := strings.Repeat("a", carrier.MaxHead)
	for refused, want := range map[string]refusal{
		"GET / HTTP/1.1\r\nhost: evil.example:7000\r\n\r\n":                             {403, `the host "evil.example:7000" is neither an IP address nor localhost: add --remote`},
		"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n":               {403, `the host "evil.example" is neither an IP address nor localhost: add --remote`},
		"GET / HTTP/1.0\r\nORIGIN:null\r\n\r\n":                                         {403, `web pages of "null" may not use this: allow them with --allow-origin`},
		"GET / HTTP/1.1\r\nHost: localhost\r\nOrigin:\r\n https://evil.example\r\n\r\n": {403, `web pages of " https://evil.example" may not use this: allow them with --allow-origin`},
		"POST /?" + long + " HTTP/1.1\r\nOrigin: null\r\n\r\n":                          {431, "the head of a request is over 65536 bytes"},
		"POST / HTTP/1.1\r\nX: " + long + "\r\nOrigin: null\r\n\r\n":                    {431, "the head of a request is over 65536 bytes"},
	} {
		for _, size := range []int{1, 7, 1000, 1 << 20} {
			if size < 1000 && len(refused) > carrier.MaxHead {
				continue // a head is read again with each piece
			}
			r := rewriterOf("server:1", "/mcp", transport.Options{})
			var got []byte
			for in := first + refused + first; in != ""; {
				n := min(size, len(in))
				got = r.push(got, []byte(in[:n]))
				in = in[n:]
			}
			got = append(got, r.held...)
			if string(got) != strings.NewReplacer("/ ", "/mcp ", "[::1]:7000", "server:1").Replace(first) || r.refusal != want {
				t.Errorf("in reads of %d: %q goes on, %+v is the refusal", size, got, r.refusal)
			}
		}
	}
}

// Whatever comes, all of it goes on: nothing is lost, and what is kept back is
// the beginning of a head at most.
func FuzzRewrite(f *testing.F) {
	f.Add("POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}GET /", uint8(1))
	f.Add("POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n9;x\r\nHost: x\r\n\r\n0\r\n\r\n", uint8(5))
	f.Fuzz(func(t *testing.T, in string, size uint8) {
		if lower := strings.ToLower(in); strings.Contains(lower, "host") || strings.Contains(lower, "origin") || len(in) > carrier.MaxHead {
			return // which would change it, or is refused
		}
		r := rewriterOf("h", "/", transport.Options{})
		var got []byte
		for rest := in; rest != ""; {
			n := min(int(size)+1, len(rest))
			got = r.push(got, []byte(rest[:n]))
			rest = rest[n:]
		}
		got = append(got, r.held...)
		if string(got) != in {
			t.Errorf("%q became %q", in, got)
		}
	})
}
