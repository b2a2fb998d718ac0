package protobuf

import (
	"errors"
	"sync"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// names are the files of google/protobuf that protocompile includes.
var names = []string{
	"any", "api", "compiler/plugin", "cpp_features", "descriptor", "duration", "empty", "field_mask", "go_features",
	"java_features", "source_context", "struct", "timestamp", "type", "wrappers",
}

// Files returns the included files.
var Files = sync.OnceValue(func() *protoregistry.Files {
	resolver := protocompile.WithStandardImports(protocompile.CompositeResolver{})
	files := &protoregistry.Files{}
	for _, name := range names {
		found, err := resolver.FindFileByPath("google/protobuf/" + name + ".proto")
		if err = errors.Join(err, files.RegisterFile(found.Desc)); err != nil {
			panic(err) // the names are constants
		}
	}
	return files
})
