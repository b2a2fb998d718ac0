package interop

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// s3 starts a store with a bucket "artifacts" and the credentials of s3Environment. It
// returns its URL.
func s3(t *testing.T) (address string) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "versitygw.exe")
	build := exec.CommandContext(t.Context(), "go", "build", "-C", "s3", "-o", program, "github.com/versity/versitygw/cmd/versitygw")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	dir := t.TempDir()
	check(t, os.Mkdir(filepath.Join(dir, "artifacts"), 0o755))
	at := "127.0.0.1:" + freePort(t)
	cmd := exec.CommandContext(t.Context(), program, "--port", at, "posix", dir)
	cmd.Env = append(cmd.Environ(), "ROOT_ACCESS_KEY=interop", "ROOT_SECRET_KEY=interop-secret")
	listening(t, cmd, regexp.MustCompile(`(http://127\.0\.0\.1:\d+)`))
	return "http://" + at
}

// resolved returns the output of theory resolve for an intent.
func resolved(t *testing.T, store, secret, intent string) (request struct{ Inputs, Outputs map[string]string }) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), wirectl, "theory", "resolve", "--run-id", "run1", "--world", "world1", "--s3", store)
	cmd.Env = append(cmd.Environ(), "AWS_ACCESS_KEY_ID=interop", "AWS_SECRET_ACCESS_KEY="+secret)
	cmd.Stdin = strings.NewReader(intent)
	out, err := cmd.Output()
	check(t, err)
	check(t, json.Unmarshal(out, &request))
	return request
}

// exchange sends a request to the store.
func exchange(t *testing.T, method, url, contentType, body string) (status int, answer string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	check(t, err)
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	resp, err := http.DefaultClient.Do(r)
	check(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	check(t, err)
	return resp.StatusCode, string(b)
}

const octets = "application/octet-stream"

// A store that checks signatures accepts the URLs of theory resolve only for the signed
// purpose. A run reads its input from there and writes its output there.
func TestPresigned(t *testing.T) {
	store := s3(t)
	for _, path := range []string{"plain.txt", "a folder/grüße.txt", "a+b&c=d@e,f;g!i$j'k(l)m*~.txt", "100%20.txt", "%2e%2e/world2/x"} {
		quoted, err := json.Marshal(path)
		check(t, err)
		intent := `{"inputs":{"x.world":` + string(quoted) + `},"outputs":{"x.world":` + string(quoted) + `}}`
		r := resolved(t, store, "interop-secret", intent)
		for _, contentType := range []string{"", octets} { // it is not signed
			if status, answer := exchange(t, "PUT", r.Outputs["x"], contentType, "of "+path); status != http.StatusOK {
				t.Fatalf("%q is put as %q: %d %s", path, contentType, status, answer)
			}
		}
		if status, answer := exchange(t, "GET", r.Inputs["x"], "", ""); status != http.StatusOK || answer != "of "+path {
			t.Errorf("%q is got: %d %q", path, status, answer)
		}
		for _, forged := range []struct{ name, method, url, contentType string }{
			{"another world", "GET", strings.Replace(r.Inputs["x"], "world1", "world2", 1), ""},
			{"another method", "PUT", r.Inputs["x"], octets},
			{"a longer time", "GET", strings.Replace(r.Inputs["x"], "Expires=3600", "Expires=7200", 1), ""},
			{"another key", "GET", resolved(t, store, "guessed", intent).Inputs["x"], ""},
		} {
			if status, _ := exchange(t, forged.method, forged.url, forged.contentType, "x"); status != http.StatusForbidden {
				t.Errorf("%q: %s is answered by %d", path, forged.name, status)
			}
		}
	}

	r := resolved(t, store, "interop-secret", `{"inputs":{"x.world":"plain.txt"},"outputs":{"x.world":"out/copy.txt"}}`)
	runtime, _ := listening(t, exec.CommandContext(t.Context(), wirectl, "theory", "serve", "--plain-http", "--listen", "127.0.0.1:0"), at)
	command(t, nil, "send", "-q", "--input", "x="+r.Inputs["x"], "--output-to", "x="+r.Outputs["x"], "theory", runtime)
	copied := resolved(t, store, "interop-secret", `{"inputs":{"x.world":"out/copy.txt"}}`).Inputs["x"]
	if status, answer := exchange(t, "GET", copied, "", ""); status != http.StatusOK || answer != "of plain.txt" {
		t.Errorf("the run has stored %d %q", status, answer)
	}
}
