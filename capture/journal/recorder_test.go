package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/pcapng"
	"github.com/wirectl/wirectl/frame"
)

// A recording is a journal with its recorder.
type recording struct {
	*Journal
	*Recorder
}

func (r recording) Close(ctx context.Context) error { return r.Recorder.Close(ctx) }

func create(name string, o Options, cfg Config) (recording, error) {
	j := New(capture.Session{Unit: "u"}, o)
	r, err := j.Record(name, cfg)
	return recording{j, r}, err
}

func recordTo(w io.Writer, o Options) (recording, error) {
	j := New(capture.Session{}, o)
	r, err := j.RecordTo(w, Config{})
	return recording{j, r}, err
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func aFrame(seq int64, size int) *capture.Record {
	payload := bytes.Repeat([]byte("x"), size)
	return &capture.Record{Seq: seq, Time: time.Unix(1, seq), Frame: frame.Frame{Raw: payload, End: size, Dir: frame.C2U}}
}

// feed writes a record, which must succeed.
func feed(tb testing.TB, w capture.Writer, r *capture.Record) {
	if err := w.Write(r); err != nil {
		tb.Error(err)
	}
}

// contents reads consecutive captures and returns their records as text.
func contents(t *testing.T, files ...io.Reader) (texts []string, s capture.Session) {
	t.Helper()
	for _, f := range files {
		r, err := pcapng.NewReader(f, 0)
		if err != nil {
			t.Fatal(err)
		}
		var rec capture.Record
		for err = r.Next(&rec); err == nil; err = r.Next(&rec) {
			texts = append(texts, textOf(&rec))
			s = *r.Session()
		}
		if err != io.EOF {
			t.Fatalf("after %d records: %v", len(texts), err)
		}
	}
	return texts, s
}

// textOf returns a record as text.
func textOf(r *capture.Record) string {
	if r.Kind == capture.Frame {
		return fmt.Sprint(r.Seq, " ", len(r.Raw))
	}
	return string(r.Text)
}

func open(t *testing.T, name string) io.Reader {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.NewReader(b)
}

func numbered(from, to int64, size int) (want []string) {
	for i := from; i <= to; i++ {
		want = append(want, fmt.Sprint(i, " ", size))
	}
	return want
}

func expect(t *testing.T, got, want []string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %d records: %.300q\nwant %d: %.300q", len(got), got, len(want), want)
	}
}

// notices collects messages for the user.
type notices struct {
	mu   sync.Mutex
	list []string
}

func (n *notices) add(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list = append(n.list, text)
}

func (n *notices) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Join(n.list, "\n")
}

// Records reach the file soon, even without Close, in whole blocks. Whenever the recorder is
// killed, the file is readable.
func TestWrittenSoon(t *testing.T) {
	for _, name := range []string{"a.pcapng", "a.pcapng.zst"} {
		name = filepath.Join(t.TempDir(), name)
		r, err := create(name, Options{}, Config{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range int64(5) {
			feed(t, r, aFrame(i+1, 10))
			for wait := time.Now(); count(t, name) != int(i+1); time.Sleep(time.Millisecond) {
				if time.Since(wait) > 10*time.Second {
					t.Fatalf("%s: frame %d is not in the file", name, i+1)
				}
			}
		}
		if err := r.Close(t.Context()); err != nil {
			t.Error(err)
		}
		got, s := contents(t, open(t, name))
		expect(t, got, numbered(1, 5, 10))
		if s.Unit != "u" {
			t.Errorf("session %+v", s)
		}
	}
}

// count counts the records of a file that is being written, which has only complete records
// at any time. Only a compressed file lacks its end.
func count(t *testing.T, name string) (n int) {
	r, err := pcapng.NewReader(open(t, name), 0)
	var rec capture.Record
	for ; err == nil; n++ {
		err = r.Next(&rec)
	}
	if err != io.EOF && !strings.HasSuffix(name, ".zst") {
		t.Fatal(err)
	}
	return n - 1
}

// A gate is a file whose writes wait until the test opens it.
type gate struct {
	bytes.Buffer
	open    chan struct{}
	arrived chan struct{} // closed when the first write blocks
	once    sync.Once
}

func newGate() *gate { return &gate{open: make(chan struct{}), arrived: make(chan struct{})} }

func (g *gate) Write(b []byte) (int, error) {
	if g.Len() > 0 { // do not block the header
		g.once.Do(func() { close(g.arrived) })
		<-g.open
	}
	return g.Buffer.Write(b)
}

// If the file is slow, records wait in a temporary file. Writers do not block, nothing is
// lost, the order stays, and the user is told once.
func TestSpill(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	g, told := newGate(), &notices{}
	r, err := recordTo(g, Options{Memory: 1 << 20, Notice: told.add})
	if err != nil {
		t.Fatal(err)
	}
	const n, size = 2000, 4000
	for i := range int64(n) {
		feed(t, r, aFrame(i+1, size))
	}
	r.mu.Lock()
	memory := r.memory
	r.mu.Unlock()
	if memory > 2<<20 {
		t.Errorf("%d bytes wait in memory", memory)
	}
	close(g.open)
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
	got, _ := contents(t, &g.Buffer)
	expect(t, got, numbered(1, n, size))
	if strings.Count(told.String(), "temporary file") != 1 {
		t.Errorf("people were told %q", told)
	}
	if left, _ := os.ReadDir(os.Getenv("TMPDIR")); len(left) > 0 {
		t.Errorf("%s is left", left[0].Name())
	}
}

// Frames that exceed all limits are spilled like others. The order is kept while the speed of
// the file changes.
func TestSpillLargeFrames(t *testing.T) {
	g := newGate()
	r, err := recordTo(g, Options{Memory: 100 << 10})
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for i := range int64(60) {
		size := int(i%7) * 50_000
		want = append(want, fmt.Sprint(i+1, " ", size))
		feed(t, r, aFrame(i+1, size))
		if i == 30 {
			close(g.open)
		}
	}
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
	got, _ := contents(t, &g.Buffer)
	expect(t, got, want)
}

// If the temporary file fails, recording ends after the records in memory, and
// viewers go on.
func TestSpillFails(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "nowhere"))
	g, told := newGate(), &notices{}
	r, err := recordTo(g, Options{Memory: 1 << 20, Notice: told.add})
	if err != nil {
		t.Fatal(err)
	}
	v := r.View(nil, dropped)
	defer v.Close()
	for i := range int64(2000) {
		feed(t, r, aFrame(i+1, 1000))
	}
	close(g.open)
	if err := r.Close(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the error is %v", err)
	}
	got, _ := contents(t, &g.Buffer)
	expect(t, got, numbered(1, int64(len(got)), 1000))
	r.Journal.Close()
	var rec, last capture.Record
	for v.Next(&rec) == nil {
		last = rec
	}
	if last.Seq != 2000 {
		t.Errorf("the viewer ends at frame %d", last.Seq)
	}
	if !strings.Contains(told.String(), "recording stopped") {
		t.Errorf("people were told %q", told)
	}
}

// If the temporary folder is missing or becomes full, spilled records go to a file beside the
// capture.
func TestSpillBeside(t *testing.T) {
	for _, full := range []bool{false, true} {
		t.Run(fmt.Sprintf("full %v", full), func(t *testing.T) {
			t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "nowhere"))
			dir, g, told := t.TempDir(), newGate(), &notices{}
			j := New(capture.Session{}, Options{Memory: 1 << 20, Notice: told.add})
			r, err := j.record(&stream{g}, Config{}, dir)
			if err != nil {
				t.Fatal(err)
			}
			if full {
				name := filepath.Join(t.TempDir(), "full.spill") // removed by the recorder
				if err := os.Symlink("/dev/full", name); err != nil {
					t.Skip(err)
				}
				device, err := os.OpenFile(name, os.O_RDWR, 0)
				if err != nil {
					t.Skip(err)
				}
				j.spill.files = []*os.File{device}
			}
			const n, size = 2000, 4000
			for i := range int64(n) {
				feed(t, j, aFrame(i+1, size))
			}
			close(g.open)
			if err := r.Close(t.Context()); err != nil {
				t.Error(err)
			}
			got, _ := contents(t, &g.Buffer)
			expect(t, got, numbered(1, n, size))
			if strings.Count(told.String(), "a file beside the capture") != 1 {
				t.Errorf("people were told %q", told)
			}
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Errorf("%s is left", left[0].Name())
			}
		})
	}
}

// With block, writers wait for the file.
func TestBlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		r, err := recordTo(g, Options{Memory: 1 << 20, Policy: Block})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			for i := range int64(3000) {
				feed(t, r, aFrame(i+1, 1000))
			}
		}()
		time.Sleep(time.Second)
		close(g.open)
		<-done
		if err := r.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if d := r.Delay(); d != time.Second {
			t.Errorf("records were kept waiting for %v", d)
		}
		got, _ := contents(t, &g.Buffer)
		expect(t, got, numbered(1, 3000, 1000))
	})
}

// With drop, frames are missing, and the capture says where and how many.
func TestDrop(t *testing.T) {
	g := newGate()
	r, err := recordTo(g, Options{Bytes: 1, Memory: 1 << 20, Policy: Drop})
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(3000) {
		feed(t, r, aFrame(i+1, 1000))
		if i == 0 {
			<-g.arrived // from now on nothing makes room
		}
	}
	close(g.open)
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
	got, _ := contents(t, &g.Buffer)
	seq, gaps := int64(0), 0
	for _, text := range got {
		var missing int64
		if n, _ := fmt.Sscanf(text, "%d frames are missing here", &missing); n == 1 && strings.Contains(text, "missing") {
			seq += missing
			gaps++
		} else if seq++; text != fmt.Sprint(seq, " ", 1000) {
			t.Fatalf("%q stands where frame %d is due", text, seq)
		}
	}
	if seq != 3000 || gaps == 0 {
		t.Errorf("it tells of %d frames, with %d gaps", seq, gaps)
	}
}

// Each part is a complete capture, and the oldest parts are removed. Another recording with
// the same name continues the numbering.
func TestParts(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "a.pcapng")
	for range 2 {
		r, err := create(name, Options{}, Config{SplitSize: 10_000, Keep: 3})
		if err != nil {
			t.Fatal(err)
		}
		for i := range int64(50) {
			feed(t, r, aFrame(i+1, 1000))
		}
		if err := r.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	parts, _ := filepath.Glob(filepath.Join(dir, "*"))
	var readers []io.Reader
	for i, p := range parts {
		if want := fmt.Sprintf("a-%04d.pcapng", i+10); filepath.Base(p) != want {
			t.Errorf("part %s, want %s", filepath.Base(p), want)
		}
		if info, _ := os.Stat(p); info.Size() > 12_000 {
			t.Errorf("%s has %d bytes", p, info.Size())
		}
		readers = append(readers, open(t, p))
	}
	got, s := contents(t, readers...)
	if len(parts) != 3 || s.Unit != "u" {
		t.Errorf("parts %q, session %+v", parts, s)
	}
	expect(t, got, numbered(51-int64(len(got)), 50, 1000))
}

// After an alteration the capture is marked as altered.
func TestAlter(t *testing.T) {
	var b bytes.Buffer
	r, err := recordTo(&b, Options{})
	if err != nil {
		t.Fatal(err)
	}
	feed(t, r, aFrame(1, 1))
	r.Alter()
	feed(t, r, aFrame(2, 1))
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
	pr, err := pcapng.NewReader(&b, 0)
	if err != nil {
		t.Fatal(err)
	}
	var rec capture.Record
	for _, altered := range []bool{false, true} {
		if err := pr.Next(&rec); err != nil || pr.Session().Altered != altered {
			t.Errorf("frame %d: %v, altered %t", rec.Seq, err, pr.Session().Altered)
		}
	}
}

// A full disk ends the recording but not the session.
func TestFullDisk(t *testing.T) {
	w, told := &full{room: 10_000}, &notices{}
	r, err := recordTo(w, Options{Notice: told.add})
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(100) {
		feed(t, r, aFrame(i+1, 1000))
	}
	if err := r.Close(t.Context()); !errors.Is(err, errFull) {
		t.Errorf("Close says %v", err)
	}
	if told.String() != "recording stopped: the disk is full; the session continues" {
		t.Errorf("people were told %q", told)
	}
	feed(t, r, aFrame(101, 1))
}

var errFull = errors.New("the disk is full")

type full struct{ room int }

func (f *full) Write(b []byte) (int, error) {
	if f.room -= len(b); f.room < 0 {
		return 0, errFull
	}
	return len(b), nil
}

// If the file is stuck, Close returns when the context ends.
func TestCloseGivesUp(t *testing.T) {
	g := newGate()
	r, err := recordTo(g, Options{})
	if err != nil {
		t.Fatal(err)
	}
	feed(t, r, aFrame(1, 1))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	close(g.open)
	<-r.Recorder.done
}

func TestNoSuchFolder(t *testing.T) {
	for _, split := range []int64{0, 1} {
		if _, err := create(filepath.Join(t.TempDir(), "x", "a.pcapng"), Options{}, Config{SplitSize: split}); !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
	}
}

func BenchmarkWrite(b *testing.B) {
	for _, size := range []int{100, 4096} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			r, err := create(filepath.Join(b.TempDir(), "a.pcapng"), Options{}, Config{})
			if err != nil {
				b.Fatal(err)
			}
			rec := aFrame(1, size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				feed(b, r, rec)
			}
			b.StopTimer()
			if err := r.Close(context.Background()); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// memory counts its holders.
type memory struct{ atomic.Int64 }

func (m *memory) Hold()    { m.Add(1) }
func (m *memory) Release() { m.Add(-1) }

// Writing runs is equivalent to writing their frames one by one, whatever the policy, and
// held memory is released.
func TestRuns(t *testing.T) {
	for _, policy := range []Policy{Spill, Block} {
		name := filepath.Join(t.TempDir(), "a.pcapng")
		r, err := create(name, Options{Policy: policy, Bytes: 1, Memory: 64 << 10}, Config{})
		if err != nil {
			t.Fatal(err)
		}
		var held memory
		data := make([]byte, 100_000)
		for seq := int64(1); seq < 1000; seq += 100 {
			run := &capture.Run{Shared: capture.Record{Seq: seq, Time: time.Unix(1, seq)}, Memory: &held}
			for i := range 100 {
				run.Frames = append(run.Frames, frame.Frame{Raw: data[i*1000 : (i+1)*1000], End: 1000, Dir: frame.C2U})
			}
			if err := r.WriteRun(run); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Close(t.Context()); err != nil {
			t.Error(err)
		}
		got, _ := contents(t, open(t, name))
		expect(t, got, numbered(1, 1000, 1000))
		if held.Load() > 3 { // of the newest segment
			t.Errorf("%s: held %d times", policy, held.Load())
		}
	}
}

// An existing file that others can read is replaced before recording starts.
func TestOldFile(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("its files have no mode")
	}
	name := filepath.Join(t.TempDir(), "old.pcapng")
	if err := errors.Join(os.WriteFile(name, []byte("before"), 0o644), os.Chmod(name, 0o644)); err != nil {
		t.Fatal(err)
	}
	r, err := create(name, Options{}, Config{})
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(name)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("its mode is %v, %v", info.Mode(), err)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// A file, or a sequence of parts, has one writer at a time, which loses nothing.
func TestOneWriter(t *testing.T) {
	for name, cfg := range map[string]Config{"file": {}, "parts": {SplitSize: 1000, Keep: 2}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "a.pcapng")
			for range 2 { // a closed one is replaced, or continued
				first, err := create(file, Options{}, cfg)
				if err != nil {
					t.Fatal(err)
				}
				for seq := range int64(10) {
					feed(t, first, aFrame(seq, 300))
				}
				second, err := create(file, Options{}, cfg)
				if err == nil {
					second.Close(t.Context())
				}
				if err == nil || !strings.Contains(err.Error(), "another recording writes it") {
					t.Errorf("a second writer: %v", err)
				}
				if err := first.Close(t.Context()); err != nil {
					t.Error(err)
				}
			}
			entries, err := os.ReadDir(dir)
			if err != nil || len(entries) != max(cfg.Keep, 1) {
				t.Fatalf("the files are %v, %v", entries, err)
			}
			texts, _ := contents(t, open(t, filepath.Join(dir, entries[len(entries)-1].Name())))
			if len(texts) == 0 || texts[len(texts)-1] != "9 300" {
				t.Errorf("the records are %q", texts)
			}
		})
	}
}

// Of many that start at the same time, one records.
func TestOneWriterOfMany(t *testing.T) {
	for name, existing := range map[string]bool{"new": false, "existing": true} {
		t.Run(name, func(t *testing.T) {
			for range 50 {
				file := filepath.Join(t.TempDir(), "a.pcapng")
				if existing {
					if err := os.WriteFile(file, nil, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				var writers []recording
				var mu sync.Mutex
				var all sync.WaitGroup
				for range 4 {
					all.Go(func() {
						if r, err := create(file, Options{}, Config{}); err == nil {
							mu.Lock()
							writers = append(writers, r)
							mu.Unlock()
						}
					})
				}
				all.Wait()
				if len(writers) > 1 {
					t.Errorf("%d write the same file", len(writers))
				}
				for _, r := range writers {
					r.Close(t.Context())
				}
			}
		})
	}
}
