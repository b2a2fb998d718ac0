// Package table prints rows with named columns: as text for people, as NDJSON, and as CSV. It
// also writes reports for continuous integration, as JUnit XML and as SARIF.
//
// A [Column] is defined once, for all forms. Text to a pipe is never cut. On a terminal, columns
// are left out until a line fits, in the order of their [Column.Drop], and then names are cut.
package table

import (
	"bytes"
	"encoding/csv"
	"io"
	"slices"
	"sync/atomic"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/render"
)

// The forms of output.
const (
	AsText   = "text"
	AsNDJSON = "ndjson"
	AsJSON   = "json"
	AsCSV    = "csv"
	AsJUnit  = "junit"
	AsSARIF  = "sarif"
)

// An Output is where rows are printed, and how.
type Output struct {
	To     io.Writer // receives whole lines
	Form   string
	Width  int           // cells of a line of text; 0 means no limit
	Style  *render.Style // of text
	Indent string        // begins each line of text
}

// Document prints a value as JSON: with a line for each member, or as a line of NDJSON.
func (out *Output) Document(v any) error {
	enc := jsonscan.NewEncoder(out.To)
	if out.Form != AsNDJSON {
		enc.SetIndent("", "  ")
	}
	return enc.Encode(v)
}

// A Column is a property of rows of the type R.
type Column[R any] struct {
	// Name is the column's name in NDJSON and CSV, and Title its heading in text. A column without
	// one of them is not in that form.
	Name, Title string
	// Value returns an int64, a string, a [Count], one of the other types of this package, or what
	// encoding/json can write. Nil, and zero unless it is an int64, does not apply to the row.
	Value func(r *R) any
	// Cell returns the cell in text, if it is not simply the value. It is made safe.
	Cell func(r *R) string
	// At is the column's place in text. Columns of the same place are in the order of their
	// definition.
	At    int
	Right bool // aligned
	Paint func(r *R, style *render.Style) render.Paint
	// Shown says if the column is in text. While rows are printed as they come, it also is if Hint, unless
	// nil, says that rows after the first one may have a cell.
	Shown When
	Hint  func(first *R) bool
	// Drop is the order in which columns are left out on a narrow terminal. 0 means never.
	Drop int
	// Least is how many cells a column keeps that can be cut, and Most how many it gets on a
	// terminal; 0 means all that it needs.
	Least, Most int
	// Usual is the width of the column while rows are printed as they come.
	Usual int
}

// When says if a column is in text.
type When uint8

// Columns that are shown IfAny or IfSeveral are left out while rows are printed as they come.
const (
	Always    When = iota
	IfFirst        // row has a cell while rows are printed as they come; else as IfAny
	IfAny          // row has a cell
	IfSeveral      // rows have different cells
)

// A Printer prints rows.
type Printer[R any] struct {
	Output
	Columns []Column[R]
	// Live prints each row immediately.
	Live bool
	// Aside formats and writes rows in a goroutine of its own, unless they are live. [Printer.Close] waits for it.
	// Rows must not change any more.
	Aside bool
	// Below returns lines that are printed below a row of text.
	Below func(r *R) []string
	// Learn is how many rows of text wait until the widths of the columns are known; 0 means all.
	Learn int

	named   []Column[R] // of NDJSON and CSV
	sheet   *csv.Writer
	cells   []string
	line    []byte
	text    layout[R]
	out     bytes.Buffer
	started bool
	err     atomic.Pointer[error]

	batch   []*R
	batches chan []*R
	printed chan struct{}
}

// Write prints a list of rows. If no column has a name, NDJSON has the rows as encoding/json writes
// them.
func Write[R any](out Output, columns []Column[R], list []R) error {
	p := Printer[R]{Output: out, Columns: columns}
	for i := range list {
		p.Print(&list[i])
	}
	return p.Close()
}

// AppendValue appends the value of a row in the column of that name as JSON; nothing if it does not
// apply.
func AppendValue[R any](dst []byte, columns []Column[R], name string, r *R) []byte {
	for i := range columns {
		if columns[i].Name == name {
			return columns[i].appendValue(dst, r)
		}
	}
	return dst
}

func (c *Column[R]) appendValue(dst []byte, r *R) []byte {
	if v := c.Value(r); applies(v) {
		return appendJSON(dst, v)
	}
	return dst
}

// Names returns the names of the columns that have one.
func Names[R any](columns []Column[R]) (names []string) {
	for i := range columns {
		if columns[i].Name != "" {
			names = append(names, columns[i].Name)
		}
	}
	return names
}

// fullBuffer is the size of the output buffer, unless rows are printed as they come.
const fullBuffer = 32 << 10

// The rows that wait for the goroutine of a printer are in batches.
const batchSize, maxBatches = 64, 2

// Print prints a row, or keeps it until Close.
func (p *Printer[R]) Print(r *R) {
	if p.Live || !p.Aside {
		p.print(r)
		return
	}
	if p.batches == nil {
		p.batches, p.printed = make(chan []*R, maxBatches), make(chan struct{})
		go func() {
			defer close(p.printed)
			for batch := range p.batches {
				for _, r := range batch {
					p.print(r)
				}
			}
		}()
	}
	if p.batch = append(p.batch, r); len(p.batch) == batchSize {
		p.batches <- p.batch
		p.batch = make([]*R, 0, batchSize)
	}
}

func (p *Printer[R]) print(r *R) {
	p.start()
	switch p.Form {
	case AsCSV:
		p.printCSV(r)
	case AsNDJSON:
		p.printNDJSON(r)
	default:
		p.text.addRow(&p.out, r)
	}
	if p.Live || p.out.Len() >= fullBuffer {
		p.flush()
	}
}

// Close prints what was kept, and returns the first error.
func (p *Printer[R]) Close() error {
	if p.batches != nil {
		p.batches <- p.batch
		close(p.batches)
		<-p.printed
		p.batch, p.batches = nil, nil
	}
	p.start()
	if p.Form == AsText {
		p.text.rest(&p.out)
	}
	p.flush()
	return p.Err()
}

// Err returns the first error, as soon as it is known.
func (p *Printer[R]) Err() error {
	if err := p.err.Load(); err != nil {
		return *err
	}
	return nil
}

func (p *Printer[R]) start() {
	if p.started {
		return
	}
	p.started = true
	if p.Form == AsText {
		p.text.setUp(p)
		return
	}
	p.named = slices.DeleteFunc(slices.Clone(p.Columns), func(c Column[R]) bool { return c.Name == "" })
	if p.Form == AsCSV {
		p.sheet = csv.NewWriter(&p.out)
		_ = p.sheet.Write(Names(p.Columns)) // into memory
		p.sheet.Flush()
	}
}

func (p *Printer[R]) flush() {
	if p.out.Len() > 0 && p.Err() == nil {
		if _, err := p.To.Write(p.out.Bytes()); err != nil {
			p.err.Store(&err)
		}
	}
	p.out.Reset()
}

func (p *Printer[R]) printNDJSON(r *R) {
	if len(p.named) == 0 {
		p.out.Write(append(jsonscan.MustMarshal(r), '\n'))
		return
	}
	b := append(p.line[:0], '{')
	for i := range p.named {
		if v := p.named[i].Value(r); applies(v) {
			b = appendMember(b, p.named[i].Name, v)
		}
	}
	p.line = append(b, "}\n"...)
	p.out.Write(p.line)
}

func (p *Printer[R]) printCSV(r *R) {
	p.cells = p.cells[:0]
	for i := range p.named {
		p.line = p.named[i].appendValue(p.line[:0], r)
		cell, isText := jsonscan.Unquote(p.line)
		if !isText {
			cell = p.line
		}
		p.cells = append(p.cells, string(cell))
	}
	_ = p.sheet.Write(p.cells)
	p.sheet.Flush()
}
