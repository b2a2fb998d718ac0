package interop

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// calledOnce checks that a file of another program shows one call of a model, with the tokens of
// the broker's log.
func calledOnce(t *testing.T, file, log string) {
	t.Helper()
	line, err := os.ReadFile(log)
	check(t, err)
	var counted, read struct {
		Name, Outcome string
		Input         int64 `json:"input_tokens"`
		Output        int64 `json:"output_tokens"`
	}
	check(t, json.Unmarshal(line, &counted))
	out, notice := command(t, nil, "calls", "-o", "ndjson", "--where", "protocol==openai", file)
	if bytes.Count([]byte(out), []byte("\n")) != 1 {
		t.Fatalf("want one call, and got:\n%s%s", out, notice)
	}
	check(t, json.Unmarshal([]byte(out), &read))
	if read.Name != "mock-1" || read.Outcome != "done" || counted.Input == 0 || read.Input != counted.Input || read.Output != counted.Output {
		t.Errorf("the file shows %s\nand the broker has logged %s", out, line)
	}
}

const streamed = `{"model":"mock-1","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}]}`

// Chromium records a stream of a model as a HAR.
func TestChromiumHAR(t *testing.T) {
	dir := t.TempDir()
	file, log := filepath.Join(dir, "page.har"), filepath.Join(dir, "log.ndjson")
	doors := serve(t, "--no-tap", "--log", log, "--config", configured(t, rehearsed))
	var saw struct{ Text string }
	browse(t, &saw, "har.mjs", "http://"+doors["openai"]+"/v1/chat/completions", streamed, file)
	if !strings.Contains(saw.Text, "[DONE]") {
		t.Fatalf("the page got %q", saw.Text)
	}
	calledOnce(t, file, log)
	again := filepath.Join(dir, "again.pcapng")
	command(t, nil, "convert", file, again)
	calledOnce(t, again, log)
}

// Wireshark's dumpcap records the packets of a stream of a model.
func TestPacketsOfLoopback(t *testing.T) {
	dumpcap, dir := need(t, "dumpcap"), t.TempDir()
	file, log := filepath.Join(dir, "packets.pcapng"), filepath.Join(dir, "log.ndjson")
	doors := serve(t, "--no-tap", "--log", log, "--config", configured(t, rehearsed))
	_, port, err := net.SplitHostPort(doors["openai"])
	check(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	capture := exec.CommandContext(ctx, dumpcap, "-q", "-i", "lo", "-f", "tcp port "+port, "-w", file)
	stderr, err := capture.StderrPipe()
	check(t, err)
	check(t, capture.Start())
	ready := make([]byte, 4096)
	for said := ""; !strings.Contains(said, "File: "); {
		n, err := stderr.Read(ready)
		check(t, err)
		said += string(ready[:n])
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Post("http://"+doors["openai"]+"/v1/chat/completions", "application/json", strings.NewReader(streamed))
	check(t, err)
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || !bytes.Contains(text, []byte("[DONE]")) {
		t.Fatalf("%v, and the client got %q", err, text)
	}
	// dumpcap has written the packets when it shows the end of the connection.
	for out := []byte(nil); len(out) == 0; {
		check(t, ctx.Err())
		out, _ = exec.CommandContext(ctx, need(t, "tshark"), "-r", file, "-Y", "tcp.flags.fin==1 and tcp.srcport=="+port).Output()
	}
	check(t, capture.Process.Signal(os.Interrupt))
	check(t, capture.Wait())
	calledOnce(t, file, log)
}
