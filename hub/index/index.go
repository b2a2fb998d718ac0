// Package index finds sessions of a hub by their descriptions, calls, findings and words.
// It is built from what the hub stores, and can be rebuilt.
package index

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	_ "modernc.org/sqlite" // the driver

	"github.com/wirectl/wirectl/hub"
	"github.com/wirectl/wirectl/internal/fd"
	"github.com/wirectl/wirectl/internal/render"
)

// format is the version of the tables. An index of another version is rebuilt.
const format = 3

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

// pragmas are set for each connection. What a power failure destroys is rebuilt.
const pragmas = "?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)&_pragma=cache_size(-8192)&_pragma=journal_size_limit(16777216)"

// A Position is how far an index has read: the numbers of the last messages of the two
// streams.
type Position struct{ Segments, Summaries uint64 }

// An Index is an index on disk. One goroutine fills it, and any may search it.
type Index struct {
	// Watch counts what is read from the message From on.
	Watch Watch
	From  uint64
	// Again calls each for the messages of a session before the one with the number end.
	Again func(ctx context.Context, key string, end uint64, each func(seq uint64, m *nats.Msg) error) error

	path      string
	tell      func(string)
	lock      *os.File
	db        *sql.DB
	at        Position
	start     uint64 // the number of the last segment message when it was opened
	done      atomic.Uint64
	words     int64 // bytes of the words in all passages
	gathered  int   // bytes of words that are not written yet
	readings  map[string]*reading
	allowance int                 // bytes that may be read again
	infos     map[string]hub.Info // since the last Commit
}

// maxReadings bounds the sessions that are read at once. If a session is given up and then
// goes on, it is read again from its start.
const maxReadings = 128

// ErrUsed says that another process uses the index.
var ErrUsed = errors.New("another hub uses it")

// Open opens the index of the streams with that identity. An index that cannot be read, or
// that belongs to other streams, is rebuilt, and tell gets the reason.
func Open(ctx context.Context, path, identity string, anew bool, tell func(string)) (*Index, error) {
	x := &Index{path: path, tell: tell, readings: map[string]*reading{}, infos: map[string]hub.Info{}}
	var err error
	if x.lock, err = os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, err
	}
	locked, err := fd.TryLock(x.lock)
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
		tell(fmt.Sprintf("rebuilding the index: %v", why))
		if ctx.Err() != nil {
			return nil, errors.Join(context.Cause(ctx), x.Close())
		}
	}
	if err := x.create(ctx, identity); err != nil {
		return nil, errors.Join(err, x.Close())
	}
	return x, nil
}

// load opens an existing index.
func (x *Index) load(ctx context.Context, identity string) (err error) {
	if x.db, err = sql.Open("sqlite", x.path+pragmas); err != nil {
		return err
	}
	meta := map[string]string{}
	err = eachRow(ctx, x.db, func(row *sql.Rows) error {
		var key, value string
		err := row.Scan(&key, &value)
		meta[key] = value
		return err
	}, "SELECT key, value FROM meta")
	switch {
	case err != nil:
		return err
	case meta["format"] != strconv.Itoa(format):
		return fmt.Errorf("its format is %s, not %d", meta["format"], format)
	case meta["identity"] != identity:
		return errors.New("it belongs to another hub")
	}
	_, err = fmt.Sscan(meta["position"], &x.at.Segments, &x.at.Summaries, &x.words)
	x.start = x.at.Segments
	x.done.Store(x.at.Segments)
	return err
}

// create replaces the file by an empty index.
func (x *Index) create(ctx context.Context, identity string) error {
	if x.db != nil {
		_ = x.db.Close() // the file is removed anyway
	}
	for _, name := range []string{x.path, x.path + "-wal", x.path + "-shm"} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	x.at, x.start, x.words = Position{}, 0, 0
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

// Close closes the index. What was not committed will be read again.
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

// Position returns how far the index has read. Only the goroutine that fills it may ask.
func (x *Index) Position() Position { return x.at }

// Done returns the number of the last segment message that was committed.
func (x *Index) Done() uint64 { return x.done.Load() }

// Segment reads a message of the stream of segments. One that cannot be read is skipped, and
// the user is told.
func (x *Index) Segment(ctx context.Context, key string, seq uint64, m *nats.Msg) error {
	if !hub.IsKey(key) {
		x.at.Segments = seq
		x.tell(render.Safe(fmt.Sprintf("a message is skipped, because %q is no ORG.HOST.KIND.ID", key)))
		return nil
	}
	r := x.readings[key]
	if r == nil {
		if err := x.makeRoom(ctx); err != nil {
			return err
		}
		var err error
		if r, err = x.resume(ctx, key, seq); err != nil {
			return err
		}
		x.readings[key] = r
	}
	x.at.Segments = seq
	x.allowance = min(x.allowance+allowed*len(m.Data), maxAllowance)
	r.watched = seq >= x.From
	before := r.size()
	r.take(seq, m)
	x.bound()
	if x.gathered += r.size() - before; x.gathered > maxGathered {
		return x.Commit(ctx)
	}
	return nil
}

const (
	// allowed is how many bytes may be read again for each new byte, and maxAllowance bounds
	// the sum. Each session may also be read again once after a start of the hub.
	allowed      = 4
	maxAllowance = 1 << 30
)

var errSpent = errors.New("too much was read again")

// resume returns the reading of a session, which goes on with the message with the number
// seq. It reads what is in the index once more, because calls may have been open there.
func (x *Index) resume(ctx context.Context, key string, seq uint64) (*reading, error) {
	say := func(why error) { x.tell(render.Safe(fmt.Sprintf("the session %s: %v", key, why))) }
	r := newReading(x.Watch, key, func(error) {}) // it was said before
	var last int64
	err := x.db.QueryRowContext(ctx, "SELECT number, last FROM session WHERE key = ?", key).Scan(&r.before, &last)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, err
	}
	number := r.before
	if r.before = 0; number > 0 {
		err = x.Again(ctx, key, seq, func(seq uint64, m *nats.Msg) error {
			if uint64(last) > x.start {
				if x.allowance -= len(m.Data); x.allowance < 0 {
					return errSpent
				}
			}
			r.take(seq, m)
			r.written()
			return nil
		})
		switch {
		case errors.Is(err, errSpent):
			x.allowance = 0
			r.close()
			r = newReading(x.Watch, key, nil)
			r.before = number
			say(errors.New("its open calls are not counted: it was read again too often"))
		case err != nil:
			r.close()
			return nil, err
		}
	}
	r.skip = say
	return r, nil
}

const (
	// maxGathered bounds the words in memory, in bytes.
	maxGathered = 4 << 20
	// maxPieces bounds the segments in memory that are not complete, in bytes.
	maxPieces = 128 << 20
	// maxInFlight bounds the open calls in memory. One session may have a quarter.
	maxInFlight = 1 << 17
)

// bound gives up the largest incomplete segments and the most open calls, if all sessions
// together have too many.
func (x *Index) bound() {
	for _, of := range []struct {
		most   int
		size   func(*reading) int
		giveUp func(*reading)
	}{
		{maxPieces, func(r *reading) int { return r.joint.Waiting() }, func(r *reading) { r.skip(r.joint.Forget()) }},
		{maxInFlight, (*reading).inFlight, (*reading).giveUp},
	} {
		for {
			sum, largest := 0, (*reading)(nil)
			for _, r := range x.readings {
				n := of.size(r)
				if sum += n; largest == nil || n > of.size(largest) {
					largest = r
				}
			}
			if sum <= of.most {
				break
			}
			of.giveUp(largest)
		}
	}
}

// Summary reads a message of the bucket of summaries.
func (x *Index) Summary(seq uint64, m *nats.Msg) {
	x.at.Summaries = seq
	if i, ok := hub.ParseInfo(m); ok {
		x.infos[i.Key()] = i
	}
}

// makeRoom gives up the reading that has been idle longest, if there are too many.
func (x *Index) makeRoom(ctx context.Context) error {
	if len(x.readings) < maxReadings {
		return nil
	}
	if err := x.Commit(ctx); err != nil {
		return err
	}
	if len(x.readings) == maxReadings { // none of them has ended
		oldest := slices.MinFunc(slices.Collect(maps.Keys(x.readings)), func(a, b string) int {
			return cmp.Compare(x.readings[a].last, x.readings[b].last)
		})
		x.readings[oldest].close()
		delete(x.readings, oldest)
	}
	return nil
}

// Commit writes what was read since the last Commit.
func (x *Index) Commit(ctx context.Context) error {
	err := x.write(ctx, func(w *writing) {
		for key, i := range x.infos {
			w.info(key, &i)
		}
		for key, r := range x.readings {
			x.words += w.reading(key, r)
		}
		w.position(x.at, x.words)
	})
	if err != nil {
		return err
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

// write runs f in a transaction.
func (x *Index) write(ctx context.Context, f func(*writing)) error {
	tx, err := x.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	w := &writing{ctx: ctx, tx: tx}
	if f(w); w.err != nil {
		_ = tx.Rollback()
		return w.err
	}
	return tx.Commit()
}

func (w *writing) exec(statement string, args ...any) {
	if w.err == nil {
		_, w.err = w.tx.ExecContext(w.ctx, statement, args...)
	}
}

// query calls scan for each row.
func (w *writing) query(scan func(*sql.Rows) error, statement string, args ...any) {
	if w.err == nil {
		w.err = eachRow(w.ctx, w.tx, scan, statement, args...)
	}
}

// A querier is a database or a transaction.
type querier interface {
	QueryContext(ctx context.Context, statement string, args ...any) (*sql.Rows, error)
}

// eachRow calls scan for each row.
func eachRow(ctx context.Context, q querier, scan func(*sql.Rows) error, statement string, args ...any) error {
	rows, err := q.QueryContext(ctx, statement, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (w *writing) position(at Position, words int64) {
	w.exec("UPDATE meta SET value = ? WHERE key = 'position'", fmt.Sprint(at.Segments, at.Summaries, words))
}

// session returns the number of a session.
func (w *writing) session(key string) (n int64) {
	words := strings.Split(key, ".")
	w.exec("INSERT INTO session (key, org, host, kind, id) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", key, words[0], words[1], words[2], words[3])
	if w.err == nil {
		w.err = w.tx.QueryRowContext(w.ctx, "SELECT n FROM session WHERE key = ?", key).Scan(&n)
	}
	return n
}

// info writes a summary.
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
	w.exec(`UPDATE session SET name = ?, controller = ?, unit = ?, level = ?, policy = ?, started = ?, ended = ?, frames = max(frames, ?), bytes = ?, lost = ?, info = ? WHERE n = ?`,
		i.Name, i.Controller, i.Unit, string(i.Level), string(i.Policy), i.Started.UnixNano(), ended, i.Frames, i.Bytes, i.Lost, string(text), n)
	if i.Protocol != "" {
		w.fact(n, fact{protocolFact, i.Protocol}, 0)
	}
}

func (w *writing) fact(n int64, f fact, times int64) {
	w.exec("INSERT INTO fact VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET times = times + excluded.times", n, f.what, f.value, times)
}

// reading writes what was read of a session, and returns how many bytes of words it has.
func (w *writing) reading(key string, r *reading) (size int64) {
	if !r.changed {
		return 0
	}
	n := w.session(key)
	w.exec("UPDATE session SET number = ?, last = ?, frames = max(frames, ?), calls = calls + ?, failures = failures + ?, findings = findings + ? WHERE n = ?",
		r.joint.Number, int64(r.last), r.joint.Frames, r.calls, r.failures, r.findings, n)
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

// trimStep is how many passages or sessions are removed at a time.
const trimStep = 1000

// Trim removes what was read from messages before first, which the hub has no more, and the
// oldest words beyond maxWords bytes. It returns the keys of the sessions that it has
// removed, and whether there is more to remove.
func (x *Index) Trim(ctx context.Context, first uint64, maxWords int64) (gone []string, more bool, err error) {
	words := x.words
	err = x.write(ctx, func(w *writing) {
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
		sessions := map[string]int64{} // of which the hub has nothing any more
		w.query(func(row *sql.Rows) error {
			var key string
			var n int64
			err := row.Scan(&key, &n)
			sessions[key] = n
			return err
		}, "SELECT key, n FROM session WHERE last > 0 AND last < ? LIMIT ?", int64(first), trimStep)
		for key, n := range sessions {
			w.exec("DELETE FROM fact WHERE session = ?", n)
			w.exec("DELETE FROM session WHERE n = ?", n)
			gone = append(gone, key)
		}
		w.position(x.at, words)
		more = len(passages) > 0 || len(gone) > 0
	})
	if err == nil {
		x.words = words
	}
	return gone, more, err
}

// A size is the size of a passage.
type size struct {
	n, size int64
	seq     uint64
}

func (w *writing) passages(statement string, args ...any) (list []size) {
	w.query(func(row *sql.Rows) error {
		var s size
		err := row.Scan(&s.n, &s.size, &s.seq)
		list = append(list, s)
		return err
	}, statement, args...)
	return list
}
