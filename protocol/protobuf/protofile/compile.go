package protofile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/parser"
	"github.com/bufbuild/protocompile/protoutil"
	"github.com/bufbuild/protocompile/reporter"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// A finder finds the files to compile and their imports.
type finder struct {
	sets map[string]*descriptorpb.FileDescriptorProto // by name
	read func(name string) ([]byte, error)            // any other file
}

// compile compiles and returns the files with those names.
func (f *finder) compile(ctx context.Context, names []string) ([]protoreflect.FileDescriptor, error) {
	compiler := protocompile.Compiler{Resolver: protocompile.WithStandardImports(f)}
	compiled, err := compiler.Compile(ctx, names...)
	if err != nil {
		return nil, advised(err)
	}
	var known protoregistry.Files
	var files []protoreflect.FileDescriptor
	for _, file := range compiled {
		checked, err := check(&known, file)
		if err != nil {
			return nil, err
		}
		files = append(files, checked)
	}
	return files, nil
}

// check returns a file, and adds it and its imports to known. The linker trusts descriptor
// sets, so package protodesc checks everything that reading messages relies on.
func check(known *protoregistry.Files, file protoreflect.FileDescriptor) (protoreflect.FileDescriptor, error) {
	if fd, err := known.FindFileByPath(file.Path()); err == nil {
		return fd, nil
	}
	for i := range file.Imports().Len() {
		if _, err := check(known, file.Imports().Get(i).FileDescriptor); err != nil {
			return nil, err
		}
	}
	fd, err := protodesc.NewFile(protoutil.ProtoFromFileDescriptor(file), known)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file.Path(), err)
	}
	return fd, known.RegisterFile(fd)
}

// advised adds a hint to an error of the parser, for when the file itself is correct: later
// editions can be read from descriptor sets.
func advised(err error) error {
	if !strings.Contains(err.Error(), "edition value") {
		return err
	}
	return fmt.Errorf("%w: compile it with protoc --descriptor_set_out or buf build -o, and give --descriptor-set", err)
}

// FindFileByPath finds a file in the descriptor sets or reads it. It implements
// [protocompile.Resolver].
func (f *finder) FindFileByPath(name string) (found protocompile.SearchResult, err error) {
	if file := f.sets[name]; file != nil {
		return protocompile.SearchResult{Proto: file}, nil
	}
	source, err := f.read(name)
	if err != nil {
		return found, err
	}
	found.Source = bytes.NewReader(source) // the compiler reports the positions of errors
	handler := reporter.NewHandler(nil)
	if tree, err := parser.Parse(name, bytes.NewReader(source), handler); err == nil {
		if parsed, err := parser.ResultFromAST(tree, true, handler); err == nil {
			return protocompile.SearchResult{ParseResult: parsed}, dropCustomOptions(parsed.FileDescriptorProto())
		}
	}
	return found, nil
}

// readBelow reads the file of that name below one of dirs.
func readBelow(dirs []string, name string) ([]byte, error) {
	for _, dir := range dirs {
		source, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if !errors.Is(err, os.ErrNotExist) {
			return source, err
		}
	}
	return nil, fmt.Errorf("%s is in none of: %s: %w", name, strings.Join(dirs, ", "), os.ErrNotExist)
}

// dropCustomOptions removes options that are extensions, such as the rules of validators. They
// do not affect how messages are read, and their definitions may be missing.
func dropCustomOptions(file proto.Message) error {
	return protorange.Range(file.ProtoReflect(), func(at protopath.Values) error {
		options, ok := at.Index(-1).Value.Interface().(protoreflect.Message)
		if !ok {
			return nil
		}
		fd := options.Descriptor().Fields().ByName("uninterpreted_option")
		if fd == nil || !options.Has(fd) {
			return nil
		}
		kept := options.NewField(fd)
		for i := range options.Get(fd).List().Len() {
			option := options.Get(fd).List().Get(i)
			names := option.Message().Interface().(*descriptorpb.UninterpretedOption).GetName()
			if !slices.ContainsFunc(names, (*descriptorpb.UninterpretedOption_NamePart).GetIsExtension) {
				kept.List().Append(option)
			}
		}
		options.Set(fd, kept)
		return nil
	})
}
