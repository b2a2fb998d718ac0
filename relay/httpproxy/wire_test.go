package httpproxy_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
	"github.com/wirectl/wirectl/relay/httpproxy"
)

// What came at once has one time, and all of it is recorded, however large it is once it
// is decompressed; the end of a direction comes behind it.
func TestWire(t *testing.T) {
	var body bytes.Buffer
	w := gzip.NewWriter(&body)
	_, _ = w.Write(bytes.Repeat([]byte("0"), 1<<20))
	_ = w.Close()
	response := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", body.Len(), &body)

	var raw []byte
	var got []string
	c := httpproxy.New(func(r *capture.Record) {
		raw = append(raw, r.Raw...)
		got = append(got, fmt.Sprintf("%v %d %s %s %d", r.Kind == capture.HalfClosed, r.Conn, r.Dir, r.Framing, r.Time.Unix()))
	}, 7, carrier.Options{Kind: carrier.HTTP1})
	c.Feed(frame.U2C, []byte(strings.Repeat(response, 3)), time.Unix(1, 0), time.Time{})
	c.End(frame.U2C, time.Unix(2, 0))

	const whole = "false 7 u2c http 1"
	if want := []string{whole, whole, whole, "true 7 u2c  2"}; strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("recorded:\n%s", strings.Join(got, "\n"))
	}
	if want := strings.Repeat(response, 3); string(raw) != want {
		t.Errorf("%d bytes of %d", len(raw), len(want))
	}
}
