package spec

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/capture/history"
	"github.com/wirectl/wirectl/decode/source"
	"github.com/wirectl/wirectl/internal/jsonscan"
	"github.com/wirectl/wirectl/session"
)

// Record writes a spec that a session meets.
func (r *Reader) Record(ctx context.Context, name string, to io.Writer) error {
	t, err := r.Read(ctx, name)
	if err != nil {
		return err
	}
	text, err := t.record(name)
	if err == nil {
		_, err = io.WriteString(to, text)
	}
	return err
}

// record returns a spec that a session meets. A run that is named by its id is one to repeat: its command is run afresh. A
// file or a folder is itself what is judged.
func (t *Trace) record(name string) (string, error) {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	isAgain := t.run != nil && source.IsRun(name)
	switch {
	case isAgain && (t.run.Level == history.Metadata || slices.ContainsFunc(t.run.Command, func(word string) bool { return strings.Contains(word, capture.Redacted) })):
		return "", fmt.Errorf("%s: the record has not all of the command: write a spec by hand, with run: [COMMAND, …]", name)
	case isAgain:
		if here, err := os.Getwd(); err == nil && t.run.Project != "" && t.run.Project != here {
			line("run: %s\nfolder: %s", flow(t.run.Command), word(filepath.ToSlash(t.run.Project)))
		} else {
			line("run: %s # in this file's folder", flow(t.run.Command))
		}
	default:
		line("session: %s", word(filepath.ToSlash(name)))
	}
	var names []string
	for _, tool := range t.Tools {
		names = append(names, tool.full())
	}
	switch { // of tools
	case t.unseen != "":
	case len(names) == 0:
		line("tools: none")
	case len(names) > maxRecorded:
		slices.Sort(names)
		line("tools:\n  called: %s", flow(slices.Compact(names)))
	default:
		line("tools:\n  in_order: %s", flow(names))
	}
	if outcome, _ := t.outcome(); outcome != session.Open {
		line("outcome: %s", outcome)
	}
	if t.run != nil && t.run.Status != 0 {
		line("status: %d", t.run.Status)
	}
	var found []string
	for _, f := range t.findings {
		if f.Severity != session.Note {
			found = append(found, f.Name)
		}
	}
	for name, n := range t.unkept {
		if n > 0 {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	if found = slices.Compact(found); len(found) == 0 {
		line("findings: none")
	} else {
		line("findings: %s # no others", flow(found))
	}
	if n := t.usage.Input + t.usage.Output; t.counted {
		line("tokens: {at_most: %d} # there were %d", int64(slack(float64(n))), n)
	}
	if cost := float64(t.usage.Cost) / 1e6; t.counted && t.unpriced == "" {
		line("cost: {at_most: %s} # in dollars; it was %s", strconv.FormatFloat(slack(cost), 'f', -1, 64), strconv.FormatFloat(cost, 'f', -1, 64))
	}
	if t.took >= 0 {
		line("time: {at_most: %v} # it took %v", max(2*t.took, 10*time.Second).Round(time.Second), t.took.Round(time.Millisecond))
	}
	return b.String(), nil
}

// maxRecorded bounds the tools that a spec expects in their order.
const maxRecorded = 40

// slack returns half as much again, rounded up to two digits.
func slack(n float64) float64 {
	if n <= 0 {
		return 0
	}
	digits := int(math.Floor(math.Log10(n * 1.5)))
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(math.Ceil(n*1.5/math.Pow10(digits-1)), 'f', 0, 64)+"e"+strconv.Itoa(digits-1), 64)
	return rounded
}

// word writes a text in YAML.
func word(text string) string {
	isPlain := text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_./:+=@-", r))
	})
	first := strings.IndexAny(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ/_")
	if dashes := len(text) - len(strings.TrimLeft(text, "-")); isPlain && first == min(dashes, 2) && !strings.HasSuffix(text, ":") && !slices.Contains([]string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}, strings.ToLower(text)) {
		return text
	}
	return string(jsonscan.AppendQuote(nil, []byte(text)))
}

func flow(words []string) string {
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = word(w)
	}
	return "[" + strings.Join(list, ", ") + "]"
}
