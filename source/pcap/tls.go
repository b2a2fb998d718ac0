package pcap

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/source"
)

// A piece is what tshark decrypted of one packet.
type piece struct {
	stream         int
	client, server string
	dir            frame.Dir
	at             time.Time
	data           []byte
}

const (
	// maxEncrypted bounds the connections that are decrypted: each takes a run of tshark.
	maxEncrypted = 200
	// maxDecrypted bounds their content, in bytes.
	maxDecrypted = 256 << 20
)

// decrypt decrypts the TLS connections in a file by tshark.
func decrypt(f *source.File) ([]piece, error) {
	if f.Path == "" {
		return nil, errors.New("decrypting it takes a file that tshark can read: save it first")
	}
	hellos, err := tshark(f, "-Y", "tls.handshake.type==1", "-T", "fields", "-e", "tcp.stream",
		"-e", "ip.src", "-e", "ipv6.src", "-e", "tcp.srcport", "-e", "ip.dst", "-e", "ipv6.dst", "-e", "tcp.dstport")
	if err != nil {
		return nil, err
	}
	var pieces []piece
	streams, size := map[int]bool{}, 0
	for line := range strings.Lines(string(hellos)) {
		fields := strings.Split(strings.TrimRight(line, "\r\n"), "\t")
		number, err := strconv.Atoi(fields[0])
		if len(fields) != 7 || err != nil || streams[number] {
			continue
		}
		if streams[number] = true; len(streams) > maxEncrypted {
			f.Notice(fmt.Sprintf("only the first %d encrypted connections are read", maxEncrypted))
			break
		}
		first := func(list string) string { list, _, _ = strings.Cut(list, ","); return list }
		client := net.JoinHostPort(first(fields[1]+fields[2]), first(fields[3]))
		server := net.JoinHostPort(first(fields[4]+fields[5]), first(fields[6]))
		text, err := tshark(f, "-q", "-z", "follow,tls,yaml,"+strconv.Itoa(number))
		if err != nil {
			return nil, err
		}
		for _, p := range parseFollowed(text, first(fields[3]), first(fields[6])) {
			p.stream, p.client, p.server = number, client, server
			if size += len(p.data); size > maxDecrypted {
				return nil, fmt.Errorf("its encrypted connections hold more than %d MiB: take some of them out first (tshark -Y tcp.stream==N -w part.pcapng)", maxDecrypted>>20)
			}
			pieces = append(pieces, p)
		}
	}
	if len(streams) > 0 && len(pieces) == 0 {
		return nil, errors.New("the keys are not those of its encrypted connections: nothing could be decrypted")
	}
	slices.SortStableFunc(pieces, func(a, b piece) int { return a.at.Compare(b.at) })
	return pieces, nil
}

// tsharkPatience is how long tshark may take for a file.
const tsharkPatience = 10 * time.Minute

// tshark runs tshark for a file, and returns its output.
func tshark(f *source.File, args ...string) ([]byte, error) {
	path, err := exec.LookPath("tshark")
	if err != nil {
		return nil, errors.New("decrypting it takes tshark, which is not on PATH: install Wireshark")
	}
	full := []string{"-r", f.Path}
	if f.Keylog != "" {
		full = append(full, "-o", "tls.keylog_file:"+f.Keylog)
	}
	var out, problems bytes.Buffer
	ctx, cancel := context.WithTimeout(context.Background(), tsharkPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, append(full, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		last := strings.TrimSpace(problems.String())
		return nil, fmt.Errorf("tshark cannot decrypt it: %w: %.300s", err, last[strings.LastIndexByte(last, '\n')+1:])
	}
	return out.Bytes(), nil
}

// parseFollowed reads the pieces of a stream that tshark wrote as YAML. It leaves out the address of one
// end, and does not say which end is the client.
func parseFollowed(text []byte, clientPort, serverPort string) (pieces []piece) {
	var ports [2]string
	peer, sender, seenPackets := 0, 0, false
	var senders []int
	var encoded strings.Builder
	finish := func() {
		if n := len(pieces); n > 0 && encoded.Len() > 0 {
			pieces[n-1].data, _ = base64.StdEncoding.DecodeString(encoded.String())
		}
		encoded.Reset()
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		key, value, isMember := strings.Cut(strings.TrimPrefix(line, "- "), ":")
		value = strings.TrimSpace(value)
		number, _ := strconv.Atoi(value)
		switch {
		case line == "packets:":
			seenPackets = true
		case !isMember && seenPackets:
			encoded.WriteString(line)
		case !seenPackets && key == "peer":
			peer = min(max(number, 0), 1)
		case !seenPackets && key == "port":
			ports[peer] = value
		case key == "packet":
			finish()
			pieces, senders = append(pieces, piece{}), append(senders, 0)
		case key == "peer" && len(pieces) > 0:
			sender = number
			senders[len(senders)-1] = sender
		case key == "timestamp" && len(pieces) > 0:
			whole, part, _ := strings.Cut(value, ".")
			seconds, _ := strconv.ParseInt(whole, 10, 64)
			nanos, _ := strconv.ParseInt((part + "000000000")[:9], 10, 64)
			pieces[len(pieces)-1].at = time.Unix(seconds, nanos).UTC()
		}
	}
	finish()
	client := 0
	switch {
	case ports[0] == serverPort && ports[0] != clientPort, ports[1] == clientPort && ports[1] != serverPort:
		client = 1
	case ports[0] != clientPort && ports[1] != serverPort && len(senders) > 0:
		client = senders[0]
	}
	for i := range pieces {
		pieces[i].dir = frame.U2C
		if senders[i] == client {
			pieces[i].dir = frame.C2U
		}
	}
	return pieces
}
