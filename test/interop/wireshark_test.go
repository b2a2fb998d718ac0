package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Without any plugin, Wireshark shows the same as decode. The number of frames with a
// direction and their times are equal, and each frame has its protocol, kind and id.
func TestWireshark(t *testing.T) {
	for _, fixture := range []string{"mcp-everything", "lsp-gopls", "latis-session", "rlm-single"} {
		t.Run(fixture, func(t *testing.T) {
			capture := filepath.Join(t.TempDir(), "session.pcapng")
			command(t, nil, "convert", "-q", "--keep-secrets", "fixture:"+fixture, capture)
			shown := tshark(t, capture, "frame.time_epoch", "frame.p2p_dir", "_ws.col.Protocol", "frame.comment")
			records := recordsOf(t, capture)
			if len(shown) != len(records) {
				t.Fatalf("Wireshark shows %d frames, and there are %d", len(shown), len(records))
			}
			for i, r := range records {
				shown[i][2], _, _ = strings.Cut(shown[i][2], "/") // only the dissector of the payload
				if want := r.columns(); !slices.Equal(shown[i], want) {
					t.Errorf("frame %d is shown as %q, want %q", i+1, shown[i], want)
				}
			}
		})
	}
}

// Wireshark dissects JSON payloads.
func TestWiresharkTree(t *testing.T) {
	capture := filepath.Join(t.TempDir(), "session.pcapng.zst")
	command(t, nil, "convert", "-q", "fixture:mcp-cancel", capture)
	plain := filepath.Join(t.TempDir(), "session.pcapng")
	command(t, nil, "convert", capture, plain)
	first := tshark(t, plain, "exported_pdu.prot_name", "json.path_with_value")
	if len(first) == 0 || first[0][0] != "json" || !strings.Contains(first[0][1], "/method:initialize") {
		t.Errorf("the first frame is shown as %q", first)
	}
}

// With our script, Wireshark names the messages and fields of Latis.
func TestWiresharkNamesMessages(t *testing.T) {
	capture := filepath.Join(t.TempDir(), "session.pcapng")
	command(t, nil, "convert", "-q", "fixture:latis-cancel", capture)
	protos, err := filepath.Abs("../../protocol/schema")
	check(t, err)
	shown, err := exec.CommandContext(t.Context(), need(t, "tshark"), "-r", capture, "-T", "fields",
		"-X", "lua_script:../../contrib/wireshark/wirectl.lua", "-o", `uat:protobuf_search_paths:"`+protos+`","TRUE"`,
		"-Y", `protobuf.message.name == "latis.v1.PromptCancel"`, "-e", "protobuf.message.name", "-e", "protobuf.field.value.string").Output()
	check(t, err)
	if want := "latis.v1.ConnectRequest,latis.v1.PromptCancel\t3,1\n"; string(shown) != want {
		t.Errorf("the cancel is shown as %q, want %q", shown, want)
	}
}

// tshark returns these fields of the frames of a capture that have a direction. The others
// are events, which Wireshark also numbers as frames.
func tshark(t *testing.T, capture string, fields ...string) [][]string {
	t.Helper()
	args := []string{"-r", capture, "-Y", "frame.p2p_dir", "-T", "fields", "-E", "separator=/t"}
	for _, f := range fields {
		args = append(args, "-e", f)
	}
	cmd := exec.CommandContext(t.Context(), need(t, "tshark"), args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, &stderr)
	}
	var rows [][]string
	for line := range strings.Lines(string(out)) {
		rows = append(rows, strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
	}
	return rows
}

// A shownFrame has the members of decode's output that Wireshark also shows.
type shownFrame struct {
	Time                time.Time
	Dir, Protocol, Kind string
	ID, Ref             json.RawMessage
}

// columns returns Wireshark's columns for the frame.
func (r *shownFrame) columns() []string {
	at := fmt.Sprintf("%d.%09d", r.Time.Unix(), r.Time.Nanosecond())
	dir := map[string]string{"c2u": "0", "u2c": "1"}[r.Dir]
	return []string{at, dir, r.Protocol, r.Kind + r.names()}
}

// names returns the ids of the frame. Ids of protobuf messages have quotes only in JSON.
func (r *shownFrame) names() string {
	var names string
	if len(r.ID)+len(r.Ref) > 0 {
		names = " " + string(r.ID)
	}
	if len(r.Ref) > 0 {
		names += "→" + string(r.Ref)
	}
	if r.Protocol == "latis" {
		names = strings.ReplaceAll(names, `"`, "")
	}
	return names
}

func recordsOf(t *testing.T, capture string) []shownFrame {
	t.Helper()
	ndjson, _ := command(t, nil, "decode", "-q", "-o", "ndjson", capture)
	var records []shownFrame
	for line := range bytes.Lines(ndjson) {
		var r shownFrame
		check(t, json.Unmarshal(line, &r))
		records = append(records, r)
	}
	if len(records) == 0 {
		t.Fatal("decode shows no frame")
	}
	return records
}
