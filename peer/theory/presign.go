package theory

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/smithy-go/encoding/httpbinding"
)

// A Bucket is a bucket of an S3-compatible store.
type Bucket struct {
	// Endpoint is the URL of the store, such as http://127.0.0.1:9000.
	Endpoint string
	Name     string
	Region   string
	// Key and Secret sign; Token is only needed for temporary credentials.
	Key, Secret, Token string
}

// Presign returns a URL that allows a method on an object for an hour, without further
// credentials. The bucket is part of the path, which every store supports.
//
// Only the host is signed, because some clients send a PUT without content-type.
func (b *Bucket) Presign(ctx context.Context, method, key string) (string, error) {
	object, err := url.Parse(b.Endpoint)
	if err != nil || object.Host == "" {
		return "", fmt.Errorf("the endpoint of the store is not a URL: %q", b.Endpoint)
	}
	if !isSegment(b.Name) {
		return "", fmt.Errorf("invalid name of a bucket %q", b.Name)
	}
	object.Host = withoutPort(object)
	object.Path = strings.TrimSuffix(object.Path, "/") + "/" + b.Name + "/" + key
	object.RawPath = httpbinding.EscapePath(object.Path, false) // stores escape it like this before they compare signatures
	object.RawQuery = url.Values{"X-Amz-Expires": {strconv.Itoa(int(presignTime.Seconds()))}}.Encode()
	r := &http.Request{Method: method, URL: object, Host: object.Host, Header: http.Header{}}
	signer := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })
	signed, _, err := signer.PresignHTTP(ctx, aws.Credentials{AccessKeyID: b.Key, SecretAccessKey: b.Secret, SessionToken: b.Token},
		r, "UNSIGNED-PAYLOAD", "s3", b.Region, time.Now())
	return signed, err
}

// withoutPort returns the host, with its port unless that is the scheme's default. Only some
// clients send the default port to the store.
func withoutPort(u *url.URL) string {
	if p := u.Port(); u.Scheme == "http" && p == "80" || u.Scheme == "https" && p == "443" {
		return strings.TrimSuffix(u.Host, ":"+p)
	}
	return u.Host
}
