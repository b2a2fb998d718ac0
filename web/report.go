// Package web shows sessions in a browser: live, from a server on this machine, or as a
// report, one HTML page that needs nothing else. Both are the same page with the same
// script: lanes of operations, frames, findings and statistics.
//
// Data from the wire is shown as text only, never as markup or script. A content security
// policy enforces this: the browser runs only the page's own script, which connects only to
// its own server.
package web

import (
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"html"
	"io"
	"strings"
	"sync"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/store"
)

//go:embed page.html
var page string

//go:embed page.css
var css string

//go:embed script
var scripts embed.FS

// script is the script of the page, which is in several files.
var script = sync.OnceValue(func() string {
	var all strings.Builder
	for _, name := range []string{"model", "lanes", "lists", "runs", "detail", "stats", "main"} {
		text, err := scripts.ReadFile("script/" + name + ".js")
		if err != nil {
			panic(err) // it is embedded
		}
		all.Write(text)
	}
	return all.String()
})

// maxPayload bounds each payload in the page, in bytes, and maxPayloads all of them: payloads
// of later frames are left out.
const (
	maxPayload  = 16 << 10
	maxPayloads = 16 << 20
)

// Kept bounds how much of a session is in a page: the last calls. It bounds the memory here
// and in the browser.
var Kept = store.Options{Frames: 1 << 15, Exchanges: 1 << 14, Bytes: 4 << 20, Spill: true}

// Write writes the page of the session in s.
func Write(w io.Writer, s *store.Store, title string) error {
	return write(w, title, policy(), func(out io.Writer) error { return writeData(out, s, title) })
}

// policy lets the browser run the script of the page, and nothing else.
func policy() string {
	return "default-src 'none'; script-src " + hash(script()) + "; style-src " + hash(css)
}

// write writes the page with a policy and data.
func write(w io.Writer, title, policy string, data func(io.Writer) error) error {
	out := bufio.NewWriterSize(w, 64<<10)
	before, after, _ := strings.Cut(page, "{{data}}")
	fill := strings.NewReplacer("{{title}}", html.EscapeString(title), "{{css}}", css, "{{js}}", script(), "{{policy}}", policy)
	_, _ = fill.WriteString(out, before)
	if err := data(out); err != nil {
		return err
	}
	_, _ = fill.WriteString(out, after)
	return out.Flush()
}

// hash names a script or a style in a policy.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// writeData writes the session as JSON, compressed, in base64.
func writeData(w io.Writer, s *store.Store, title string) error {
	b64 := base64.NewEncoder(base64.StdEncoding, w)
	zip := gzip.NewWriter(b64)
	enc := jsonscan.NewEncoder(zip)
	if err := enc.Encode(collect(s, title)); err != nil {
		return err
	}
	if err := zip.Close(); err != nil {
		return err
	}
	return b64.Close()
}

// collect reads everything from the store.
func collect(s *store.Store, title string) *delta {
	o := s.Overview()
	c := clockOf(&o)
	d := &delta{About: aboutOf(title, &o, c), Frames: &frames{}, Stats: figuresOf(s, c), Peers: peersOf(s, c)}
	changes := s.Follow(new(store.Cursor), 0)
	d.Exchanges, d.Findings = exchangesOf(changes.Exchanges, c), findingsOf(changes.Findings)
	left := maxPayloads
	s.All(func(f *store.Frame, payload, form []byte) bool {
		says := shown(payload, form, maxPayload)
		if left -= len(says); left < 0 {
			says = "omitted: the page is full"
			d.About.Untold++
		}
		d.Frames.addFrame(f, c)
		d.Frames.Payload = append(d.Frames.Payload, says)
		return true
	})
	return d
}
