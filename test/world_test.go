package test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"time"
)

// world is a network of made-up hosts below .test, and of api.openai.com. It has a proxy, through which each
// of them is one server in TLS, and prints the variables by which a user reaches it. It ends with a signal.
//
//	/v1/chat/completions  a completion, as events
//	/slow                 an event, and then nothing until the client leaves
//	/                     the protocol and the credentials of the request
func world() {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		log.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, Subject: pkix.Name{CommonName: "world"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: []string{"*.test", "api.openai.com"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		log.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(inWorld))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.EnableHTTP2 = true
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	s.StartTLS()
	plain := httptest.NewServer(http.HandlerFunc(inWorld))
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to := s.Listener.Addr().String()
		if r.Method != http.MethodConnect {
			to = plain.Listener.Addr().String()
		}
		server, err := net.Dial("tcp", to)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer server.Close()
		if r.Method != http.MethodConnect {
			r.Header.Set("Connection", "close")
			_ = r.Write(server)
		}
		client, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer client.Close()
		if r.Method == http.MethodConnect {
			_, _ = io.WriteString(client, "HTTP/1.1 200 OK\r\n\r\n")
			go func() {
				_, _ = io.Copy(server, client)
				_ = server.(*net.TCPConn).CloseWrite()
			}()
		}
		_, _ = io.Copy(client, server)
	}))
	check := func(err error) {
		if err != nil {
			log.Fatal(err)
		}
	}
	check(os.WriteFile("world.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	here, err := os.Getwd()
	check(err)
	fmt.Printf("export HTTPS_PROXY=%s HTTP_PROXY=%[1]s SSL_CERT_FILE=%s/world.pem WORLD=%s\n", proxy.URL, here, plain.URL)
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, os.Interrupt)
	<-ended
}

func inWorld(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/v1/chat/completions":
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		for _, word := range []string{"All", " is", " well."} {
			_, _ = fmt.Fprintf(w, "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":%q}}]}\n\n", word)
			_ = http.NewResponseController(w).Flush()
		}
		_, _ = io.WriteString(w, "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	case "/slow":
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {}\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	default:
		_, _ = fmt.Fprintf(w, "%s %s\n", r.Proto, r.Header.Get("Authorization"))
	}
}

// caller is an agent that asks a model once. It prints who signed the certificate of the server, and what came.
// Its arguments are a URL, and flags:
//
//	h2         it speaks HTTP/2
//	distrusts  it knows no authority
//	twice      it asks again after a failure
//	token=X    it uses those credentials for the proxy, or none if X is empty
//	key        it sends a secret
func caller() {
	flags := map[string]string{}
	for _, arg := range os.Args[2:] {
		name, value, _ := strings.Cut(arg, "=")
		flags[name] = value
	}
	has := func(flag string) bool { _, ok := flags[flag]; return ok }
	pool, _ := x509.SystemCertPool()
	if has("distrusts") {
		pool = x509.NewCertPool()
	}
	t := &http.Transport{
		Proxy: func(r *http.Request) (*url.URL, error) {
			u, err := http.ProxyFromEnvironment(r)
			if token := flags["token"]; u != nil && has("token") {
				if u.User = url.UserPassword("x", token); token == "" {
					u.User = nil
				}
			}
			return u, err
		},
		ForceAttemptHTTP2: has("h2"), TLSClientConfig: &tls.Config{RootCAs: pool},
	}
	ask := func() error {
		r, err := http.NewRequest(http.MethodPost, os.Args[1], bytes.NewReader([]byte(`{"model":"m","stream":true,"messages":[{"role":"user","content":"hello"}]}`)))
		if err != nil {
			return err
		}
		r.Header.Set("Content-Type", "application/json")
		if has("key") {
			r.Header.Set("Authorization", "Bearer sk-abcdefghijklmnopqrstuv")
		}
		answer, err := (&http.Client{Transport: t}).Do(r)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		if answer.TLS != nil {
			fmt.Printf("signed by %s\n", answer.TLS.PeerCertificates[0].Issuer.CommonName)
		}
		_, err = io.Copy(os.Stdout, answer.Body)
		return err
	}
	err := ask()
	if err != nil && has("twice") {
		fmt.Println(err)
		err = ask()
	}
	if err != nil {
		log.Fatal(err)
	}
}
