// Sbom writes what a Go program is made of, as the program itself says it, as an
// SPDX 2.3 document: sbom PROGRAM VERSION TIME FILE. The same program gives the
// same bytes, because version and time are given.
package main

import (
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"strings"
)

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: sbom PROGRAM VERSION TIME FILE")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func write(program, version, created, file string) error {
	data, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(describe(version, created, fmt.Sprintf("%x", sha256.Sum256(data)), info), "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(text, '\n'), 0o644)
}

type document struct {
	Version       string         `json:"spdxVersion"`
	License       string         `json:"dataLicense"`
	ID            string         `json:"SPDXID"`
	Name          string         `json:"name"`
	Namespace     string         `json:"documentNamespace"`
	Creation      creation       `json:"creationInfo"`
	Packages      []pack         `json:"packages"`
	Relationships []relationship `json:"relationships"`
}

type creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type pack struct {
	ID        string     `json:"SPDXID"`
	Name      string     `json:"name"`
	Version   string     `json:"versionInfo"`
	Purpose   string     `json:"primaryPackagePurpose"`
	Download  string     `json:"downloadLocation"`
	Analyzed  bool       `json:"filesAnalyzed"`
	License   string     `json:"licenseDeclared"`
	Concluded string     `json:"licenseConcluded"`
	Copyright string     `json:"copyrightText"`
	Checksums []checksum `json:"checksums,omitempty"`
	Refs      []ref      `json:"externalRefs"`
	Comment   string     `json:"comment,omitempty"`
}

type checksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type ref struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type relationship struct {
	From string `json:"spdxElementId"`
	Type string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

const unsaid = "NOASSERTION"

// describe returns the document of a program with that checksum.
func describe(version, created, sum string, info *buildinfo.BuildInfo) *document {
	d := &document{
		Version: "SPDX-2.3", License: "CC0-1.0", ID: "SPDXRef-DOCUMENT",
		Name:      path.Base(info.Main.Path) + " " + version,
		Namespace: "https://" + info.Main.Path + "/sbom/" + sum,
		Creation:  creation{created, []string{"Organization: " + info.Main.Path, "Tool: tools/sbom"}},
	}
	program := module("SPDXRef-Program", info.Main.Path, version)
	program.Purpose, program.License = "APPLICATION", "Apache-2.0"
	program.Checksums = []checksum{{"SHA256", sum}}
	program.Comment = settings(info)
	d.add("DESCRIBES", d.ID, program)
	d.add("DEPENDS_ON", program.ID, module("SPDXRef-Go", "stdlib", strings.TrimPrefix(info.GoVersion, "go")))
	for i, m := range info.Deps {
		at := m
		if m.Replace != nil {
			at = m.Replace
		}
		p := module(fmt.Sprintf("SPDXRef-Module-%d", i+1), at.Path, at.Version)
		if at.Sum != "" {
			p.Comment = "go.sum " + at.Sum
		}
		d.add("DEPENDS_ON", program.ID, p)
	}
	return d
}

func (d *document) add(how, from string, p pack) {
	d.Packages = append(d.Packages, p)
	d.Relationships = append(d.Relationships, relationship{from, how, p.ID})
}

func module(id, name, version string) pack {
	return pack{
		ID: id, Name: name, Version: cmp.Or(version, unsaid), Purpose: "LIBRARY",
		Download: unsaid, License: unsaid, Concluded: unsaid, Copyright: unsaid,
		Refs: []ref{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + name + "@" + version}},
	}
}

// settings says how the program was built.
func settings(info *buildinfo.BuildInfo) string {
	list := []string{info.GoVersion}
	for _, s := range info.Settings {
		list = append(list, s.Key+"="+s.Value)
	}
	return strings.Join(list, " ")
}
