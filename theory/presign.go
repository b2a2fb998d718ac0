package theory

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
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
	object := base.JoinPath(b.Name)
	object = object.JoinPath(key)
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
