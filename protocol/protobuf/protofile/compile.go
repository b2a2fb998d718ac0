package protofile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/bufbuild/protocompile/linker"
	"github.com/bufbuild/protocompile/options"
	"github.com/bufbuild/protocompile/parser"
	"github.com/bufbuild/protocompile/reporter"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/wirectl/wirectl/protocol/protobuf/known"
)

// A compiler compiles files and what they import, each once. It joins the
// parser and the linker of protocompile, whose root package does the same but
// costs every start of the program half a millisecond.
type compiler struct {
	sets    map[string]*descriptorpb.FileDescriptorProto // by name
	dirs    []string
	symbols *linker.Symbols
	handler *reporter.Handler
	files   map[string]linker.File // nil while it is being compiled
}

func newCompiler(sets []*descriptorpb.FileDescriptorProto, dirs []string) *compiler {
	c := &compiler{
		sets: make(map[string]*descriptorpb.FileDescriptorProto), dirs: dirs,
		symbols: &linker.Symbols{}, handler: reporter.NewHandler(nil),
		files: make(map[string]linker.File),
	}
	for _, file := range sets {
		c.sets[file.GetName()] = file
	}
	return c
}

// compile returns the files of those names.
func (c *compiler) compile(ctx context.Context, names []string) (linker.Files, error) {
	var files linker.Files
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		file, known := c.files[name]
		switch {
		case !known:
			var err error
			if file, err = c.file(ctx, name); err != nil {
				return nil, err
			}
		case file == nil:
			return nil, fmt.Errorf("%s imports itself", name)
		}
		files = append(files, file)
	}
	return files, nil
}

// file compiles a file that has not been asked for before.
func (c *compiler) file(ctx context.Context, name string) (linker.File, error) {
	c.files[name] = nil
	parsed, err := c.parse(name)
	if descriptor := builtin(name); descriptor != nil && errors.Is(err, os.ErrNotExist) {
		return c.take(descriptor)
	}
	if err != nil {
		return nil, err
	}
	imports, err := c.compile(ctx, parsed.FileDescriptorProto().GetDependency())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	file, err := linker.Link(parsed, imports, c.symbols, c.handler)
	if err != nil {
		return nil, err
	}
	if _, err := options.InterpretOptions(file, c.handler); err != nil {
		return nil, err
	}
	c.files[name] = file
	return file, file.ValidateOptions(c.handler, c.symbols)
}

// parse finds a file in the descriptor sets or below the directories.
func (c *compiler) parse(name string) (parser.Result, error) {
	if file := c.sets[name]; file != nil {
		return parser.ResultWithoutAST(file), nil
	}
	source, err := c.open(name)
	if err != nil {
		return nil, err
	}
	defer source.Close()
	ast, err := parser.Parse(name, source, c.handler)
	if err != nil {
		return nil, err
	}
	result, err := parser.ResultFromAST(ast, true, c.handler)
	return result, advised(err)
}

// advised adds to an error of the parser what to try, where it is not the file that
// is wrong: descriptor sets are read of later editions, too.
func advised(err error) error {
	if err == nil || !strings.Contains(err.Error(), "edition value") {
		return err
	}
	return fmt.Errorf("%w: compile it with protoc --descriptor_set_out or buf build -o, and give --descriptor-set", err)
}

func (c *compiler) open(name string) (io.ReadCloser, error) {
	for _, dir := range c.dirs {
		f, err := os.Open(filepath.Join(dir, filepath.FromSlash(name)))
		if !errors.Is(err, os.ErrNotExist) {
			return f, err
		}
	}
	return nil, fmt.Errorf("%s is in none of: %s: %w", name, strings.Join(c.dirs, ", "), os.ErrNotExist)
}

// builtin returns a file that protoc brings along; nil if there is none of that
// name.
func builtin(name string) protoreflect.FileDescriptor {
	if !strings.HasPrefix(name, "google/protobuf/") {
		return nil
	}
	// The error says that there is none.
	descriptor, _ := known.Files().FindFileByPath(name)
	return descriptor
}

// take takes in a file that is compiled already.
func (c *compiler) take(descriptor protoreflect.FileDescriptor) (linker.File, error) {
	file, err := linker.NewFileRecursive(descriptor)
	if err != nil {
		return nil, err
	}
	c.files[descriptor.Path()] = file
	return file, c.symbols.Import(file, c.handler)
}
