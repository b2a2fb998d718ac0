package protofile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/bufbuild/protocompile/ast"
	"github.com/bufbuild/protocompile/parser"
	"github.com/bufbuild/protocompile/reporter"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/wirectl/wirectl/proto/descriptor"
	"github.com/wirectl/wirectl/protocol/protobuf/known"
)

// A compiler compiles files and what they import, each once. It parses by
// protocompile, and links by package descriptor: the linker of protocompile, and its
// root package, would make tables at every start of the program.
type compiler struct {
	sets    map[string]*descriptorpb.FileDescriptorProto // by name
	dirs    []string
	handler *reporter.Handler
	started map[string]bool // the files that have been asked for
	files   protoregistry.Files
}

func newCompiler(sets []*descriptorpb.FileDescriptorProto, dirs []string) *compiler {
	c := &compiler{
		sets: make(map[string]*descriptorpb.FileDescriptorProto), dirs: dirs,
		handler: reporter.NewHandler(nil), started: make(map[string]bool),
	}
	for _, file := range sets {
		c.sets[file.GetName()] = file
	}
	return c
}

// compile returns the files of those names.
func (c *compiler) compile(ctx context.Context, names []string) (files []protoreflect.FileDescriptor, err error) {
	for _, name := range names {
		file, err := c.file(ctx, name)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

// file returns one file, compiled when it is first asked for.
func (c *compiler) file(ctx context.Context, name string) (protoreflect.FileDescriptor, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if file, err := c.files.FindFileByPath(name); err == nil {
		return file, nil
	}
	if c.started[name] {
		return nil, fmt.Errorf("%s imports itself", name)
	}
	c.started[name] = true
	parsed, err := c.parse(name)
	if file := builtin(name); file != nil && errors.Is(err, os.ErrNotExist) {
		return file, c.take(file)
	}
	if err != nil {
		return nil, err
	}
	if err := c.imports(ctx, parsed); err != nil {
		return nil, err
	}
	file, err := descriptor.New(parsed.FileDescriptorProto(), &c.files)
	if err != nil {
		return nil, positioned(parsed, err)
	}
	return file, c.files.RegisterFile(file)
}

// imports compiles what a file imports.
func (c *compiler) imports(ctx context.Context, parsed parser.Result) error {
	for _, name := range parsed.FileDescriptorProto().GetDependency() {
		if _, err := c.file(ctx, name); err != nil {
			return fmt.Errorf("%s: %w", importOf(parsed, name), err)
		}
	}
	return nil
}

// importOf returns the position at which a file imports another.
func importOf(parsed parser.Result, name string) ast.SourcePos {
	file := parsed.FileNode()
	if source, ok := file.(*ast.FileNode); ok {
		for _, decl := range source.Decls {
			if imported, ok := decl.(*ast.ImportNode); ok && imported.Name.AsString() == name {
				return file.NodeInfo(imported.Name).Start()
			}
		}
	}
	return ast.UnknownPos(file.Name())
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
	tree, err := parser.Parse(name, source, c.handler)
	if err != nil {
		return nil, err
	}
	parsed, err := parser.ResultFromAST(tree, true, c.handler)
	if err != nil {
		return nil, advised(err)
	}
	return parsed, interpret(parsed)
}

// advised adds to an error of the parser what to try, where it is not the file that
// is wrong: descriptor sets are read of later editions, too.
func advised(err error) error {
	if !strings.Contains(err.Error(), "edition value") {
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

// take takes in a file that is compiled already, and what it imports.
func (c *compiler) take(file protoreflect.FileDescriptor) error {
	if _, err := c.files.FindFileByPath(file.Path()); err == nil {
		return nil
	}
	if err := c.files.RegisterFile(file); err != nil {
		return err
	}
	for i := range file.Imports().Len() {
		if err := c.take(file.Imports().Get(i).FileDescriptor); err != nil {
			return err
		}
	}
	return nil
}
