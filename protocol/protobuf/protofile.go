package protobuf

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
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

// A Source says where schemas are.
type SchemaSource struct {
	// Proto are .proto files to compile, by path, or by path below one of ImportPaths.
	Proto []string
	// ImportPaths are the directories searched for imports; the working directory if there
	// are none. The directories of the Proto files are searched after them. The imports
	// that protoc includes are built in.
	ImportPaths []string
	// DescriptorSet are files that each hold a google.protobuf.FileDescriptorSet.
	DescriptorSet []string
}

// LoadSchema returns the message type named by message: its full name, or an unambiguous end of it.
// For "acme.v1.Event" that is "Event" or "v1.Event". Imported types are found by full name
// only. Load also returns the files of the source, as [SchemaFiles] does.
func LoadSchema(ctx context.Context, source SchemaSource, message string) (protoreflect.MessageDescriptor, []protoreflect.FileDescriptor, error) {
	files, err := SchemaFiles(ctx, source)
	if err != nil {
		return nil, nil, err
	}
	md, err := find(files, message)
	if err != nil {
		return nil, nil, fmt.Errorf("message %q %w", message, err)
	}
	return md, files, nil
}

// SchemaFiles returns the files of a source, without their imports.
func SchemaFiles(ctx context.Context, source SchemaSource) ([]protoreflect.FileDescriptor, error) {
	if len(source.Proto) == 0 && len(source.DescriptorSet) == 0 {
		return nil, errors.New("no .proto file or descriptor set to load a schema from")
	}
	names, dirs, err := place(source)
	if err != nil {
		return nil, err
	}
	sets, err := readSets(source.DescriptorSet)
	if err != nil {
		return nil, err
	}
	f := &finder{sets: map[string]*descriptorpb.FileDescriptorProto{}, read: func(name string) ([]byte, error) { return readBelow(dirs, name) }}
	for _, file := range sets {
		f.sets[file.GetName()] = file
		names = append(names, file.GetName())
	}
	slices.Sort(names)
	return f.compile(ctx, slices.Compact(names))
}

// EmbeddedFile returns the .proto files with those names.
func EmbeddedFile(from fs.ReadFileFS, names ...string) ([]protoreflect.FileDescriptor, error) {
	return (&finder{read: from.ReadFile}).compile(context.Background(), names)
}

// place returns the names by which the .proto files are imported, and the directories to search
// for imports.
func place(source SchemaSource) (names, dirs []string, err error) {
	dirs = slices.Clone(source.ImportPaths)
	if len(dirs) == 0 {
		dirs = []string{"."}
	}
	asked := len(dirs)
	for _, file := range source.Proto {
		path, err := locate(dirs[:asked], file)
		if err != nil {
			return nil, nil, err
		}
		name, ok := within(dirs[:asked], path)
		if !ok {
			name = filepath.Base(path)
		}
		names = append(names, name)
		if dir := filepath.Dir(path); !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return names, dirs, nil
}

// locate returns the path of file: the path itself if it exists, or else below one of dirs.
func locate(dirs []string, file string) (string, error) {
	_, err := os.Stat(file)
	if err == nil {
		return file, nil
	}
	for _, dir := range dirs {
		path := filepath.Join(dir, file)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", err
}

// within returns the path of file relative to the first of dirs that contains it.
func within(dirs []string, file string) (string, bool) {
	abs, err := filepath.Abs(file)
	if err != nil {
		return "", false
	}
	for _, dir := range dirs {
		root, err := filepath.Abs(dir)
		if err != nil {
			continue
		}
		if rel, err := filepath.Rel(root, abs); err == nil && filepath.IsLocal(rel) {
			return filepath.ToSlash(rel), true
		}
	}
	return "", false
}

func readSets(paths []string) ([]*descriptorpb.FileDescriptorProto, error) {
	var files []*descriptorpb.FileDescriptorProto
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		var set descriptorpb.FileDescriptorSet
		if err := proto.Unmarshal(data, &set); err != nil || len(set.GetFile()) == 0 {
			return nil, fmt.Errorf("%s is not a descriptor set, as protoc --descriptor_set_out and buf build -o write it", path)
		}
		files = append(files, set.GetFile()...)
	}
	return files, nil
}

// find returns the message type in files that name refers to. Its error continues a sentence
// that begins with the name.
func find(files []protoreflect.FileDescriptor, name string) (protoreflect.MessageDescriptor, error) {
	var all, matches []string
	var found protoreflect.MessageDescriptor
	for _, md := range messages(files) {
		full := string(md.FullName())
		all = append(all, full)
		if full == name {
			return md, nil
		}
		if strings.HasSuffix(full, "."+name) {
			found, matches = md, append(matches, full)
		}
	}
	switch len(matches) {
	case 1:
		return found, nil
	case 0:
		if md := imported(files, name, map[string]bool{}); md != nil {
			return md, nil
		}
		return nil, fmt.Errorf("is not in %s; it has: %s", paths(files), list(all))
	}
	return nil, fmt.Errorf("could be any of: %s", list(matches))
}

// imported returns the message type with that full name that files import, directly or
// indirectly; nil if there is none. It visits each file once; seen has the visited paths.
func imported(files []protoreflect.FileDescriptor, name string, seen map[string]bool) protoreflect.MessageDescriptor {
	var next []protoreflect.FileDescriptor
	for _, file := range files {
		imports := file.Imports()
		for i := range imports.Len() {
			if fd := imports.Get(i).FileDescriptor; !seen[fd.Path()] {
				seen[fd.Path()] = true
				next = append(next, fd)
			}
		}
	}
	for _, md := range messages(next) {
		if string(md.FullName()) == name {
			return md
		}
	}
	if len(next) == 0 {
		return nil
	}
	return imported(next, name, seen)
}

// messages returns the message types of files and their nested types, without map entries.
func messages(files []protoreflect.FileDescriptor) []protoreflect.MessageDescriptor {
	var all []protoreflect.MessageDescriptor
	var add func(protoreflect.MessageDescriptors)
	add = func(mds protoreflect.MessageDescriptors) {
		for i := range mds.Len() {
			if md := mds.Get(i); !md.IsMapEntry() {
				all = append(all, md)
				add(md.Messages())
			}
		}
	}
	for _, file := range files {
		add(file.Messages())
	}
	return all
}

func paths(files []protoreflect.FileDescriptor) string {
	var all []string
	for _, file := range files {
		all = append(all, file.Path())
	}
	return list(all)
}

// list joins names, but only as many as are useful to a reader.
func list(names []string) string {
	const most = 20
	if len(names) == 0 {
		return "no messages"
	}
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
