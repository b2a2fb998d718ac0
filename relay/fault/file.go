package fault

import (
	"fmt"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/wirectl/wirectl/internal/yamlfile"
)

// file is a plan as it is written in YAML.
type file struct {
	Seed  uint64 `yaml:"seed"`
	Rules []rule `yaml:"rules"`
}

// rule is a rule in YAML: the text that Parse reads.
type rule struct{ Rule }

// UnmarshalYAML reads the text. Its error says where in the file that is.
func (r *rule) UnmarshalYAML(n ast.Node) error {
	at := n.GetToken().Position
	var text string
	if err := yaml.NodeToValue(n, &text); err != nil || n.Type() != ast.StringType {
		return fmt.Errorf("[%d:%d] a rule is a string, such as drop nth 2", at.Line, at.Column)
	}
	parsed, err := Parse(text)
	if err != nil {
		return fmt.Errorf("[%d:%d] %w", at.Line, at.Column, err)
	}
	r.Rule = parsed
	return nil
}

// ParseFile reads a plan in YAML: a seed, and a list of rules as [Parse] reads
// them. The error says in which line.
func ParseFile(data []byte) (*Plan, error) {
	if err := yamlfile.Check(data); err != nil {
		return nil, err
	}
	var f file
	if err := yaml.UnmarshalWithOptions(data, &f, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("%s", yaml.FormatError(err, false, false))
	}
	p := &Plan{Seed: f.Seed}
	for _, r := range f.Rules {
		p.Rules = append(p.Rules, r.Rule)
	}
	return p, nil
}
