package rlm

import (
	"slices"
	"strings"
	"unicode"
)

// FenceWord is the info word of blocks that are run, unless others are configured.
const FenceWord = "repl"

// CodeBlocks returns the code of the blocks of a text whose info string is one of words, in
// any letter case; without words it is [FenceWord]. White space around the code is removed.
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
func CodeBlocks(text string, words []string) (blocks []string, open bool) {
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
type fenceScanner struct {
	text   string
	words  []string
	last   int        // the last line break before ```; -1 if there is none
	in     *fenceLine // the open fence, or nil
	blocks []string
	open   bool
	fenced []span // the blocks, including the lines of their fences
}

func scan(text string, words []string) *fenceScanner {
	if len(words) == 0 {
		words = []string{FenceWord}
	}
	s := &fenceScanner{text: text, words: words, last: strings.LastIndex(text, "\n```")}
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

func (s *fenceScanner) line(line string, pos, next int) {
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
func (s *fenceScanner) close(end, next int) {
	if s.in.code {
		s.blocks = append(s.blocks, strings.TrimSpace(dedent(s.text[s.in.body:end], s.in.indent)))
	}
	s.fenced = append(s.fenced, span{s.in.start, next})
}

// opening returns the fence that a line opens, or nil.
func (s *fenceScanner) opening(line string, pos, next int) *fenceLine {
	bare := strings.TrimLeft(line, " \t")
	f := &fenceLine{indent: len(line) - len(bare), body: next}
	f.start = pos + f.indent
	f.char, f.length = fenceRun(bare)
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

// fenceRun returns which fence character a line begins with, and how often it is repeated.
func fenceRun(line string) (char byte, length int) {
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
	char, length := fenceRun(bare)
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

// A Marker is a final answer that a model gave in its text.
type finalMarker struct {
	// Variable says that Arg is the name of the variable with the answer.
	Variable bool
	Arg      string // without white space around it; may be empty
	// Open says that no parenthesis matches. If the text was cut, so was the answer.
	Open bool
}

// FinalMarker returns the final answer of a text. It looks for FINAL_VAR(name) and then for
// FINAL(text). Of several, it takes the last one if that begins its line, else the first
// that begins a line. Markers inside fences do not count; words are those of [CodeBlocks].
//
// The argument ends at the matching parenthesis, with regard to quotes and backslashes. If
// there is none, such as after an apostrophe, it ends at the last closing parenthesis.
func FinalMarker(text string, words []string) (finalMarker, bool) {
	fenced := scan(text, words).fenced
	if name, open, ok := argument(text, fenced, "FINAL_VAR("); ok {
		return finalMarker{true, strings.Trim(strings.Trim(name, `"`), "'"), open}, true
	}
	if answer, open, ok := argument(text, fenced, "FINAL("); ok {
		return finalMarker{false, answer, open}, true
	}
	return finalMarker{}, false
}

// Unwrap returns the answer in a reply if there is no code: the text of FINAL, or the whole
// reply, also if that was cut within FINAL. There are no variables for FINAL_VAR.
func Unwrap(reply string, cut bool) string {
	if answer, open, ok := argument(reply, scan(reply, nil).fenced, "FINAL("); ok && !(open && cut) {
		return answer
	}
	return reply
}

// argument returns the text between a marker such as FINAL( and its end. It is open if no
// parenthesis matches.
func argument(text string, fenced []span, marker string) (arg string, open, ok bool) {
	start := find(text, fenced, marker)
	if start < 0 {
		return "", false, false
	}
	text = text[start:]
	end := balance(text)
	if open = end < 0; open {
		end = strings.LastIndexByte(text, ')')
	}
	if end < 0 {
		return "", true, false
	}
	return strings.TrimSpace(text[:end]), open, true
}

// find returns where the argument of the marker that counts begins, or -1.
func find(text string, fenced []span, marker string) int {
	first, last := -1, -1
	for pos := 0; pos < len(text); {
		if len(fenced) > 0 && pos >= fenced[0].start {
			pos, fenced = max(pos, fenced[0].end), fenced[1:]
			continue
		}
		line, next := lineAt(text, pos)
		if len(fenced) > 0 {
			line = line[:min(len(line), fenced[0].start-pos)]
		}
		if at := strings.LastIndex(line, marker); at >= 0 {
			indent := len(line) - len(strings.TrimLeftFunc(line, unicode.IsSpace))
			begins := strings.HasPrefix(line[indent:], marker)
			if begins && first < 0 {
				first = pos + indent + len(marker)
			}
			last = -1
			if begins && at == indent {
				last = pos + at + len(marker)
			}
		}
		pos = next
	}
	if last >= 0 {
		return last
	}
	return first
}

// balance returns the offset of the parenthesis that closes the one before text, or -1.
func balance(text string) int {
	depth, quote := 1, byte(0)
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quote != 0 && c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case c == '(':
			depth++
		case c == ')':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}
