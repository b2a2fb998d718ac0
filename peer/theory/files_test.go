package theory_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/wirectl/wirectl/peer/theory"
)

// Inputs are loaded from their references, and outputs are stored at theirs.
func TestFiles(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		name = filepath.Join(root, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o777), os.WriteFile(name, []byte(text), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	write("r/in/text", "grüße")
	write("r/in/object", ` {"a":[1]}`)
	write("other/secret", "secret")
	for name, to := range map[string]string{"link-file/x": "../other/secret", "link-folder/d": "../other", "link-run": "other"} {
		name = filepath.Join(root, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o777), os.Symlink(to, name)); err != nil {
			t.Log(err) // some systems require a privilege for links
		}
	}
	write("pipe/text", "")
	if mkfifo, err := exec.LookPath("mkfifo"); err == nil {
		if err := exec.Command(mkfifo, filepath.Join(root, "pipe", "in")).Run(); err != nil {
			t.Fatal(err)
		}
	}
	store := newStore()
	defer store.Close()
	files := theory.Files{Root: root, PlainHTTP: true}
	var log bytes.Buffer // read after all runs have ended
	_, address := serve(t, theory.HandlerFunc(theory.Echo), theory.Options{Files: files, Log: slog.New(slog.NewTextHandler(&log, nil))})

	store.objects["/in"] = "remote"
	p := connect(t, address)
	p.send(`{"kind":"Request","control":{"run_id":"r","mode":"real"},"inputs":{"a":"/artifacts/r/in/text","b":"/artifacts/r/in/object","c":"` + store.URL + `/in?sig=1","d":[1.0]},
		"outputs":{"a":"/artifacts/r/out/deep/a","b":"/artifacts/r/out/b","c":"` + store.URL + `/out?sig=2","d":null}}`)
	for range 4 { // Ack, started, the Log of the echo, completed
		p.next()
	}
	p.expect(success(`{"a":"/artifacts/r/out/deep/a","b":"/artifacts/r/out/b","c":"` + store.URL + `/out","d":[1.0]}`))
	for name, want := range map[string]string{"r/out/deep/a": "grüße", "r/out/b": `{"a":[1]}`} {
		if got, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name))); strings.TrimSpace(string(got)) != want {
			t.Errorf("%s has %q, %v", name, got, err)
		}
	}
	if got := store.objects["/out"]; got != "remote" || store.contentType != "application/octet-stream" {
		t.Errorf("the store has %q as %s", got, store.contentType)
	}

	// Errors contain neither paths of this machine nor signatures.
	for id, place := range map[string]string{
		"another-run": "/artifacts/other/secret", "out": "/artifacts/out/../other/secret", "nothing": "/artifacts/nothing/x",
		"folder": "/artifacts/folder", "not-there": store.URL + "/none?sig=3",
		"link-file": "/artifacts/link-file/x", "link-folder": "/artifacts/link-folder/d/secret", "link-run": "/artifacts/link-run/secret",
		"pipe": "/artifacts/pipe/in", "sent-on": store.URL + "/elsewhere?sig=4",
	} {
		p := connect(t, address)
		p.send(`{"kind":"Request","control":{"run_id":"` + id + `","mode":"real"},"inputs":{"a":"` + place + `"},"outputs":{}}`)
		p.next()
		p.next()
		if got := p.next(); !strings.Contains(got, `"code":"ERR_INPUTS"`) || strings.Contains(got, root) || strings.Contains(got, "sig=") {
			t.Errorf("%s: %s", id, got)
		}
	}
	if got := log.String(); !strings.Contains(got, "which is not https") || strings.Contains(got, "sig=") {
		t.Errorf("the log is %s", got)
	}
}

// A client does not learn which ports of this machine are open: not by inputs, outputs or
// redirects.
func TestPortsStayHidden(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := silent.Addr().String()
	silent.Close()
	http404 := httptest.NewServer(http.NotFoundHandler())
	defer http404.Close()
	open := http404.Listener.Addr().String()
	away := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http:/"+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	defer away.Close()
	_, address := serve(t, theory.HandlerFunc(theory.Echo), theory.Options{Files: theory.Files{PlainHTTP: true}})
	ran := 0
	for _, tt := range []struct{ name, message string }{
		{`"inputs":{"a":"%s"}`, "it cannot be fetched"},
		{`"inputs":{"a":1},"outputs":{"a":"%s"}`, "its server did not accept it"},
	} {
		for _, place := range []string{"http://" + open, "http://" + closed, "https://" + open, "https://" + closed, away.URL + "/" + open, away.URL + "/" + closed} {
			ran++
			p := connect(t, address)
			p.send(fmt.Sprintf(`{"kind":"Request","control":{"run_id":%d},`+tt.name+`}`, ran, place+"/x"))
			got := ""
			for !strings.Contains(got, `"kind":"Response"`) {
				got = p.next()
			}
			if _, message, _ := strings.Cut(got, `"message":"the `); !strings.HasSuffix(message, `: `+tt.message+`"}}`) {
				t.Errorf("%s: got %s", place, got)
			}
		}
	}
}

// The time of an answer does not reveal ports either: no connection is made to this machine
// unless that is allowed. The port here is open and never answers, so a connection to it would
// last until a timeout.
func TestSilentPortsStayHidden(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	_, port, err := net.SplitHostPort(silent.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_, address := serve(t, theory.HandlerFunc(theory.Echo), theory.Options{})
	for i, values := range []string{`"inputs":{"a":"https://127.0.0.1:%s/x"}`, `"inputs":{"a":"https://localhost:%s/x"}`, `"inputs":{"a":1},"outputs":{"a":"https://127.0.0.1:%s/x"}`} {
		p := connect(t, address)
		p.send(fmt.Sprintf(`{"kind":"Request","control":{"run_id":%d},`+values+`}`, i, port))
		got := ""
		for !strings.Contains(got, `"kind":"Response"`) {
			got = p.next()
		}
		if !strings.Contains(got, "it cannot be fetched") && !strings.Contains(got, "its server did not accept it") {
			t.Errorf("%s: got %s", values, got)
		}
	}
	own, err := net.Dial("tcp", silent.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	first, err := silent.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if first.RemoteAddr().String() != own.LocalAddr().String() {
		t.Errorf("the runtime has connected from %s", first.RemoteAddr())
	}
}

// Addresses that are not public are only reached if an option allows them.
func TestAdmit(t *testing.T) {
	const public, private, here = "public", "private", "here"
	kinds := map[string]string{
		"127.0.0.1": here, "127.8.9.10": here, "::1": here, "0.0.0.0": here, "::": here,
		"10.0.0.1": private, "172.16.0.1": private, "192.168.255.254": private, "100.64.0.1": private, "169.254.169.254": private,
		"fe80::1%eth7": private, "fd00::1": private, "224.0.0.1": private, "255.255.255.255": private,
		"1.1.1.1": public, "2606:4700:4700::1111": public,
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range own {
		kinds[a.(*net.IPNet).IP.String()] = here
	}
	for address, kind := range kinds {
		ip := netip.MustParseAddr(address)
		for _, files := range []theory.Files{{}, {PlainHTTP: true}, {PrivateNetwork: true}} {
			admitted := kind == public || kind == here && files.PlainHTTP || kind == private && files.PrivateNetwork
			if err := files.Admit(ip); (err == nil) != admitted {
				t.Errorf("%s with %+v: %v", ip, files, err)
			}
		}
	}
}

// All inputs of a request are in memory at once, so they share one limit.
func TestInputsTogether(t *testing.T) {
	root := t.TempDir()
	large := append(bytes.Repeat([]byte(" "), 40<<20), "[]"...)
	for _, run := range []string{"one", "two"} {
		if err := errors.Join(os.Mkdir(filepath.Join(root, run), 0o777), os.WriteFile(filepath.Join(root, run, "large"), large, 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	runs := theory.HandlerFunc(func(context.Context, *theory.Request, func(theory.Message)) (*theory.Result, error) {
		return &theory.Result{}, nil
	})
	_, address := serve(t, runs, theory.Options{Files: theory.Files{Root: root}})
	for _, tt := range []struct{ run, inputs, want string }{
		{"one", `{"a":"/artifacts/one/large"}`, `"status":"success"`},
		{"two", `{"a":"/artifacts/two/large","b":"/artifacts/two/large"}`, "the inputs of a request exceed the limit of 67108864 bytes"},
	} {
		p := connect(t, address)
		p.send(`{"kind":"Request","control":{"run_id":"` + tt.run + `","mode":"real"},"inputs":` + tt.inputs + `,"outputs":{}}`)
		got := ""
		for !strings.Contains(got, `"kind":"Response"`) {
			got = p.next()
		}
		if !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %s, want %s", tt.run, got, tt.want)
		}
	}
}

// A store keeps the objects that are put into it.
type store struct {
	*httptest.Server
	mu          sync.Mutex
	objects     map[string]string
	contentType string
}

func newStore() *store {
	s := &store{objects: map[string]string{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if r.Method == http.MethodPut {
			body, _ := io.ReadAll(r.Body)
			s.objects[r.URL.Path], s.contentType = string(body), r.Header.Get("Content-Type")
			return
		}
		if r.URL.Path == "/elsewhere" {
			http.Redirect(w, r, "http://elsewhere.invalid/", http.StatusFound)
			return
		}
		text, ok := s.objects[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, text)
	}))
	return s
}

func parse(t testing.TB, text string) map[string]json.RawMessage {
	m := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestResolve(t *testing.T) {
	scope := theory.Scope{RunID: "run", WorldID: "world", Presign: func(_ context.Context, method, key string) (string, error) {
		return method + " " + key, nil
	}}
	for _, tt := range []struct{ name, inputs, outputs, in, out, err string }{
		{
			"scopes", `{"a.world":"x/y","b.local":"z","c":{"d":1}}`, `{"e.world":"o","f.local":"p/q","g":"dropped"}`,
			`{"a":"GET world/x/y","b":"/artifacts/run/z","c":{"d":1}}`, `{"e":"PUT world/o","f":"/artifacts/run/p/q"}`, "",
		},
		{"a scope alone is a name", `{".world":"x"}`, `{}`, `{".world":"x"}`, `{}`, ""},
		{"up and out", `{"a.world":"../x"}`, `{}`, "", "", "leaves its world"},
		{"up inside", `{"a.world":"x/../y"}`, `{}`, "", "", "leaves its world"},
		{"from the root", `{"a.world":"//path/in/world"}`, `{"a.local":"/etc/passwd"}`, `{"a":"GET world/path/in/world"}`, `{"a":"/artifacts/run/etc/passwd"}`, ""},
		{"from the root and out", `{}`, `{"a.local":"/../x"}`, "", "", "leaves its run"},
		{"the root", `{}`, `{"a.local":"/"}`, "", "", "names no file"},
		{"the world itself", `{"a.world":"."}`, `{}`, "", "", "names no file"},
		{"nothing", `{"a.world":""}`, `{}`, "", "", "names no file"},
		{"a backslash", `{"a.local":"..\\x"}`, `{}`, "", "", "leaves its run"},
		{"no string", `{"a.local":1}`, `{}`, "", "", "a path must be a string"},
		{"twice", `{"a.local":"x","a.world":"y"}`, `{}`, "", "", "two scopes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in, out, err := scope.Resolve(t.Context(), parse(t, tt.inputs), parse(t, tt.outputs))
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("the error is %v, want one with %q", err, tt.err)
				}
				return
			}
			gotIn, _ := json.Marshal(in)
			gotOut, _ := json.Marshal(out)
			if err != nil || string(gotIn) != tt.in || string(gotOut) != tt.out {
				t.Errorf("got %s, %s, %v", gotIn, gotOut, err)
			}
		})
	}
	outside := theory.Scope{RunID: "../x", WorldID: "w"}
	if _, _, err := outside.Resolve(t.Context(), parse(t, `{"a.local":"x"}`), nil); err == nil {
		t.Error("a run id leads out of the artifacts")
	}
}

// Any path stays within its run, on disk too.
func FuzzPaths(f *testing.F) {
	for _, path := range []string{"a", "a/b", "..", "../secret", "a/../../secret", "/secret", "./a", "a//b", "a\\..\\b", "link/secret", "a\x00b", "ä"} {
		f.Add("run", path)
	}
	f.Add("..", "secret")
	f.Add("", "secret")
	f.Add("a/b", "c")
	parent := f.TempDir()
	root := filepath.Join(parent, "artifacts")
	for _, err := range []error{
		os.MkdirAll(filepath.Join(root, "run"), 0o777),
		os.WriteFile(filepath.Join(parent, "secret"), []byte("secret"), 0o666),
		os.Symlink(parent, filepath.Join(root, "run", "link")),
	} {
		if err != nil {
			f.Skip(err)
		}
	}
	f.Fuzz(func(t *testing.T, runID, path string) {
		scope := theory.Scope{RunID: runID}
		value, err := json.Marshal(path)
		if err != nil {
			t.Skip()
		}
		in, _, err := scope.Resolve(t.Context(), map[string]json.RawMessage{"a.local": value}, nil)
		if err == nil {
			var place string
			if err := json.Unmarshal(in["a"], &place); err != nil || !strings.HasPrefix(place, "/artifacts/"+runID+"/") || strings.Contains(place, "/../") || strings.HasSuffix(place, "/..") {
				t.Fatalf("%q of the run %q resolves to %q", path, runID, place)
			}
		}
		got, err := theory.ReadArtifact(root, runID, "/artifacts/"+runID+"/"+path)
		if err == nil && bytes.Contains(got, []byte("secret")) {
			t.Fatalf("%q of the run %q reads what is outside", path, runID)
		}
	})
}
