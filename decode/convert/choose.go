package convert

import (
	"os"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/internal/cmdline"
)

// FormatNames returns the names of all formats, with commas between them.
func FormatNames() string {
	var names []string
	for _, f := range Formats {
		names = append(names, string(f))
	}
	return strings.Join(names, ", ")
}

// ChooseFormat returns the format in which to write out, and whether to compress it: the
// format to or, if that is "", the one that the name of out tells. The errors are of usage.
func ChooseFormat(out, to string, compress, terminal bool) (f Format, zstd bool, err error) {
	f, zstd = FormatOf(out)
	if info, err := os.Stat(out); err == nil && info.IsDir() {
		f = Raw
	}
	if to != "" {
		f = Format(to)
	}
	zstd = zstd && f == Pcapng || compress
	switch {
	case f == "":
		hint := ""
		if out != "-" {
			hint = "end it with .pcapng, .ndjson, .json, .har or, for raw bytes, with a slash, or "
		}
		err = cmdline.Errorf("cannot tell a format from the name %q: %sgive --to %s", out, hint, FormatNames())
	case !slices.Contains(Formats, f):
		err = cmdline.Errorf("invalid --to %q: want one of %s", f, FormatNames())
	case zstd && f != Pcapng:
		err = cmdline.Errorf("--zstd is for pcapng, and OUT is %s", f)
	case f == OTLP && !IsCollector(out):
		err = cmdline.Errorf("spans cannot be written to a file: OUT must be the URL of a collector, or otlp for http://localhost:4318")
	case f == Raw && out == "-":
		err = cmdline.Errorf("raw output needs one file per direction: name a folder, or use wirectl decode -o raw")
	case f != NDJSON && out == "-" && terminal:
		err = cmdline.Errorf("refusing to write %s to a terminal: name a file, or redirect standard output", f)
	}
	return f, zstd, err
}

// NotSame returns an error of usage if in and out are one file.
func NotSame(in, out string) error {
	a, inErr := os.Stat(in)
	b, outErr := os.Stat(out)
	if inErr == nil && outErr == nil && os.SameFile(a, b) {
		return cmdline.Errorf("IN and OUT are both %s: it would be overwritten while it is read", out)
	}
	return nil
}

// IsRereadable reports whether a session of that name can be read twice.
func IsRereadable(name string) bool {
	if strings.HasPrefix(name, "fixture:") {
		return true
	}
	info, err := os.Stat(name)
	return err == nil && (info.Mode().IsRegular() || info.IsDir())
}
