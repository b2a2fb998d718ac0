package test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The number of words allowed in all hand-written pages.
const wordsOfPages = 32_000

var (
	fenced = regexp.MustCompile("(?ms)^ *```.*?^ *```$|^<!-- .*?^<!-- end") // code and generated text
	word   = regexp.MustCompile(`[\pL][\pL'’-]*`)
	link   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	title  = regexp.MustCompile(`(?m)^#+ +(.*)$`)
)

func pages(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, name := range append(documents(t), "../CONTRIBUTING.md", "../SECURITY.md") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		texts[filepath.ToSlash(name)] = string(text)
	}
	return texts
}

// Pages stay short. Code and the generated commands.md are not counted.
func TestPagesAreShort(t *testing.T) {
	total := 0
	for name, text := range pages(t) {
		if name == "../docs/commands.md" {
			continue
		}
		n := len(word.FindAllString(fenced.ReplaceAllString(text, ""), -1))
		total += n
		if name == "../README.md" && n > 900 {
			t.Errorf("README.md has %d words: want at most 900", n)
		}
	}
	t.Logf("the pages have %d words of %d", total, wordsOfPages)
	if total > wordsOfPages {
		t.Errorf("the pages have %d words together: want at most %d", total, wordsOfPages)
	}
}

// Every link within the repository leads to an existing file, and to a heading in it.
func TestLinks(t *testing.T) {
	for name, text := range pages(t) {
		for _, found := range link.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
			target := found[1]
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			path, anchor, _ := strings.Cut(target, "#")
			file := name
			if path != "" {
				file = filepath.ToSlash(filepath.Join(filepath.Dir(name), path))
			}
			linked, err := os.ReadFile(file)
			if err != nil {
				if info, err := os.Stat(file); err == nil && info.IsDir() {
					continue
				}
				t.Errorf("%s links to %s, which is not there", name, target)
				continue
			}
			if anchor != "" && !anchors(string(linked))[anchor] {
				t.Errorf("%s links to %s: %s has no such title", name, target, file)
			}
		}
	}
}

// anchors returns GitHub's names for the headings of a page.
func anchors(text string) map[string]bool {
	names := map[string]bool{}
	for _, found := range title.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		name := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || word.MatchString(string(r)) || '0' <= r && r <= '9':
				return r
			}
			return -1
		}, strings.ToLower(found[1]))
		names[name] = true
	}
	return names
}

// foreign matches phrases that are grammatical but unidiomatic.
var foreign = regexp.MustCompile(`(?i)\b(` + strings.Join([]string{
	"as far as there (is|are)", "for want of", "for ever", "(is|are) no (JSON|frame|terminal|capture)",
	"that which", "what is but", "is but a", "who(ever)? (has|asks|comes|looks|waits)", "looks? on at", "looking on",
	"gives? out", "takes? in", "taken apart", "stands? (behind|ahead|in (its|their) place)", "of which (it|the) (keeps|has)",
	"in the place of", "whichever it is", "mostly it is", "as (it|they) likes?", "what (comes|becomes) of", "what was meant",
	"be had again", "goes the same way", "so it is", "so is,", "lets? (it|them|what [a-z ]+) (never )?go", "the same is so",
	"in whatever way", "ahead of the", "leaves? out what", "passed over", "who is sent", "makes of", "is there already",
	"what is no", "is of use", "(is|are) no (list|prompt|key|model|file|session|address|duration|message|member)s?", "(goes|go) on without", "tells? of",
	"said to be", "as long as (it|they) (last|like)s?", "behind (each other|one another)", "it is told", "of (him|whom)", "anew", "will have none", "to none", "none any more", "taken for it", "behind what", "where one more would be",
}, "|") + `)\b`)

func TestPagesAreInPlainWords(t *testing.T) {
	for name, text := range pages(t) {
		for i, line := range strings.Split(fenced.ReplaceAllStringFunc(text, blank), "\n") {
			for _, phrase := range foreign.FindAllString(line, -1) {
				t.Errorf("%s:%d: %q: say it as you would to a colleague", name, i+1, phrase)
			}
			if strings.HasPrefix(line, "<<<<<<< ") {
				t.Errorf("%s:%d: a conflict of a merge is left", name, i+1)
			}
		}
	}
}

// blank replaces a block by as many empty lines.
func blank(block string) string { return strings.Repeat("\n", strings.Count(block, "\n")) }

// literal matches a string in the code with a space in it, such as a message or help text.
var literal = regexp.MustCompile("\"(?:[^\"\\\\\n]|\\\\.)* (?:[^\"\\\\\n]|\\\\.)*\"")

func TestMessagesAreInPlainWords(t *testing.T) {
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && (d.Name() == "test" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && len(d.Name()) > 2) {
			return fs.SkipDir
		}
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, ".pb.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for i, line := range strings.Split(string(text), "\n") {
			for _, message := range literal.FindAllString(line, -1) {
				for _, phrase := range foreign.FindAllString(message, -1) {
					t.Errorf("%s:%d: %q: say it as you would to a colleague", path, i+1, phrase)
				}
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
