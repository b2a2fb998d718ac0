package interop

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// certificate writes a certificate for 127.0.0.1, and returns the files with it and its key.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	check(t, err)
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	check(t, err)
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	check(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	check(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}), 0o600))
	return cert, key
}

// browse runs a script for Chromium, and reads what it saw.
func browse(t *testing.T, saw any, script string, args ...string) {
	t.Helper()
	args = append([]string{script, filepath.Join(npm(t), "playwright-core", "index.js"), need(t, "chromium")}, args...)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, need(t, "node"), args...)
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	check(t, err)
	check(t, json.Unmarshal(out, saw))
}

// A cancelling is what the page says while a call is cancelled.
type cancelling struct {
	Live, Question, Said, Count string
	Refused                     bool
}

func (c *cancelling) check(t *testing.T) {
	t.Helper()
	if c.Live != "live" || !c.Refused || c.Said != "done: cancel PROMPT_SEND 1" || !strings.Contains(c.Question, "This changes a live wire") || !strings.Contains(c.Count, "altered") {
		t.Errorf("%+v", *c)
	}
}

// The page of a hub lists the sessions of two relays, finds one of them, and leads to it by
// its link. It cancels a call with --control. With a token, the page of another machine does so
// only if the token has the right; with any, the call can be looked at while it runs.
func TestHubPageInChromium(t *testing.T) {
	need(t, "chromium")
	cert, key := certificate(t)
	state := t.TempDir()
	env := []string{"XDG_STATE_HOME=" + state, "XDG_RUNTIME_DIR=" + t.TempDir()}
	hub := exec.CommandContext(t.Context(), wirectl, "hub", "--control", "--listen", "0.0.0.0:0", "--tls-cert", cert, "--tls-key", key)
	hub.Env, hub.Stderr = append(os.Environ(), env...), t.Output()
	out, err := hub.StdoutPipe()
	check(t, err)
	check(t, hub.Start())
	t.Cleanup(func() {
		_ = hub.Process.Signal(os.Interrupt)
		_ = hub.Wait() // it was interrupted
	})
	lines := bufio.NewReader(out)
	said := ""
	for !strings.Contains(said, "the page is at ") {
		line, err := lines.ReadString('\n')
		check(t, err)
		said += line
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }() // until the hub ends
	port := regexp.MustCompile(`the hub is at \S+:(\d+)`).FindStringSubmatch(said)[1]
	page := regexp.MustCompile(`the page is at (\S+)`).FindStringSubmatch(said)[1]
	with := func(right string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), wirectl, "hub", "token", "--"+right, "my-"+right)
		cmd.Env, cmd.Stderr = append(os.Environ(), env...), t.Output()
		token, err := cmd.Output()
		check(t, err)
		file := filepath.Join(t.TempDir(), right)
		check(t, os.WriteFile(file, token, 0o600))
		return "tls://127.0.0.1:" + port + "?creds=" + file + "&ca=" + cert
	}
	publish := with("publish")
	for _, name := range []string{"first", "second"} {
		send := throughRelay(t, env, 20_000, "--name", name, "--hub", publish, "--hub-control", "--hub-policy", "lossless")
		defer send.Wait() //nolint:errcheck // the prompt did not expect the cancel
		defer send.Process.Kill()
	}

	var list struct {
		Sessions, Found, Asked []string
		Address, Title         string
		Cancel                 cancelling
	}
	browse(t, &list, "hub.mjs", page)
	if len(list.Sessions) != 2 || !strings.Contains(strings.Join(list.Sessions, "\n"), "my-publish") || len(list.Found) != 1 || !strings.Contains(list.Found[0], "first") ||
		len(list.Asked) > 0 || !strings.Contains(list.Address, "/session/my-publish%2F") || !strings.Contains(list.Title, "first") {
		t.Errorf("%+v", list)
	}
	list.Cancel.check(t)

	var viewed struct {
		Commands, Next bool
		Buttons        int
		Payload, Said  string
	}
	browse(t, &viewed, "view.mjs", pageOf(t, append(env, "WIRECTL_HUB="+with("view")), "--control", "hub:second"))
	if viewed.Commands || viewed.Buttons != 0 || !viewed.Next || !strings.Contains(viewed.Payload, "word word") || !strings.Contains(viewed.Said, "cannot be changed here") {
		t.Errorf("with a token for viewing: %+v", viewed)
	}
	var cancelled cancelling
	browse(t, &cancelled, "commands.mjs", pageOf(t, append(env, "WIRECTL_HUB="+with("control")), "--control", "hub:second"))
	cancelled.check(t)
}
