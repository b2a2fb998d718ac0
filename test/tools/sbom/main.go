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
	"maps"
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

// An object is one of JSON, by the names that SPDX gives its members.
type object = map[string]any

// A document is what is known of a program so far.
type document struct{ packages, relationships []object }

const unsaid = "NOASSERTION"

// describe returns the document of a program with that checksum.
func describe(version, created, sum string, info *buildinfo.BuildInfo) object {
	var d document
	d.add("DESCRIBES", "SPDXRef-DOCUMENT", "SPDXRef-Program", info.Main.Path, version, object{
		"primaryPackagePurpose": "APPLICATION",
		"licenseDeclared":       "Apache-2.0",
		"checksums":             []object{{"algorithm": "SHA256", "checksumValue": sum}},
		"comment":               settings(info),
	})
	d.add("DEPENDS_ON", "SPDXRef-Program", "SPDXRef-Go", "stdlib", strings.TrimPrefix(info.GoVersion, "go"), nil)
	for i, m := range info.Deps {
		m = cmp.Or(m.Replace, m)
		more := object{}
		if m.Sum != "" {
			more["comment"] = "go.sum " + m.Sum
		}
		d.add("DEPENDS_ON", "SPDXRef-Program", fmt.Sprintf("SPDXRef-Module-%d", i+1), m.Path, m.Version, more)
	}
	return object{
		"spdxVersion":       "SPDX-2.3",
		"dataLicense":       "CC0-1.0",
		"SPDXID":            "SPDXRef-DOCUMENT",
		"name":              path.Base(info.Main.Path) + " " + version,
		"documentNamespace": "https://" + info.Main.Path + "/sbom/" + sum,
		"creationInfo":      object{"created": created, "creators": []string{"Organization: " + info.Main.Path, "Tool: tools/sbom"}},
		"packages":          d.packages,
		"relationships":     d.relationships,
	}
}

// add adds a package, of which more is said than of most, and how it belongs to another.
func (d *document) add(how, from, id, name, version string, more object) {
	p := object{
		"SPDXID": id, "name": name, "versionInfo": cmp.Or(version, unsaid), "primaryPackagePurpose": "LIBRARY",
		"downloadLocation": unsaid, "filesAnalyzed": false, "licenseDeclared": unsaid, "licenseConcluded": unsaid, "copyrightText": unsaid,
		"externalRefs": []object{{
			"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": "pkg:golang/" + name + "@" + version,
		}},
	}
	maps.Copy(p, more)
	d.packages = append(d.packages, p)
	d.relationships = append(d.relationships, object{"spdxElementId": from, "relationshipType": how, "relatedSpdxElement": id})
}

// settings says how the program was built.
func settings(info *buildinfo.BuildInfo) string {
	list := []string{info.GoVersion}
	for _, s := range info.Settings {
		list = append(list, s.Key+"="+s.Value)
	}
	return strings.Join(list, " ")
}
