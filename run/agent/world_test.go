package agent

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// In a world, all that an agent asks is answered within this process, whatever it speaks, and recorded.
func TestWorld(t *testing.T) {
	p, folder := newTestProxy(t, nil, nil)
	p.inhabit(&World{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "%s %s", r.Proto, r.URL)
		}),
		Refuses: func(address string, listed bool) error {
			if strings.HasPrefix(address, "no.test") {
				return errors.New("not in this world")
			}
			return nil
		},
	})
	c := through(p, "wirectl")
	defer c.CloseIdleConnections()
	h2 := through(p, "wirectl")
	h2.Transport.(*http.Transport).ForceAttemptHTTP2 = true
	defer h2.CloseIdleConnections()
	for _, test := range []struct {
		client        *http.Client
		address, want string
	}{
		{c, "https://model.test/a?b=c", "200 OK HTTP/1.1 https://model.test:443/a?b=c"},
		{h2, "https://model.test/a", "200 OK HTTP/2.0 https://model.test:443/a"},
		{c, "http://Tool.test:8080/a", "200 OK HTTP/1.1 http://tool.test:8080/a"},
		{c, "http://no.test/", "502 Bad Gateway wirectl: not in this world\n"},
	} {
		if got := get(t, test.client, test.address); got != test.want {
			t.Errorf("%s is answered %q, want %q", test.address, got, test.want)
		}
	}
	if _, err := c.Get("https://no.test/"); err == nil || !strings.Contains(err.Error(), "Bad Gateway") { //nolint:bodyclose // there is none
		t.Errorf("a host that is refused: %v", err)
	}
	// A tunnel without TLS, whose client ends its side first.
	conn, err := net.Dial("tcp", p.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "CONNECT plain.test:80 HTTP/1.1\r\nHost: plain.test:80\r\nProxy-Authorization: "+"Basic d2lyZWN0bDp0MGtlbi1vZi10aGUtcnVu"+"\r\n\r\nGET /x HTTP/1.1\r\nHost: plain.test\r\n\r\n")
	in := bufio.NewReader(conn)
	for range 2 {
		answer, err := http.ReadResponse(in, nil) //nolint:bodyclose // it is read below
		if err != nil {
			t.Fatal(err)
		}
		if answer.ContentLength > 0 {
			body, _ := io.ReadAll(answer.Body)
			if string(body) != "HTTP/1.1 http://plain.test:80/x" {
				t.Errorf("the tunnel is answered %q", body)
			}
			break
		}
	}
	_ = conn.(*net.TCPConn).CloseWrite()
	if _, err := io.ReadAll(in); err != nil {
		t.Errorf("the end of the tunnel: %v", err)
	}
	c.CloseIdleConnections()
	h2.CloseIdleConnections()
	finish(t, p)
	text, err := os.ReadFile(filepath.Join(folder, "model.pcapng"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"https://model.test:443/a", "http://tool.test:8080", "http://plain.test:80/x"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s is not recorded", want)
		}
	}
}

// A client that does not trust the authority gets nothing else.
func TestWorldDistrusted(t *testing.T) {
	p, _ := newTestProxy(t, nil, nil)
	p.inhabit(&World{Handler: http.NotFoundHandler(), Refuses: func(string, bool) error { return nil }})
	for range 2 {
		c := through(p, "wirectl")
		c.Transport.(*http.Transport).TLSClientConfig = &tls.Config{}
		if _, err := c.Get("https://model.test/"); err == nil || !strings.Contains(err.Error(), "certificate") { //nolint:bodyclose // there is none
			t.Errorf("%v", err)
		}
		c.CloseIdleConnections()
	}
}
