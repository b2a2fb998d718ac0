// Package fence finds the code blocks to run and the final answer in the text of a model.
//
// The time of every function is linear in the length of the text.
package fence

import (
	"slices"
	"strings"
)

// Word is the info word of blocks that are run, unless others are configured.
const Word = "repl"

// Blocks returns the code of the blocks of a text whose info string is one of words, in
// any letter case; without words it is [Word]. White space around the code is removed.
// The last result reports that the text ends inside such a block. That block is not
// among the results, because it was probably cut.
//
// Fences are those of CommonMark, with four differences. The first three keep what models
// are used to; the last is for lists.
//   - The fence ```repl may follow other text on its line, if a line that begins with ```
//     comes after it.
//   - A line that begins with ``` closes a block of three backticks whatever follows.
//   - A line ```repl starts a block also inside another fence of three backticks, which
//     was probably not closed.
//   - A fence may have any indentation. It is closed by one with up to three blanks more.
func Blocks(text string, words []string) (blocks []string, open bool) {
	s := scan(text, words)
	return s.blocks, s.open
}

// A span is a part of the text, from its first byte to the one after its last.
type span struct{ start, end int }

// A fenceLine is a line that opens a fence.
type fenceLine struct {
	char   byte // ` or ~
	length int
	indent int
	code   bool // the block has to be run
	start  int  // of the fence in the text
	body   int  // start of the line below
}

// short reports whether f is a fence of three backticks.
func (f *fenceLine) short() bool { return f.char == '`' && f.length == 3 }

// A scanner goes through a text line by line.
type scanner struct {
	text   string
	words  []string
	last   int        // the last line break before ```; -1 if there is none
	in     *fenceLine // the open fence, or nil
	blocks []string
	open   bool
	fenced []span // the blocks, including the lines of their fences
}

func scan(text string, words []string) *scanner {
	if len(words) == 0 {
		words = []string{Word}
	}
	s := &scanner{text: text, words: words, last: strings.LastIndex(text, "\n```")}
	for pos := 0; pos < len(text); {
		line, next := lineAt(text, pos)
		s.line(line, pos, next)
		pos = next
	}
	// A fence that is not closed hides no answer, unless it is code that was cut.
	if s.in != nil && s.in.code {
		s.open = true
		s.fenced = append(s.fenced, span{s.in.start, len(text)})
	}
	return s
}

// lineAt returns the line that begins at pos, without its line break, and where the next
// line begins.
func lineAt(text string, pos int) (line string, next int) {
	if n := strings.IndexByte(text[pos:], '\n'); n >= 0 {
		return text[pos : pos+n], pos + n + 1
	}
	return text[pos:], len(text)
}

func (s *scanner) line(line string, pos, next int) {
	switch {
	case s.in == nil:
		s.in = s.opening(line, pos, next)
	case s.in.closedBy(line):
		s.close(pos, next)
		s.in = nil
	case !s.in.code && s.in.short():
		if f := s.opening(line, pos, next); f != nil && f.code && f.short() && f.start == pos+f.indent {
			s.close(pos, pos)
			s.in = f
		}
	}
}

// close ends the open fence: its content ends at end, and the line after it begins at next.
func (s *scanner) close(end, next int) {
	if s.in.code {
		s.blocks = append(s.blocks, strings.TrimSpace(dedent(s.text[s.in.body:end], s.in.indent)))
	}
	s.fenced = append(s.fenced, span{s.in.start, next})
}

// opening returns the fence that a line opens, or nil.
func (s *scanner) opening(line string, pos, next int) *fenceLine {
	bare := strings.TrimLeft(line, " \t")
	f := &fenceLine{indent: len(line) - len(bare), body: next}
	f.start = pos + f.indent
	f.char, f.length = run(bare)
	if info := strings.TrimSpace(bare[f.length:]); f.length >= 3 && (f.char == '~' || !strings.Contains(info, "`")) {
		f.code = slices.ContainsFunc(s.words, func(word string) bool { return strings.EqualFold(word, info) })
		return f
	}
	if s.last < pos {
		return nil // it would not be closed
	}
	line = strings.TrimSpace(line)
	for _, word := range s.words {
		if at := len(line) - len("```") - len(word); at >= 0 && line[at:at+3] == "```" && strings.EqualFold(line[at+3:], word) {
			return &fenceLine{char: '`', length: 3, code: true, start: pos + strings.LastIndex(s.text[pos:next], "```"), body: next}
		}
	}
	return nil
}

// run returns which fence character a line begins with, and how often it is repeated.
func run(line string) (char byte, length int) {
	if line == "" || line[0] != '`' && line[0] != '~' {
		return 0, 0
	}
	return line[0], len(line) - len(strings.TrimLeft(line, line[:1]))
}

func (f *fenceLine) closedBy(line string) bool {
	if f.code && f.short() && strings.HasPrefix(line, "```") {
		return true
	}
	bare := strings.TrimLeft(line, " \t")
	char, length := run(bare)
	return char == f.char && length >= f.length && len(line)-len(bare) <= f.indent+3 && strings.TrimSpace(bare[length:]) == ""
}

// dedent removes the indentation of a fence from its code, but no more than all lines
// have: below an indented fence, code may begin at the margin.
func dedent(code string, indent int) string {
	for line := range strings.Lines(code) {
		if bare := strings.TrimLeft(line, " \t"); strings.TrimSpace(bare) != "" {
			indent = min(indent, len(line)-len(bare))
		}
	}
	if indent == 0 {
		return code
	}
	var b strings.Builder
	for line := range strings.Lines(code) {
		if strings.TrimSpace(line) == "" {
			b.WriteByte('\n')
			continue
		}
		b.WriteString(line[indent:])
	}
	return b.String()
}
