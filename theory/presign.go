package theory

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// A Bucket is one of an S3-compatible store, whose objects URLs can be signed for.
type Bucket struct {
	// Endpoint is the URL of the store, such as http://127.0.0.1:9000.
	Endpoint string
	Name     string
	Region   string
	// Key and Secret sign; Token goes with temporary ones.
	Key, Secret, Token string
}

// Presign returns the URL by which a method may be applied to an object, without
// more credentials than the URL itself, for an hour. The bucket is part of the
// path, which every store understands.
//
// It signs by version 4 of Amazon's signatures, in the query: see "Authenticating
// Requests: Using Query Parameters" in the API reference of Amazon S3.
func (b *Bucket) Presign(_ context.Context, method, key string) (string, error) {
	object, err := url.Parse(b.Endpoint)
	if err != nil || object.Host == "" {
		return "", fmt.Errorf("the endpoint of the store is no URL: %q", b.Endpoint)
	}
	if !isSegment(b.Name) {
		return "", fmt.Errorf("%q cannot be the name of a bucket", b.Name)
	}
	object.Host = withoutPort(object)
	object.Path = strings.TrimSuffix(object.Path, "/") + "/" + b.Name + "/" + key
	object.RawPath = escapePath(object.Path)

	names, headers := "host", "host:"+object.Host+"\n"
	if method == http.MethodPut {
		names, headers = "content-type;"+names, "content-type:"+contentType+"\n"+headers
	}
	date := time.Now().UTC().Format("20060102T150405Z")
	scoped := []string{date[:8], b.Region, "s3", "aws4_request"}
	scope := strings.Join(scoped, "/")
	object.RawQuery = strings.ReplaceAll(b.claims(date, scope, names).Encode(), "+", "%20")
	request := strings.Join([]string{method, object.RawPath, object.RawQuery, headers, names, "UNSIGNED-PAYLOAD"}, "\n")
	digest := sha256.Sum256([]byte(request))
	toSign := strings.Join([]string{signatureV4, date, scope, hex.EncodeToString(digest[:])}, "\n")
	object.RawQuery += "&X-Amz-Signature=" + b.sign(append(scoped, toSign))
	return object.String(), nil
}

const signatureV4 = "AWS4-HMAC-SHA256"

// claims is what the URL says of its signature.
func (b *Bucket) claims(date, scope, headers string) url.Values {
	v := url.Values{
		"X-Amz-Algorithm":     {signatureV4},
		"X-Amz-Credential":    {b.Key + "/" + scope},
		"X-Amz-Date":          {date},
		"X-Amz-Expires":       {strconv.Itoa(int(presignTime.Seconds()))},
		"X-Amz-SignedHeaders": {headers},
	}
	if b.Token != "" {
		v.Set("X-Amz-Security-Token", b.Token)
	}
	return v
}

// sign signs the last of the parts with the key that the secret and those before it make.
func (b *Bucket) sign(parts []string) string {
	key := []byte("AWS4" + b.Secret)
	for _, part := range parts {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(part))
		key = mac.Sum(nil)
	}
	return hex.EncodeToString(key)
}

// withoutPort returns the host and its port, unless that is the one that the scheme
// stands for: some clients send that one to the store, and some do not.
func withoutPort(u *url.URL) string {
	if p := u.Port(); u.Scheme == "http" && p == "80" || u.Scheme == "https" && p == "443" {
		return strings.TrimSuffix(u.Host, ":"+p)
	}
	return u.Host
}

// escapePath escapes a path as stores do before they compare signatures: all but
// letters, digits, four marks and the slash, which is more than [url.URL] does.
func escapePath(path string) string {
	var b strings.Builder
	for i := range len(path) {
		c := path[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-._~/", c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
