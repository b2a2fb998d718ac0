package hub

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/wirectl/wirectl/internal/render"
	"github.com/wirectl/wirectl/protocol/jsonscan"
)

// Select returns the sessions, newest first, in which each word stands in what is
// known of them: id, host, kind, name, protocol or unit.
func Select(list []Info, words []string) []Info {
	found := slices.DeleteFunc(slices.Clone(list), func(i Info) bool {
		about := strings.ToLower(strings.Join([]string{i.ID, i.Host, i.Kind, i.Name, i.Protocol, i.Controller, i.Unit, i.state()}, "\n"))
		return slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(about, strings.ToLower(word)) })
	})
	slices.SortFunc(found, func(a, b Info) int {
		return cmp.Or(b.Started.Compare(a.Started), strings.Compare(a.ID, b.ID))
	})
	return found
}

// WriteSessions lists the sessions at the hub that the environment names, as text or ndjson.
func WriteSessions(ctx context.Context, getenv func(string) string, words []string, output string, to io.Writer) error {
	if output != "text" && output != "ndjson" {
		return fmt.Errorf("invalid --output %q: want text or ndjson", output)
	}
	conn, err := DialFrom(getenv, "")
	if err != nil {
		return err
	}
	defer conn.Close()
	list, err := conn.Sessions(ctx)
	if err != nil {
		return err
	}
	if list = Select(list, words); output == "ndjson" {
		return jsonscan.WriteLines(to, list)
	}
	return writeText(to, list)
}

// state is how it goes with a session, in a word.
func (i *Info) state() string {
	switch {
	case i.Live:
		return "live"
	case i.Cut:
		return "cut"
	case i.Ended.IsZero():
		return "away" // nobody sends it, and it may come back
	}
	return "ended"
}

// writeText writes a table of sessions.
func writeText(to io.Writer, list []Info) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tWHEN\tHOST\tKIND\tNAME\tSTATE\tFRAMES\tLOST")
	for _, i := range list {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\n", render.Safe(i.ID), i.Started.Local().Format(time.DateTime),
			render.Safe(i.Host), render.Safe(i.Kind), render.Safe(i.Name), i.state(), i.Frames, i.Lost)
	}
	return w.Flush()
}
