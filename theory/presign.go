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
	signer "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
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
func (b *Bucket) Presign(ctx context.Context, method, key string) (string, error) {
	base, err := url.Parse(b.Endpoint)
	if err != nil || base.Host == "" {
		return "", fmt.Errorf("the endpoint of the store is no URL: %q", b.Endpoint)
	}
	if !isSegment(b.Name) {
		return "", fmt.Errorf("%q cannot be the name of a bucket", b.Name)
	}
	object := *base
	object.Path = strings.TrimSuffix(base.Path, "/") + "/" + b.Name + "/" + key
	object.RawPath = escapePath(object.Path)
	object.RawQuery = url.Values{"X-Amz-Expires": {strconv.Itoa(int(presignTime.Seconds()))}}.Encode()
	req, err := http.NewRequestWithContext(ctx, method, object.String(), nil)
	if err != nil {
		return "", err
	}
	if method == http.MethodPut {
		req.Header.Set("Content-Type", contentType)
	}
	credentials := aws.Credentials{AccessKeyID: b.Key, SecretAccessKey: b.Secret, SessionToken: b.Token}
	signed, _, err := signer.NewSigner(func(o *signer.SignerOptions) { o.DisableURIPathEscaping = true }).
		PresignHTTP(ctx, credentials, req, "UNSIGNED-PAYLOAD", "s3", b.Region, time.Now())
	return signed, err
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
