// Package yamlfile bounds what a YAML file may take before it is parsed: the parser
// takes memory with the square of the depth.
package yamlfile

import (
	"fmt"
	"io"
	"os"

	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/token"
)

const (
	// MaxSize is the size of the largest file, in bytes.
	MaxSize = 1 << 20
	// MaxDepth is how deep lists and mappings may lie in each other.
	MaxDepth = 100
)

// An Error says what is wrong with a file, and where; Line is 0 if it is all of it.
type Error struct {
	Line, Column int
	Msg          string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Msg
	}
	return fmt.Sprintf("[%d:%d] %s", e.Line, e.Column, e.Msg)
}

// Read reads a file, of one that is too large only enough for Check to refuse it.
func Read(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, MaxSize+1))
}

// Check says why a file is not to be parsed, as an [*Error]; nil if it may be.
func Check(data []byte) error {
	if len(data) > MaxSize {
		return &Error{Msg: fmt.Sprintf("too large: want at most %d bytes", MaxSize)}
	}
	// Brackets that are open, and the columns in which blocks around them begin.
	brackets := 0
	var columns []int
	for _, t := range lexer.Tokenize(string(data)) {
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			brackets++
		case token.SequenceEndType, token.MappingEndType:
			brackets = max(0, brackets-1)
		case token.MappingValueType: // stands behind its key
			continue
		}
		if at := t.Position.Column; brackets == 0 {
			for len(columns) > 0 && columns[len(columns)-1] >= at {
				columns = columns[:len(columns)-1]
			}
			columns = append(columns, at)
		}
		if brackets+len(columns) > MaxDepth {
			return &Error{t.Position.Line, t.Position.Column, fmt.Sprintf("too deep: want at most %d lists and mappings in each other", MaxDepth)}
		}
	}
	return nil
}
