// Package yamlfile bounds YAML files before they are parsed, because the memory of the
// parser grows with the square of the depth.
package yamlfile

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/token"
)

const (
	// MaxSize is the size of the largest file, in bytes.
	MaxSize = 1 << 20
	// MaxDepth is how deep lists and mappings may be nested.
	MaxDepth = 100
)

// An Error says what is wrong with a file, and where; Line is 0 if it is the whole file.
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

// Read reads a file. Of a file that is too large, it reads just enough for Check to refuse
// it.
func Read(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, MaxSize+1))
}

// Check returns why a file must not be parsed, as an [*Error]; nil if it may be parsed.
func Check(data []byte) error {
	if len(data) > MaxSize {
		return &Error{Msg: fmt.Sprintf("too large: want at most %d bytes", MaxSize)}
	}
	// The open brackets, and the columns in which the blocks around them begin.
	brackets := 0
	var columns []int
	for _, t := range lexer.Tokenize(string(data)) {
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			brackets++
		case token.SequenceEndType, token.MappingEndType:
			brackets = max(0, brackets-1)
		case token.MappingValueType: // it follows its key
			continue
		}
		if at := t.Position.Column; brackets == 0 {
			for len(columns) > 0 && columns[len(columns)-1] >= at {
				columns = columns[:len(columns)-1]
			}
			columns = append(columns, at)
		}
		if brackets+len(columns) > MaxDepth {
			return &Error{t.Position.Line, t.Position.Column, fmt.Sprintf("too deep: want at most %d nested lists and mappings", MaxDepth)}
		}
	}
	return nil
}

// Explain returns the message of an error of [Check] or of the parser, and where the error
// is; line is 0 if that is not known.
func Explain(err error) (msg string, line, column int) {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Msg, e.Line, e.Column
	}
	var wrong yaml.Error
	if !errors.As(err, &wrong) {
		return err.Error(), 0, 0
	}
	if tok := wrong.GetToken(); tok != nil {
		line, column = tok.Position.Line, tok.Position.Column
	}
	return wrong.GetMessage(), line, column
}

// Pairs returns the keys of a mapping with their values; nil if the node is not a mapping.
func Pairs(node ast.Node) []*ast.MappingValueNode {
	switch n := node.(type) {
	case *ast.MappingNode:
		return n.Values
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}
	}
	return nil
}
