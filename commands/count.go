package commands

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/wirectl/wirectl/decode"
	"github.com/wirectl/wirectl/internal/render"
)

// counts is what decode --count prints as NDJSON.
type counts struct {
	Frames int64       `json:"frames"`
	Bytes  int64       `json:"bytes"`
	Kinds  []kindCount `json:"kinds"`
}

type kindCount struct {
	Protocol string `json:"protocol,omitempty"`
	Kind     string `json:"kind"`
	Frames   int64  `json:"frames"`
	Bytes    int64  `json:"bytes"`
}

// printCounts prints how many frames and payload bytes there are of each kind.
func printCounts(w io.Writer, output string, list []decode.Count) error {
	all := counts{Kinds: []kindCount{}}
	for _, c := range list {
		all.Frames += c.Frames
		all.Bytes += c.Bytes
		all.Kinds = append(all.Kinds, kindCount(c))
	}
	if output == "ndjson" {
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		return enc.Encode(all)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "frames\tbytes\t\n%d\t%d\t  all\n", all.Frames, all.Bytes)
	for _, k := range all.Kinds {
		fmt.Fprintf(t, "%d\t%d\t  %s %s\n", k.Frames, k.Bytes, k.Protocol, render.Safe(k.Kind))
	}
	return t.Flush()
}
