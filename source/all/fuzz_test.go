package all

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/source"
)

func FuzzHAR(f *testing.F) { fuzzReader(f, "har", "har/*.har") }

func FuzzPackets(f *testing.F) { fuzzReader(f, "pcap", "pcap/*.pcap*") }

func FuzzLSP(f *testing.F) { fuzzReader(f, "lsp-json", "lsp-*") }

func FuzzFlows(f *testing.F) { fuzzReader(f, "mitmproxy", "*.mitm") }

func FuzzTrace(f *testing.F) { fuzzReader(f, "lsp-text", "*lsp-*") }

func FuzzTelemetry(f *testing.F) { fuzzReader(f, "otlp", "otlp-*") }

func FuzzDesktop(f *testing.F) { fuzzReader(f, "mcp-log", "made/claude-desktop*") }

func FuzzInspector(f *testing.F) { fuzzReader(f, "mcp-inspector", "made/mcp-inspector*") }

func FuzzEvents(f *testing.F) { fuzzReader(f, "events", "curl-*") }

func FuzzWrapped(f *testing.F) { fuzzReader(f, "log", "*.log") }

// fuzzReader checks that the reader of a form ends, that its records are sound, and that they do not
// depend on how the file is cut into reads.
func fuzzReader(f *testing.F, name, samples string) {
	var form *source.Form
	for _, candidate := range List() {
		if candidate.Name == name {
			form = candidate
		}
	}
	paths, err := filepath.Glob("../../test/testdata/files/" + samples)
	if err != nil || len(paths) == 0 {
		f.Fatalf("no samples: %v", err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(data[:len(data)/2])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		whole := drain(t, form, strings.NewReader(string(data)), len(data))
		if piecewise := drain(t, form, &dribble{data: data}, len(data)); piecewise != whole {
			t.Errorf("it depends on the reads:\n%.2000s\n\n%.2000s", whole, piecewise)
		}
	})
}

// drain reads a file to its end, and returns its records as text.
func drain(t *testing.T, form *source.Form, r io.Reader, size int) string {
	var b strings.Builder
	reader, err := form.Open(&source.File{Reader: r, Folder: fstest.MapFS{}, Seen: &source.Seen{}, Notice: func(string) {}})
	if err != nil {
		return err.Error()
	}
	if c, ok := reader.(io.Closer); ok {
		defer c.Close()
	}
	last := map[int]time.Time{}
	before := "" // what the record before began with: bytes may be cut in any way
	for records := 0; ; records++ {
		var rec source.Record
		if err := reader.Next(&rec); err != nil {
			if err != io.EOF && !errors.Is(err, source.ErrCut) && strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("an error of several lines: %q", err)
			}
			b.WriteString(err.Error())
			return b.String()
		}
		switch {
		case records > 16*size+1000:
			t.Fatalf("%d records of %d bytes", records, size)
		case rec.Dir > frame.U2C:
			t.Errorf("a direction %d", rec.Dir)
		case rec.Kind == source.Bytes && rec.Time.Before(last[rec.Conn]):
			t.Errorf("the time of connection %d goes back", rec.Conn)
		}
		if rec.Kind == source.Bytes {
			last[rec.Conn] = rec.Time
		}
		if b.Len() < 1<<20 {
			if head := rec.Time.String() + string(rune('0'+rec.Kind)) + rec.Dir.String(); head != before {
				b.WriteString("\n" + head)
				before = head
			}
			b.Write(rec.Data)
		}
	}
}

// A dribble returns one byte at a time.
type dribble struct{ data []byte }

func (d *dribble) Read(p []byte) (int, error) {
	if len(d.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:1], d.data)
	d.data = d.data[n:]
	return n, nil
}
