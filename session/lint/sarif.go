package lint

import (
	"io"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/session"
)

// The objects of SARIF 2.1.0, with the members in use. Members are named as in the
// specification.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool    sarifTool     `json:"tool"`
		Results []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name           string      `json:"name"`
		InformationURI string      `json:"informationUri"`
		Rules          []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID               string      `json:"id"`
		ShortDescription sarifText   `json:"shortDescription"`
		Help             sarifText   `json:"help"`
		Configuration    sarifConfig `json:"defaultConfiguration"`
	}
	sarifConfig struct {
		Level string `json:"level"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		RuleID     string          `json:"ruleId"`
		RuleIndex  int             `json:"ruleIndex"`
		Level      string          `json:"level"`
		Message    sarifText       `json:"message"`
		Locations  []sarifLocation `json:"locations"`
		Properties sarifProperties `json:"properties"`
	}
	sarifLocation struct {
		Physical sarifPhysical  `json:"physicalLocation"`
		Logical  []sarifLogical `json:"logicalLocations,omitempty"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifLogical struct {
		Name string `json:"name"`
		Kind string `json:"kind"`
	}
	sarifProperties struct {
		Frames []int64 `json:"frames"`
		Conn   int     `json:"conn,omitempty"`
		Rule   string  `json:"rule"`
	}
)

const (
	sarifSchema  = "https://json.schemastore.org/sarif-2.1.0.json"
	sarifVersion = "2.1.0"
	projectURI   = "https://github.com/wirectl/wirectl"
)

// SARIF writes a report as a SARIF 2.1.0 log with one run. The location of a result is the
// session's file, and in it the frames concerned. These are logical locations, because frames
// have numbers and no lines.
func (r *Report) SARIF(w io.Writer) error {
	run := sarifRun{
		Tool:    sarifTool{sarifDriver{Name: "wirectl", InformationURI: projectURI, Rules: sarifRules()}},
		Results: []sarifResult{},
	}
	for _, s := range r.Sessions {
		for _, f := range s.Findings {
			run.Results = append(run.Results, resultOf(s.Name, &f))
		}
	}
	enc := jsonscan.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(sarifLog{sarifSchema, sarifVersion, []sarifRun{run}})
}

// sarifRules returns the table of all rules.
func sarifRules() (rules []sarifRule) {
	for _, r := range Rules {
		rules = append(rules, sarifRule{
			ID:               r.Name,
			ShortDescription: sarifText{r.Rule},
			Help:             sarifText{r.Do},
			Configuration:    sarifConfig{r.Severity.String()},
		})
	}
	return rules
}

func resultOf(name string, f *session.Finding) sarifResult {
	at := sarifLocation{Physical: sarifPhysical{sarifArtifact{uriOf(name)}}}
	for _, n := range f.Frames {
		at.Logical = append(at.Logical, sarifLogical{"frame " + strconv.FormatInt(n, 10), "frame"})
	}
	return sarifResult{
		RuleID: f.Name, RuleIndex: ruleIndex(f.Name), Level: f.Severity.String(),
		Message:    sarifText{render.Safe(f.Message)},
		Locations:  []sarifLocation{at},
		Properties: sarifProperties{f.Frames, f.Conn, f.Rule},
	}
}

// uriOf returns the reference to a session's file. A name that already is a URI, such as
// fixture:NAME, is unchanged.
func uriOf(name string) string {
	if strings.HasPrefix(name, "fixture:") {
		return name
	}
	return (&url.URL{Path: filepath.ToSlash(name)}).String()
}
