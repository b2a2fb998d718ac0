package theory_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	signer "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/wirectl/wirectl/theory"
)

// A URL is signed as the module of those who define the signatures does it.
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
			{"GET", "w/100%20", "w/100%2520"}, // what is escaped already is no escape
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
			if want := signedByAWS(t, tt.method, *u, b); signed != want {
				t.Errorf("the URL is\n%s, want\n%s", signed, want)
			}
		}
	}
}

// signedByAWS signs a URL as it was at its time, for an hour.
func signedByAWS(t *testing.T, method string, u url.URL, b theory.Bucket) string {
	t.Helper()
	at, err := time.Parse("20060102T150405Z", u.Query().Get("X-Amz-Date"))
	if err != nil {
		t.Fatal(err)
	}
	u.RawQuery = "X-Amz-Expires=3600"
	req, err := http.NewRequestWithContext(t.Context(), method, u.String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if method == http.MethodPut {
		req.Header.Set("Content-Type", "application/octet-stream")
	}
	signed, _, err := signer.NewSigner(func(o *signer.SignerOptions) { o.DisableURIPathEscaping = true }).
		PresignHTTP(t.Context(), aws.Credentials{AccessKeyID: b.Key, SecretAccessKey: b.Secret, SessionToken: b.Token},
			req, "UNSIGNED-PAYLOAD", "s3", b.Region, at)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}
