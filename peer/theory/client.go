package theory

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/smithy-go/encoding/httpbinding"
	"github.com/coder/websocket"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

const (
	clientQueue = 256              // messages that may wait for a client
	tokenQueue  = 192              // messages above which tokens are dropped
	clientWrite = 10 * time.Second // how long a client may take to read one
	others      = 2 * time.Second  // how long it may block other clients of its run
	clientLimit = 16 << 20         // bytes of a message from a client
	requestWait = 30 * time.Second // how long a client may take to send its request
	peerLimit   = 8 << 20          // bytes of a message that clients accept
)

// A client is one connection.
type client struct {
	runtime *Runtime
	ws      *websocket.Conn
	queue   chan []byte   // messages to write
	ending  chan struct{} // closed by closeAfterQueue
	gone    chan struct{} // closed when nothing more is written

	observer bool // may not control the run

	// closeAfterQueue closes the connection once the queue is written.
	closeAfterQueue func()
}

func newClient(t *Runtime, ws *websocket.Conn) *client {
	ws.SetReadLimit(clientLimit)
	c := &client{runtime: t, ws: ws, queue: make(chan []byte, clientQueue), ending: make(chan struct{}), gone: make(chan struct{})}
	c.closeAfterQueue = sync.OnceFunc(func() { close(c.ending) })
	return c
}

// serveRequest reads the request, joins its run, and handles what the controller sends
// later.
func (c *client) serveRequest() {
	go c.writeMessages()
	defer func() { <-c.gone }()
	defer c.closeAfterQueue()
	defer c.drop()
	q := c.request()
	if q == nil {
		return
	}
	r, fresh := c.runtime.runOf(q)
	if r == nil {
		c.ws.Close(websocket.StatusGoingAway, errStopped.Error())
		return
	}
	r.join(c)
	defer r.leave(c)
	if fresh {
		go r.work()
	}
	for {
		m, ok := c.readMessage(context.Background())
		if !ok {
			return
		}
		if strings.EqualFold(m.Kind, "control") {
			r.control(m.Content, !c.observer)
		}
	}
}

// request reads the first message. If that is not a request, it closes the connection and
// returns nil.
func (c *client) request() *Request {
	patience, cancel := context.WithTimeout(context.Background(), requestWait)
	defer cancel()
	m, ok := c.readMessage(patience)
	opener := c.runtime.options.Dialect.Opener()
	switch {
	case !ok:
		return nil
	case m.Kind != opener:
		c.ws.Close(websocket.StatusProtocolError, "the first message is a "+opener)
		return nil
	}
	o := m.Control
	if opener == "Request" {
		o.Inputs, o.Outputs = m.Inputs, m.Outputs
	} else if o = (opening{}); m.Content != nil && json.Unmarshal(m.Content, &o) != nil {
		c.ws.Close(websocket.StatusProtocolError, "a member of the message has the wrong type")
		return nil
	}
	if o.unwrapPayload() != nil {
		c.ws.Close(websocket.StatusProtocolError, "a member of the payload has the wrong type")
		return nil
	}
	id := o.identity.in(c.runtime.options.Dialect)
	if id.text() == "" {
		c.ws.Close(websocket.StatusPolicyViolation, "a "+opener+" names its run_id")
		return nil
	}
	c.observer = o.Role == "observer"
	q := &Request{RunID: id.text(), id: id, Mode: cmp.Or(o.Mode, "mock"), Inputs: o.Inputs, Outputs: o.Outputs, more: o.more}
	if q.Outputs == nil {
		q.Outputs = values{}
	}
	return q
}

// drop closes the connection without a reason.
func (c *client) drop() { _ = c.ws.CloseNow() } // it may be closed already

// readMessage reads a message. Anything else closes the connection.
func (c *client) readMessage(ctx context.Context) (*incoming, bool) {
	kind, data, err := c.ws.Read(ctx)
	if err != nil {
		return nil, false
	}
	m := &incoming{}
	switch {
	case kind != websocket.MessageText:
		c.ws.Close(websocket.StatusUnsupportedData, "messages are text")
	case jsonscan.Valid(data) != nil || jsonscan.KindOf(bytes.TrimLeft(data, " \t\r\n")) != jsonscan.Object:
		c.ws.Close(websocket.StatusInvalidFramePayloadData, "a message is a JSON object")
	case json.Unmarshal(data, m) != nil:
		c.ws.Close(websocket.StatusProtocolError, "a member of the message has the wrong type")
	default:
		return m, true
	}
	return nil, false
}

// writeMessages writes the messages of runs to the client, until the client does not read,
// or after closeAfterQueue until the queue is written.
func (c *client) writeMessages() {
	defer close(c.gone)
	for {
		select {
		case m := <-c.queue:
			if !c.writeOne(m) {
				return
			}
		case <-c.ending:
			for len(c.queue) > 0 {
				if !c.writeOne(<-c.queue) {
					return
				}
			}
			c.ws.Close(websocket.StatusGoingAway, errStopped.Error())
			return
		}
	}
}

func (c *client) writeOne(m []byte) bool {
	ctx, cancel := context.WithTimeout(context.Background(), clientWrite)
	defer cancel()
	return c.ws.Write(ctx, websocket.MessageText, m) == nil
}

// push queues a message for the client. Tokens are dropped when the client is slow; other
// messages block until there is room, or the client is gone. A client that blocks others
// for too long is dropped.
func (c *client) push(m []byte, droppable, alone bool) {
	if droppable && len(c.queue) >= tokenQueue {
		return
	}
	select {
	case c.queue <- m:
		return
	default:
	}
	if !alone {
		hurry := time.AfterFunc(others, c.drop)
		defer hurry.Stop()
	}
	select {
	case c.queue <- m:
	case <-c.gone:
	}
}

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

// newClient returns the HTTP client for fetching and storing. It connects only to the addresses
// that admit allows, even after redirects.
func (f *Files) newClient() *http.Client {
	return &http.Client{
		Transport: guarded{&http.Transport{
			DialContext:         (&net.Dialer{Timeout: fetchTime, Control: f.control}).DialContext,
			ForceAttemptHTTP2:   true,
			TLSHandshakeTimeout: 10 * time.Second,
			IdleConnTimeout:     90 * time.Second,
		}},
		CheckRedirect: f.checkRedirect,
	}
}

// A guarded transport checks the addresses that it connects to. If the environment names a
// proxy, the proxy makes and controls the connections.
type guarded struct{ *http.Transport }

func (g guarded) RoundTrip(r *http.Request) (*http.Response, error) {
	if proxy, err := http.ProxyFromEnvironment(r); proxy != nil || err != nil {
		return http.DefaultTransport.RoundTrip(r)
	}
	return g.Transport.RoundTrip(r)
}

// checkRedirect only allows redirects to URLs that a Request could contain.
func (f *Files) checkRedirect(req *http.Request, via []*http.Request) error {
	switch to := req.URL; {
	case to.Scheme != "https" && !f.isPlain(to.String()):
		return fmt.Errorf("it redirects to %s://%s, which is not https", to.Scheme, to.Host)
	case len(via) >= maxRedirects:
		return errors.New("it redirects too often")
	}
	return nil
}

// control refuses an address before the connection is made, so that open and closed ports take
// the same time.
func (f *Files) control(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	return f.admit(to.Addr().Unmap())
}

// carrierGrade are the addresses that providers share among customers.
var carrierGrade = netip.MustParsePrefix("100.64.0.0/10")

// admit returns an error if runs may not connect to an address.
func (f *Files) admit(ip netip.Addr) error {
	switch {
	case isThisMachine(ip):
		if !f.PlainHTTP {
			return fmt.Errorf("%s is this machine: give --plain-http if runs may connect to it", ip)
		}
	case !ip.IsGlobalUnicast() || ip.IsPrivate() || carrierGrade.Contains(ip):
		if !f.PrivateNetwork {
			return fmt.Errorf("%s is a private address: give --private-network if runs may connect to it", ip)
		}
	}
	return nil
}

func isThisMachine(ip netip.Addr) bool {
	if ip.IsLoopback() || ip.IsUnspecified() {
		return true
	}
	own, _ := net.InterfaceAddrs() // without them, only loopback is known
	return slices.ContainsFunc(own, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.Equal(ip.WithZone("").AsSlice())
	})
}
