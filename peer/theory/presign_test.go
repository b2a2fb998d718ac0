package theory_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strings"
	"testing"

	"github.com/wirectl/wirectl/peer/theory"
)

// A URL is signed as stores verify it, and the host is the only signed header.
func TestPresign(t *testing.T) {
	plain := theory.Bucket{Endpoint: "http://127.0.0.1:9000", Name: "artifacts", Region: "eu-test-1", Key: "KEY", Secret: "SECRET"}
	temporary, standard, below := plain, plain, plain
	temporary.Token = "a+b/c=="
	standard.Endpoint, below.Endpoint = "https://store.example:443", "http://127.0.0.1:80/stores/a b/"
	for _, b := range []theory.Bucket{plain, temporary, standard, below} {
		for _, tt := range []struct{ method, key, path string }{
			{"GET", "world/a b/ü.txt", "world/a%20b/%C3%BC.txt"},
			{"PUT", "w/o", "w/o"},
			{"GET", "w/a+b&c=d@e,f;g:h!i$j'k(l)m*~", "w/a%2Bb%26c%3Dd%40e%2Cf%3Bg%3Ah%21i%24j%27k%28l%29m%2A~"},
			{"GET", "w/100%20", "w/100%2520"}, // an escape in the key is escaped again
			{"PUT", "w/%2e%2e/other", "w/%252e%252e/other"},
			{"GET", "w/a?b#c", "w/a%3Fb%23c"},
		} {
			signed, err := b.Presign(t.Context(), tt.method, tt.key)
			if err != nil {
				t.Fatal(err)
			}
			u, err := url.Parse(signed)
			if err != nil {
				t.Fatal(err)
			}
			if p := u.Port(); p != "" && p != "9000" || !strings.HasSuffix(u.Path, "/artifacts/"+tt.key) || !strings.HasSuffix(u.EscapedPath(), "/artifacts/"+tt.path) {
				t.Errorf("the URL is %s", signed)
			}
			if got, want := u.Query().Get("X-Amz-Signature"), signature(tt.method, *u, b.Secret); got != want {
				t.Errorf("the signature of %s is %s, want %s", signed, got, want)
			}
			for name, want := range map[string]string{"SignedHeaders": "host", "Expires": "3600", "Security-Token": b.Token} {
				if got := u.Query().Get("X-Amz-" + name); got != want {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
		}
	}
}

// signature computes the signature of a URL from the document "Authenticating
// Requests: Using Query Parameters" of Amazon S3, as a store does.
func signature(method string, u url.URL, secret string) string {
	q := u.Query()
	q.Del("X-Amz-Signature")
	query := strings.ReplaceAll(q.Encode(), "+", "%20")
	request := strings.Join([]string{method, u.EscapedPath(), query, "host:" + u.Host + "\n", "host", "UNSIGNED-PAYLOAD"}, "\n")
	digest := sha256.Sum256([]byte(request))
	_, scope, _ := strings.Cut(q.Get("X-Amz-Credential"), "/")
	toSign := strings.Join([]string{"AWS4-HMAC-SHA256", q.Get("X-Amz-Date"), scope, hex.EncodeToString(digest[:])}, "\n")
	key := []byte("AWS4" + secret)
	for _, part := range append(strings.Split(scope, "/"), toSign) {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(part))
		key = mac.Sum(nil)
	}
	return hex.EncodeToString(key)
}
