// Package index finds the sessions of a hub: by their descriptions, calls, findings and
// words. It is built from what the hub stores and can be rebuilt.
package index

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	_ "modernc.org/sqlite" // the driver

	"github.com/wirectl/wirectl/hub"
	"github.com/wirectl/wirectl/internal/lock"
)

// format is the version of the tables. An index of another is made again.
const format = 1

const tables = `
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE session (
	n INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, org TEXT NOT NULL, host TEXT NOT NULL, kind TEXT NOT NULL, id TEXT NOT NULL,
	name TEXT NOT NULL DEFAULT '', controller TEXT NOT NULL DEFAULT '', unit TEXT NOT NULL DEFAULT '',
	level TEXT NOT NULL DEFAULT '', policy TEXT NOT NULL DEFAULT '',
	started INTEGER NOT NULL DEFAULT 0, ended INTEGER NOT NULL DEFAULT 0,
	frames INTEGER NOT NULL DEFAULT 0, bytes INTEGER NOT NULL DEFAULT 0, lost INTEGER NOT NULL DEFAULT 0,
	number INTEGER NOT NULL DEFAULT 0, last INTEGER NOT NULL DEFAULT 0,
	calls INTEGER NOT NULL DEFAULT 0, failures INTEGER NOT NULL DEFAULT 0, findings INTEGER NOT NULL DEFAULT 0,
	info TEXT NOT NULL DEFAULT ''
);
CREATE INDEX session_started ON session (org, started);
CREATE INDEX session_last ON session (last);
CREATE TABLE fact (session INTEGER NOT NULL, what TEXT NOT NULL, value TEXT NOT NULL, times INTEGER NOT NULL, PRIMARY KEY (session, what, value)) WITHOUT ROWID;
CREATE INDEX fact_value ON fact (what, value);
CREATE TABLE passage (n INTEGER PRIMARY KEY, session INTEGER NOT NULL, seq INTEGER NOT NULL, size INTEGER NOT NULL);
CREATE INDEX passage_session ON passage (session);
CREATE INDEX passage_seq ON passage (seq);
CREATE VIRTUAL TABLE words USING fts5 (text, content='', contentless_delete=1, detail=none, tokenize="ascii tokenchars '_'");
`

// pragmas are those of each connection. What a failure of power takes is made again.
const pragmas = "?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)&_pragma=cache_size(-8192)&_pragma=journal_size_limit(16777216)"

// A Position is how far an index has come: the last messages of the two streams.
type Position struct{ Segments, Summaries uint64 }

// An Index is an index on disk. One goroutine fills it, and any may ask.
type Index struct {
	// Watch sees what is read from the message From on.
	Watch Watch
	From  uint64

	path     string
	lock     *os.File
	db       *sql.DB
	at       Position
	done     atomic.Uint64
	words    int64 // bytes of the words in all passages
	gathered int   // bytes of words that are in none yet
	readings map[string]*reading
	infos    map[string]hub.Info // that came since the last Commit
}

// maxReadings bounds the sessions that are read side by side. One that is given up is read
// on as if something had been lost.
const maxReadings = 128

// ErrUsed says that another process uses an index.
var ErrUsed = errors.New("another hub uses it")

// Open opens the index in a file that is made of the streams with that identity. One that
// cannot be read, or is that of something else, is made anew, and why is told.
func Open(ctx context.Context, path, identity string, anew bool, tell func(string)) (*Index, error) {
	x := &Index{path: path, readings: map[string]*reading{}, infos: map[string]hub.Info{}}
	var err error
	if x.lock, err = os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, err
	}
	locked, err := lock.Try(x.lock)
	if err == nil && !locked {
		err = ErrUsed
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), x.lock.Close())
	}
	_, missing := os.Stat(path)
	if !anew && missing == nil {
		why := x.load(ctx, identity)
		if why == nil {
			return x, nil
		}
		tell(fmt.Sprintf("the index is made again: %v", why))
		if ctx.Err() != nil {
			return nil, errors.Join(context.Cause(ctx), x.Close())
		}
	}
	if err := x.create(ctx, identity); err != nil {
		return nil, errors.Join(err, x.Close())
	}
	return x, nil
}

// load opens the file.
func (x *Index) load(ctx context.Context, identity string) (err error) {
	if x.db, err = sql.Open("sqlite", x.path+pragmas); err != nil {
		return err
	}
	meta := map[string]string{}
	rows, err := x.db.QueryContext(ctx, "SELECT key, value FROM meta")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var key, value string
		if err := rows.Scan(&key, &value); err != nil {
			return err
		}
		meta[key] = value
	}
	switch {
	case rows.Err() != nil:
		return rows.Err()
	case meta["format"] != strconv.Itoa(format):
		return fmt.Errorf("its format is %s, not %d", meta["format"], format)
	case meta["identity"] != identity:
		return errors.New("it is that of another hub")
	}
	_, err = fmt.Sscan(meta["position"], &x.at.Segments, &x.at.Summaries, &x.words)
	x.done.Store(x.at.Segments)
	return err
}

// create makes an empty index in the place of what is there.
func (x *Index) create(ctx context.Context, identity string) error {
	if x.db != nil {
		_ = x.db.Close() // it is removed
	}
	for _, name := range []string{x.path, x.path + "-wal", x.path + "-shm"} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	x.at, x.words = Position{}, 0
	var err error
	if x.db, err = sql.Open("sqlite", x.path+pragmas); err != nil {
		return err
	}
	if _, err = x.db.ExecContext(ctx, tables); err == nil {
		_, err = x.db.ExecContext(ctx, "INSERT INTO meta VALUES ('format', ?), ('identity', ?), ('position', '0 0 0')", strconv.Itoa(format), identity)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", x.path, err)
	}
	return os.Chmod(x.path, 0o600)
}

// Close closes the index. What was not committed is read again.
func (x *Index) Close() error {
	for _, r := range x.readings {
		r.close()
	}
	var err error
	if x.db != nil {
		err = x.db.Close()
	}
	return errors.Join(err, x.lock.Close())
}

// Position returns how far the index has come, to the goroutine that fills it.
func (x *Index) Position() Position { return x.at }

// Done is the last message of the stream of segments that was written down.
func (x *Index) Done() uint64 { return x.done.Load() }

// Segment takes a message of the stream of segments.
func (x *Index) Segment(ctx context.Context, key string, seq uint64, m *nats.Msg) error {
	x.at.Segments = seq
	r := x.readings[key]
	if r == nil {
		if err := x.makeRoom(ctx); err != nil {
			return err
		}
		r = newReading(x.Watch, key)
		// Those before are in the index, and their calls are over as far as is known.
		err := x.db.QueryRowContext(ctx, "SELECT number FROM session WHERE key = ?", key).Scan(&r.before)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		x.readings[key] = r
	}
	r.last, r.watched = seq, seq >= x.From
	whole, err := r.joint.Take(m)
	if err != nil || whole == nil || whole.Number <= r.before || r.ended {
		return nil //nolint:nilerr // what is not a segment, somebody else has written there
	}
	before := r.size()
	r.addWhole(whole)
	if x.gathered += r.size() - before; x.gathered > maxGathered {
		return x.Commit(ctx)
	}
	return nil
}

// maxGathered bounds the words that wait in memory to be written, in bytes.
const maxGathered = 4 << 20

// Summary takes what a message of the bucket of summaries says of a session.
func (x *Index) Summary(key string, seq uint64, text []byte) {
	x.at.Summaries = seq
	var i hub.Info
	if err := json.Unmarshal(text, &i); err == nil && i.Key() == key {
		x.infos[key] = i
	}
}

// makeRoom gives up the reading that had nothing to read for longest.
func (x *Index) makeRoom(ctx context.Context) error {
	if len(x.readings) < maxReadings {
		return nil
	}
	if err := x.Commit(ctx); err != nil {
		return err
	}
	oldest := ""
	for key, r := range x.readings {
		if oldest == "" || r.last < x.readings[oldest].last {
			oldest = key
		}
	}
	if oldest != "" {
		x.readings[oldest].close()
		delete(x.readings, oldest)
	}
	return nil
}

// Commit writes down what was taken.
func (x *Index) Commit(ctx context.Context) error {
	tx, err := x.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // which does nothing behind a Commit
	w := &writing{ctx: ctx, tx: tx}
	for key, i := range x.infos {
		w.info(key, &i)
	}
	for key, r := range x.readings {
		x.words += w.reading(key, r)
	}
	w.exec("UPDATE meta SET value = ? WHERE key = 'position'", fmt.Sprint(x.at.Segments, x.at.Summaries, x.words))
	if w.err == nil {
		w.err = tx.Commit()
	}
	if w.err != nil {
		return w.err
	}
	clear(x.infos)
	x.done.Store(x.at.Segments)
	x.gathered = 0
	for key, r := range x.readings {
		if r.written(); r.ended {
			r.close()
			delete(x.readings, key)
		}
	}
	return nil
}

// A writing is a transaction that stops at its first error.
type writing struct {
	ctx context.Context
	tx  *sql.Tx
	err error
}

func (w *writing) exec(statement string, args ...any) {
	if w.err == nil {
		_, w.err = w.tx.ExecContext(w.ctx, statement, args...)
	}
}

// session returns the number of a session.
func (w *writing) session(key string) (n int64) {
	words := strings.SplitN(key, ".", 4)
	for len(words) < 4 {
		words = append(words, "")
	}
	w.exec("INSERT INTO session (key, org, host, kind, id) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", key, words[0], words[1], words[2], words[3])
	if w.err == nil {
		w.err = w.tx.QueryRowContext(w.ctx, "SELECT n FROM session WHERE key = ?", key).Scan(&n)
	}
	return n
}

// info writes what a summary says.
func (w *writing) info(key string, i *hub.Info) {
	n := w.session(key)
	text, err := json.Marshal(i)
	if err != nil {
		w.err = errors.Join(w.err, err)
		return
	}
	ended := int64(0)
	if !i.Ended.IsZero() {
		ended = i.Ended.UnixNano()
	}
	w.exec(`UPDATE session SET name = ?, controller = ?, unit = ?, level = ?, policy = ?, started = ?, ended = ?, frames = ?, bytes = ?, lost = ?, info = ? WHERE n = ?`,
		i.Name, i.Controller, i.Unit, string(i.Level), string(i.Policy), i.Started.UnixNano(), ended, i.Frames, i.Bytes, i.Lost, string(text), n)
	if i.Protocol != "" {
		w.fact(n, fact{protocolFact, i.Protocol}, 0)
	}
}

func (w *writing) fact(n int64, f fact, times int64) {
	w.exec("INSERT INTO fact VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET times = times + excluded.times", n, f.what, f.value, times)
}

// reading writes what was gathered of a session, and returns how many bytes of words.
func (w *writing) reading(key string, r *reading) (size int64) {
	if !r.changed {
		return 0
	}
	n := w.session(key)
	w.exec("UPDATE session SET number = ?, last = ?, calls = calls + ?, failures = failures + ?, findings = findings + ? WHERE n = ?",
		r.joint.Number, int64(r.last), r.calls, r.failures, r.findings, n)
	for f, times := range r.facts {
		w.fact(n, f, times)
	}
	for _, p := range r.passages {
		size += int64(p.size)
		w.exec("INSERT INTO passage (session, seq, size) VALUES (?, ?, ?)", n, int64(p.seq), p.size)
		w.exec("INSERT INTO words (rowid, text) VALUES (last_insert_rowid(), ?)", p.String())
	}
	return size
}

// trimStep is how many passages or sessions go at a time.
const trimStep = 1000

// Trim removes what was made of messages before the first that the hub still has, and the
// oldest words beyond that many bytes. It returns the keys of the sessions that have gone,
// and true if there is more to remove.
func (x *Index) Trim(ctx context.Context, first uint64, maxWords int64) (gone []string, more bool, err error) {
	tx, err := x.db.BeginTx(ctx, nil)
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = tx.Rollback() }()
	w := &writing{ctx: ctx, tx: tx}
	words := x.words
	passages := w.passages("SELECT n, size, seq FROM passage WHERE seq < ? ORDER BY seq LIMIT ?", int64(first), trimStep)
	if len(passages) == 0 && words > maxWords {
		passages = w.passages("SELECT n, size, seq FROM passage ORDER BY seq LIMIT ?", trimStep)
	}
	for _, p := range passages {
		if p.seq >= first && words <= maxWords {
			break
		}
		w.exec("DELETE FROM words WHERE rowid = ?", p.n)
		w.exec("DELETE FROM passage WHERE n = ?", p.n)
		words -= p.size
	}
	for key, n := range w.sessions(first) {
		w.exec("DELETE FROM fact WHERE session = ?", n)
		w.exec("DELETE FROM session WHERE n = ?", n)
		gone = append(gone, key)
	}
	w.exec("UPDATE meta SET value = ? WHERE key = 'position'", fmt.Sprint(x.at.Segments, x.at.Summaries, words))
	if w.err == nil {
		w.err = tx.Commit()
	}
	if w.err == nil {
		x.words = words
	}
	return gone, len(passages) > 0 || len(gone) > 0, w.err
}

// A size is what a passage takes.
type size struct {
	n, size int64
	seq     uint64
}

func (w *writing) passages(statement string, args ...any) (list []size) {
	if w.err != nil {
		return nil
	}
	rows, err := w.tx.QueryContext(w.ctx, statement, args...)
	if err != nil {
		w.err = err
		return nil
	}
	defer rows.Close()
	for rows.Next() {
		var s size
		if w.err = rows.Scan(&s.n, &s.size, &s.seq); w.err != nil {
			return nil
		}
		list = append(list, s)
	}
	w.err = rows.Err()
	return list
}

// sessions returns those of which the hub has nothing more.
func (w *writing) sessions(first uint64) map[string]int64 {
	if w.err != nil {
		return nil
	}
	rows, err := w.tx.QueryContext(w.ctx, "SELECT key, n FROM session WHERE last > 0 AND last < ? LIMIT ?", int64(first), trimStep)
	if err != nil {
		w.err = err
		return nil
	}
	defer rows.Close()
	list := map[string]int64{}
	for rows.Next() {
		var key string
		var n int64
		if w.err = rows.Scan(&key, &n); w.err != nil {
			return nil
		}
		list[key] = n
	}
	w.err = rows.Err()
	return list
}
