// Notices writes the licences and notices of all that is linked into what
// goreleaser.yaml builds, on any of its platforms: notices FILE. It works in a
// folder beside that file. The same go.mod gives the same bytes on any machine.
//
// go-licenses 1.6.0 cannot replace it: it leaves out the Go standard library, reports
// nothing, without an error, if GOFLAGS has -trimpath, and asks the hosts of modules.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

const head = `Third-party notices

Beside wirectl, the programs of its releases hold what is named here, each text below
the names of all that it comes with. This file is written by make generate.
`

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: notices FILE")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "notices:", err)
		os.Exit(1)
	}
}

func write(file string) error {
	packages, err := linked()
	if err != nil {
		return err
	}
	modules := make(map[string][]string) // by text
	for p := range packages {
		texts, err := p.texts()
		if err != nil {
			return fmt.Errorf("%s: %w", p.module, err)
		}
		for _, text := range texts {
			modules[text] = append(modules[text], p.module)
		}
	}
	var entries []string
	for text, names := range modules {
		slices.Sort(names)
		entries = append(entries, strings.Join(slices.Compact(names), "\n")+"\n\n"+text)
	}
	slices.Sort(entries)
	rule := "\n" + strings.Repeat("=", 80) + "\n"
	return os.WriteFile(file, []byte(head+rule+strings.Join(entries, rule)), 0o644)
}

// A linkedPackage is one that a program is made of: the name of its module, the
// module's folder, and its own. The standard library is one package.
type linkedPackage struct{ module, root, dir string }

const format = `{{if .Standard}}Go standard library|{{.Root}}|{{.Root}}{{else if not .Module.Main}}` +
	`{{.Module.Path}} {{.Module.Version}}|{{.Module.Dir}}|{{.Dir}}{{end}}`

func linked() (map[linkedPackage]bool, error) {
	var config struct {
		Builds []struct{ Env, Goos, Goarch, Tags []string }
	}
	data, err := os.ReadFile("../../goreleaser.yaml")
	if err != nil {
		return nil, err
	}
	if err := yaml.Unmarshal(data, &config); err != nil {
		return nil, err
	}
	packages := make(map[linkedPackage]bool)
	for _, b := range config.Builds {
		for _, goos := range b.Goos {
			for _, goarch := range b.Goarch {
				list := exec.Command("go", "list", "-deps", "-tags", strings.Join(b.Tags, ","), "-f", format, ".")
				list.Dir, list.Stderr = "../..", os.Stderr
				list.Env = append(append(os.Environ(), b.Env...), "GOOS="+goos, "GOARCH="+goarch)
				out, err := list.Output()
				if err != nil {
					return nil, fmt.Errorf("go list for %s/%s: %w", goos, goarch, err)
				}
				for line := range strings.Lines(string(out)) {
					if f := strings.Split(strings.TrimSpace(line), "|"); len(f) == 3 {
						packages[linkedPackage{f[0], f[1], f[2]}] = true
					}
				}
			}
		}
	}
	return packages, nil
}

var (
	legal  = regexp.MustCompile(`(?i)^(licen[cs]e|notice|copying)s?([-_.].*)?$`)
	readme = regexp.MustCompile(`(?i)^readme(\..*)?$`)
	// Some modules tell their licence in their README only.
	told = regexp.MustCompile(`(?im)^#+ *licen[cs]e`)
)

// texts returns what holds for a package: the licences and notices in its folder
// and in those above it, up to its module's, which has at least one.
func (p linkedPackage) texts() ([]string, error) {
	texts, err := read(p.dir, legal)
	if err != nil {
		return nil, err
	}
	if p.dir != p.root {
		above, err := linkedPackage{p.module, p.root, filepath.Dir(p.dir)}.texts()
		return append(texts, above...), err
	}
	if len(texts) > 0 {
		return texts, nil
	}
	if texts, err = read(p.dir, readme); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(texts, told.MatchString) {
		return nil, fmt.Errorf("no licence in %s: that copy is not whole (Go is, from https://go.dev/dl)", p.dir)
	}
	return texts, nil
}

// read returns the texts in a folder whose names match.
func read(dir string, names *regexp.Regexp) ([]string, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var texts []string
	for _, file := range files {
		if file.IsDir() || !names.MatchString(file.Name()) || filepath.Ext(file.Name()) == ".go" {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, file.Name()))
		if err != nil {
			return nil, err
		}
		texts = append(texts, strings.Trim(strings.ReplaceAll(string(data), "\r\n", "\n"), "\n")+"\n")
	}
	return texts, nil
}
