package wrap

import (
	"errors"
	"testing"
)

// Each entry of a server over HTTP is bridged as it says, and unwrapped gives back itself.
func TestBridge(t *testing.T) {
	for _, tt := range []struct{ about, config, want string }{
		{
			"an address alone", `{"mcpServers":{"s":{"url":"http://h/mcp"}}}`,
			`{"mcpServers":{"s":{ "command": "/opt/wirectl", "args": ["relay", "-q", "http://h/mcp"], "env": { "WIRECTL_WRAPPED": "{\"url\":\"http://h/mcp\"}" } }}}`,
		}, {
			"what is not about HTTP stays, headers are sorted, and comments come back",
			"{\"servers\":{\"s\": {\"type\":\"http\", // one\n \"timeout\": 5, \"httpUrl\":\"http://h\", \"tools\":[\"a\",],\r\n \"headers\":{\"X-B\":\"${input:b}\",\"A\":\"\\\"\"} , }},\n}",
			"{\"servers\":{\"s\": { \"type\": \"stdio\", \"timeout\": 5, \"tools\": [\"a\" ], \"command\": \"/opt/wirectl\", \"args\": [\"relay\", \"-q\", \"http://h\"], \"env\": { \"WIRECTL_HEADERS\": \"A: \\\"\\nX-B: ${input:b}\\n\", \"WIRECTL_WRAPPED\": \"{\\\"type\\\":\\\"http\\\", // one\\n \\\"timeout\\\": 5, \\\"httpUrl\\\":\\\"http://h\\\", \\\"tools\\\":[\\\"a\\\",],\\r\\n \\\"headers\\\":{\\\"X-B\\\":\\\"${input:b}\\\",\\\"A\\\":\\\"\\\\\\\"\\\"} , }\" } }},\n}",
		},
	} {
		got, err := JSON.Bridge([]byte(tt.config), "s", with)
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", tt.about, err, got, tt.want)
			continue
		}
		servers, err := JSON.Servers(got)
		if err != nil || len(servers) != 1 || !servers[0].Wrapped || servers[0].Remote {
			t.Errorf("%s: the servers are %v, %v", tt.about, servers, err)
		}
		if _, err := JSON.Wrap(got, "s", with); !errors.Is(err, ErrWrapped) {
			t.Errorf("%s: wrapped twice: %v", tt.about, err)
		}
		if back, err := JSON.Unwrap(got, "s"); err != nil || string(back) != tt.config {
			t.Errorf("%s: unwrapped: %v\n%s", tt.about, err, back)
		}
	}
}

// What a bridge would lose, or cannot give back, is left to the client.
func TestNoBridge(t *testing.T) {
	for _, tt := range []struct {
		about  string
		format Format
		config string
	}{
		{"a login", JSON, `{"servers":{"s":{"url":"http://h","oauth":{}}}}`},
		{"headers by a program", JSON, `{"servers":{"s":{"url":"http://h","headersHelper":"x"}}}`},
		{"an environment", JSON, `{"servers":{"s":{"url":"http://h","env":{"A":"1"}}}}`},
		{"headers that are none", JSON, `{"servers":{"s":{"url":"http://h","headers":{"A":1}}}}`},
		{"a header of two lines", JSON, `{"servers":{"s":{"url":"http://h","headers":{"A":"1\nB: 2"}}}}`},
		{"an address twice", JSON, `{"servers":{"s":{"url":"http://h","url":"http://i"}}}`},
		{"two addresses", JSON, `{"servers":{"s":{"url":"http://h","httpUrl":"http://i"}}}`},
		{"TOML", TOML, "[mcp_servers.s]\nurl = \"http://h\"\n"},
		{"YAML", YAML, "extensions:\n  s:\n    uri: \"http://h\"\n"},
	} {
		if got, err := tt.format.Bridge([]byte(tt.config), "s", with); !errors.Is(err, ErrRemote) {
			t.Errorf("%s: %v\n%s", tt.about, err, got)
		}
	}
	if _, err := JSON.Bridge([]byte(`{"servers":{"s":{"command":"x"}}}`), "s", with); err == nil {
		t.Error("a server with a command is bridged")
	}
}
