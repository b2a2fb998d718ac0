package wrap

import (
	"errors"
	"testing"
)

// Each entry of a server over HTTP is bridged as listed, and Unwrap restores it.
func TestBridge(t *testing.T) {
	for _, tt := range []struct {
		about        string
		format       Format
		config, want string
	}{
		{
			"an address alone", JSON, `{"mcpServers":{"s":{"url":"http://h/mcp"}}}`,
			`{"mcpServers":{"s":{ "command": "/opt/wirectl", "args": ["relay", "-q", "http://h/mcp"], "env": { "WIRECTL_WRAPPED": "{\"url\":\"http://h/mcp\"}" } }}}`,
		}, {
			"what is not about HTTP stays, headers are sorted, and comments come back", JSON,
			"{\"servers\":{\"s\": {\"type\":\"http\", // one\n \"timeout\": 5, \"httpUrl\":\"http://h\", \"tools\":[\"a\",],\r\n \"headers\":{\"X-B\":\"${input:b}\",\"A\":\"\\\"\"} , }},\n}",
			"{\"servers\":{\"s\": { \"type\": \"stdio\", \"timeout\": 5, \"tools\": [\"a\" ], \"command\": \"/opt/wirectl\", \"args\": [\"relay\", \"-q\", \"http://h\"], \"env\": { \"WIRECTL_HEADERS\": \"A: \\\"\\nX-B: ${input:b}\\n\", \"WIRECTL_WRAPPED\": \"{\\\"type\\\":\\\"http\\\", // one\\n \\\"timeout\\\": 5, \\\"httpUrl\\\":\\\"http://h\\\", \\\"tools\\\":[\\\"a\\\",],\\r\\n \\\"headers\\\":{\\\"X-B\\\":\\\"${input:b}\\\",\\\"A\\\":\\\"\\\\\\\"\\\"} , }\" } }},\n}",
		}, {
			"a table of TOML: what is beside stays, and comments", TOML,
			"[mcp_servers.s] # a\r\n  enabled = true\r\n  url = 'http://h/mcp' # }\r\n  # b\r\n  tool_timeout_sec = 5\r\n  http_headers = { \"X-B\" = 'C:\\', A = \"\\\"\" }\t# c\r\n  disabled_tools = []\r\n\r\n[mcp_servers.s.tools.x]\r\nurl = 1\r\n",
			"[mcp_servers.s] # a\r\n  enabled = true\r\n  command = \"/opt/wirectl\" # }\r\n  # b\r\n  tool_timeout_sec = 5\r\n  args = [\"relay\", \"-q\", \"http://h/mcp\"]\r\n  env = { WIRECTL_HEADERS = \"A: \\\"\\nX-B: C:\\\\\\n\", WIRECTL_WRAPPED = \"url = 'http://h/mcp' # }\\r\\n  # b\\r\\n  tool_timeout_sec = 5\\r\\n  http_headers = { \\\"X-B\\\" = 'C:\\\\', A = \\\"\\\\\\\"\\\" }\" }\t# c\r\n  disabled_tools = []\r\n\r\n[mcp_servers.s.tools.x]\r\nurl = 1\r\n",
		}, {
			"an inline table", TOML, "mcp_servers = { s = { url = 'http://h', enabled = true } }",
			"mcp_servers = { s = { command = \"/opt/wirectl\", args = [\"relay\", \"-q\", \"http://h\"], env = { WIRECTL_WRAPPED = \"url = 'http://h'\" }, enabled = true } }",
		}, {
			"dotted keys", TOML, "mcp_servers.s.url = \"http://h\"\n",
			"mcp_servers.s.command = \"/opt/wirectl\"\nmcp_servers.s.args = [\"relay\", \"-q\", \"http://h\"]\nmcp_servers.s.env = { WIRECTL_WRAPPED = \"url = \\\"http://h\\\"\" }\n",
		}, {
			"a mapping of YAML, with what Goose writes itself", YAML,
			"extensions:\n  s:\n    enabled: true\n    type: streamable_http\n    name: s # é\n    uri: http://h/mcp   # u\n    envs: {}\n    env_keys: []\n    headers:\n      X-B: 'it''s'\n      A: \"1\"\n    timeout: 5\nother: {}\n",
			"extensions:\n  s:\n    enabled: true\n    type: stdio\n    name: s # é\n    cmd: \"/opt/wirectl\"   # u\n    args: [\"relay\", \"-q\", \"http://h/mcp\"]\n    env_keys: []\n    envs: { WIRECTL_HEADERS: \"A: 1\\nX-B: it's\\n\", WIRECTL_WRAPPED: \"type: streamable_http\\n    name: s # é\\n    uri: http://h/mcp   # u\\n    envs: {}\\n    env_keys: []\\n    headers:\\n      X-B: 'it''s'\\n      A: \\\"1\\\"\" }\n    timeout: 5\nother: {}\n",
		}, {
			"a mapping in braces", YAML, "extensions: {s: {uri: http://h, type: sse}}\n",
			"extensions: {s: {cmd: \"/opt/wirectl\", args: [\"relay\", \"-q\", \"http://h\"], envs: { WIRECTL_WRAPPED: \"uri: http://h, type: sse\" }, type: stdio}}\n",
		},
	} {
		got, err := tt.format.Bridge([]byte(tt.config), "s", with)
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", tt.about, err, got, tt.want)
			continue
		}
		servers, err := tt.format.Servers(got)
		if err != nil || len(servers) != 1 || !servers[0].Wrapped || servers[0].Remote {
			t.Errorf("%s: the servers are %v, %v", tt.about, servers, err)
		}
		if _, err := tt.format.Wrap(got, "s", with); !errors.Is(err, ErrWrapped) {
			t.Errorf("%s: wrapped twice: %v", tt.about, err)
		}
		if back, err := tt.format.Unwrap(got, "s"); err != nil || string(back) != tt.config {
			t.Errorf("%s: unwrapped: %v\n%s", tt.about, err, back)
		}
	}
}

// An entry is not bridged if that would lose members, or could not be reversed.
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
		{"a token that only Codex has", TOML, "[mcp_servers.s]\nurl = 'http://h'\nbearer_token_env_var = 'T'\n"},
		{"headers that only Codex has", TOML, "[mcp_servers.s]\nurl = 'http://h'\nenv_http_headers.A = 'T'\n"},
		{"headers in a table of their own", TOML, "[mcp_servers.s]\nurl = 'http://h'\n[mcp_servers.s.http_headers]\nA = '1'\n"},
		{"headers that are none in TOML", TOML, "[mcp_servers.s]\nurl = 'http://h'\nhttp_headers = { A = 1 }\n"},
		{"an entry at two places", TOML, "mcp_servers.s.url = 'http://h'\n[mcp_servers]\ns.http_headers = {}\n"},
		{"an address that is none", TOML, "[mcp_servers.s]\nurl = ['http://h']\n"},
		{"headers that Goose makes", YAML, "extensions:\n  s:\n    uri: http://h\n    headers: {A: $B}\n"},
		{"what Goose makes headers of", YAML, "extensions:\n  s:\n    uri: http://h\n    env_keys: [A]\n"},
		{"an environment in YAML", YAML, "extensions:\n  s:\n    uri: http://h\n    envs: {A: b}\n"},
		{"headers that are none in YAML", YAML, "extensions:\n  s:\n    uri: http://h\n    headers: [A]\n"},
		{"a header of several lines", YAML, "extensions:\n  s:\n    uri: http://h\n    headers:\n      A: |\n        b\n"},
	} {
		if got, err := tt.format.Bridge([]byte(tt.config), "s", with); !errors.Is(err, ErrRemote) {
			t.Errorf("%s: %v\n%s", tt.about, err, got)
		}
	}
	if _, err := JSON.Bridge([]byte(`{"servers":{"s":{"command":"x"}}}`), "s", with); err == nil {
		t.Error("a server with a command is bridged")
	}
}
