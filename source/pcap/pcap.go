// Package pcap reads captures of packets, pcap and pcapng, as the connections of TCP in them. TLS is
// decrypted by tshark, with the keys of a key log or of the capture itself.
package pcap

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/ip4defrag"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"github.com/gopacket/gopacket/reassembly"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/source"
)

// Open returns a reader of packets.
func Open(f *source.File) (source.Reader, error) {
	r := &reader{secrets: map[string]bool{}}
	in := bufio.NewReaderSize(f.SoFar(), headSize)
	head, _ := in.Peek(headSize)
	var err error
	if bytes.HasPrefix(head, []byte("\x0a\x0d\x0d\x0a")) {
		r.packets, err = pcapgo.NewNgReader(in, pcapgo.NgReaderOptions{WantMixedLinkType: true, SkipUnknownVersion: true})
	} else {
		var plain *pcapgo.Reader
		if plain, err = pcapgo.NewReader(in); err == nil {
			r.packets, r.link = plain, plain.LinkType()
		}
	}
	if err != nil {
		return nil, cut(err)
	}
	if r.embedded = hasSecrets(head); f.Keylog != "" || r.embedded {
		if r.decrypted, err = decrypt(f); err != nil {
			return nil, err
		}
		r.canDecrypt = true
	}
	pool := reassembly.NewStreamPool(r)
	r.assembler = reassembly.NewAssembler(pool)
	r.assembler.MaxBufferedPagesPerConnection, r.assembler.MaxBufferedPagesTotal = 4<<10, 8<<10 // of 1900 bytes
	for len(r.queue) == 0 && r.failed == nil {
		r.readPacket()
	}
	if len(r.queue) == 0 && r.failed != io.EOF {
		return nil, r.failed
	}
	return r, nil
}

const (
	headSize = 64 << 10
	// patience is how long bytes wait for those before them, by the clock of the capture.
	patience = 10 * time.Second
	// flushEach is after how many packets bytes that wait for too long are looked for.
	flushEach = 1 << 10
	// maxHead is how many bytes of a connection are held until its kind is known, and maxHeld those of
	// all together. The first pieces are examined one by one; later, it takes twice as many bytes.
	maxHead    = 16 << 10
	maxHeld    = 8 << 20
	firstPiece = 4
	// maxStreams bounds the connections that are followed at once.
	maxStreams = 1 << 14
	// maxFragments is after how many fragments those that wait for others are forgotten.
	maxFragments = 1 << 12
)

func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return source.ErrCut
	}
	return err
}

// A reader yields the bytes of the connections in a capture.
type reader struct {
	packets interface {
		ReadPacketData() ([]byte, gopacket.CaptureInfo, error)
	}
	link         layers.LinkType // of all packets, unless each tells its own
	assembler    *reassembly.Assembler
	about        source.About
	now          time.Time
	count        int // packets
	streams      int // that are open
	serials      int // all streams
	flushing     bool
	flushed      []*stream // that the current flush concerns
	conns        int       // that were opened
	held         int       // bytes of connections of unknown kind
	queue        []source.Record
	decrypted    []piece     // by time
	numbers      map[int]int // connections, by streams of tshark
	embedded     bool
	canDecrypt   bool
	secrets      map[string]bool // servers whose connections are encrypted
	unknown      int             // connections of unknown content
	foreign      int             // packets of links that are not read
	shortest     int             // bytes that are left of a packet; 0 if none was cut
	fragments    int             // of IPv4
	defragmenter *ip4defrag.IPv4Defragmenter
	over         bool // there are no more packets
	failed       error
}

// About describes the capture.
func (r *reader) About() source.About { return r.about }

// Next reads the next record; see [source.Reader].
func (r *reader) Next(rec *source.Record) error {
	for len(r.queue) == 0 {
		if r.failed != nil {
			return r.failed
		}
		r.readPacket()
	}
	*rec = r.queue[0]
	r.queue[0] = source.Record{}
	r.queue = r.queue[1:]
	return nil
}

// readPacket reads the next packet, and queues the records that it completes.
func (r *reader) readPacket() {
	data, info, err := r.packets.ReadPacketData()
	if err != nil {
		r.end(err)
		return
	}
	if n := info.CaptureLength; n < info.Length && (r.shortest == 0 || n < r.shortest) {
		r.shortest = n
	}
	if info.Timestamp.After(r.now) { // packets of several interfaces need not be in order
		r.now = info.Timestamp.UTC()
	}
	r.mergeDecrypted(r.now)
	if r.count++; r.count%flushEach == 0 {
		r.flush(func() { r.assembler.FlushWithOptions(reassembly.FlushOptions{T: r.now.Add(-patience)}) })
	}
	link := r.link
	if len(info.AncillaryData) > 0 {
		if own, ok := info.AncillaryData[0].(layers.LinkType); ok {
			link = own
		}
	}
	decoder := decoderOf(link)
	if decoder == nil {
		r.foreign++
		return
	}
	packet := gopacket.NewPacket(data, decoder, gopacket.DecodeOptions{Lazy: true, NoCopy: true})
	tcp, _ := packet.TransportLayer().(*layers.TCP)
	if ip, ok := packet.NetworkLayer().(*layers.IPv4); ok && (ip.Flags&layers.IPv4MoreFragments != 0 || ip.FragOffset != 0) {
		tcp = r.joinFragment(ip)
	}
	if network := packet.NetworkLayer(); tcp != nil && network != nil {
		r.assembler.AssembleWithContext(network.NetworkFlow(), tcp, &packetInfo{info})
	}
}

// joinFragment returns the segment that a fragment of a packet completes; nil if it completes none.
func (r *reader) joinFragment(ip *layers.IPv4) *layers.TCP {
	if ip.Protocol != layers.IPProtocolTCP {
		return nil
	}
	if r.fragments%maxFragments == 0 {
		r.defragmenter = ip4defrag.NewIPv4Defragmenter()
	}
	r.fragments++
	whole, err := r.defragmenter.DefragIPv4WithTimestamp(ip, r.now)
	if err != nil || whole == nil {
		return nil
	}
	tcp, _ := gopacket.NewPacket(whole.Payload, layers.LayerTypeTCP, gopacket.NoCopy).TransportLayer().(*layers.TCP)
	return tcp
}

type packetInfo struct{ info gopacket.CaptureInfo }

// GetCaptureInfo is for the assembler.
func (c *packetInfo) GetCaptureInfo() gopacket.CaptureInfo { return c.info }

// decoderOf returns how packets of a link are read; nil if they are not.
func decoderOf(link layers.LinkType) gopacket.Decoder {
	const rawOfBSD, rawOfOpenBSD = 12, 14
	switch link {
	case layers.LinkTypeEthernet, layers.LinkTypeNull, layers.LinkTypeLoop, layers.LinkTypeLinuxSLL, layers.LinkTypeLinuxSLL2, layers.LinkTypeRaw, layers.LinkTypePPP:
		return link
	case layers.LinkTypeIPv4:
		return layers.LayerTypeIPv4
	case layers.LinkTypeIPv6:
		return layers.LayerTypeIPv6
	case rawOfBSD, rawOfOpenBSD:
		return layers.LinkTypeRaw
	}
	return nil
}

// end ends reading: what waits for missing bytes comes now.
func (r *reader) end(err error) {
	r.over = true
	r.flush(func() { r.assembler.FlushAll() })
	r.mergeDecrypted(time.Time{})
	switch {
	case err != io.EOF:
		r.failed = cut(err)
	case r.conns > 0:
		r.failed = io.EOF
	case len(r.secrets) > 0:
		r.failed = errEncrypted
	case r.foreign == r.count && r.count > 0:
		r.failed = errors.New("its packets are of a kind of link that is not read: want Ethernet, loopback, any or raw IP")
	case r.unknown > 0:
		r.failed = fmt.Errorf("none of its %d connections holds a known protocol", r.unknown)
	default:
		r.failed = errors.New("it has no connection of TCP with data")
	}
	if r.conns > 0 && len(r.secrets) > 0 && !r.canDecrypt {
		r.note("there are encrypted connections, too, which are left out: give the keys of the client with --keylog FILE")
	}
	if r.conns > 0 && r.unknown > 0 {
		r.note(fmt.Sprintf("connections without a known protocol are left out: %d", r.unknown))
	}
}

var errEncrypted = errors.New("its connections are encrypted: have the client write its keys (SSLKEYLOGFILE=keys.log), and give them with --keylog keys.log")

func (r *reader) note(text string) {
	r.queue = append(r.queue, source.Record{Kind: source.Note, Time: r.now, Data: []byte(text)})
}

// flush has the assembler pass on what waits for missing bytes, which it does in any order, and queues
// that in the order of the connections.
func (r *reader) flush(assemble func()) {
	r.flushing = true
	assemble()
	r.flushing = false
	slices.SortFunc(r.flushed, func(a, b *stream) int { return a.serial - b.serial })
	for _, s := range r.flushed {
		for _, step := range s.flushed {
			step()
		}
		s.flushed = nil
	}
	r.flushed = nil
}

// later does a step of a connection, after flushing.
func (s *stream) later(step func()) {
	if !s.flushing {
		step()
		return
	}
	if s.flushed == nil {
		s.reader.flushed = append(s.reader.flushed, s)
	}
	s.flushed = append(s.flushed, step)
}

// New is for the assembler.
func (r *reader) New(network, transport gopacket.Flow, tcp *layers.TCP, _ reassembly.AssemblerContext) reassembly.Stream {
	s := &stream{reader: r, serial: r.serials, ignored: r.streams >= maxStreams}
	r.streams++
	r.serials++
	for i, end := range []gopacket.Endpoint{network.Src(), network.Dst()} {
		port := []layers.TCPPort{tcp.SrcPort, tcp.DstPort}[i]
		s.ports[i], s.hosts[i] = int(port), net.JoinHostPort(end.String(), fmt.Sprint(int(port)))
	}
	switch {
	case tcp.SYN:
		s.sure, s.reverse = true, tcp.ACK
	default:
		s.reverse = s.ports[0] < s.ports[1] // servers have low ports
	}
	return s
}

// A stream is a connection of TCP.
type stream struct {
	*reader
	ports    [2]int // of the sender of the first packet, and of the other end
	hosts    [2]string
	reverse  bool // the sender of the first packet is the server
	sure     bool
	ignored  bool
	serial   int
	flushed  []func() // what the current flush brings
	number   int      // 0 until its kind is known
	heads    [2][]byte
	examined int // bytes of the heads
	waiting  []source.Record
	lost     bool
	ended    [2]bool
	reset    bool // both directions end at once
}

// Accept is for the assembler: a connection whose beginning is not in the capture begins at any packet.
func (s *stream) Accept(tcp *layers.TCP, _ gopacket.CaptureInfo, _ reassembly.TCPFlowDirection, next reassembly.Sequence, start *bool, _ reassembly.AssemblerContext) bool {
	if next < 0 && !tcp.SYN {
		*start = true
	}
	s.reset = s.reset || tcp.RST
	return true
}

// ReassembledSG is for the assembler: the next bytes of a direction.
func (s *stream) ReassembledSG(sg reassembly.ScatterGather, _ reassembly.AssemblerContext) {
	side, _, end, skipped := sg.Info()
	sender := 0
	if side == reassembly.TCPDirServerToClient {
		sender = 1
	}
	var data []byte
	if n, _ := sg.Lengths(); n > 0 {
		data = bytes.Clone(sg.Fetch(n))
	}
	s.later(func() {
		if skipped > 0 && !s.lost {
			s.lost = true
			s.takeBytes(source.Lost, sender, s.reasonOfGap())
		}
		if len(data) > 0 {
			s.takeBytes(source.Bytes, sender, data)
		}
		if end {
			s.takeBytes(source.Ended, sender, nil)
			if s.reset {
				s.takeBytes(source.Ended, 1-sender, nil)
			}
		}
	})
}

// reasonOfGap says why bytes are missing; nil if that is unknown.
func (s *stream) reasonOfGap() []byte {
	if s.shortest == 0 {
		return nil
	}
	return fmt.Appendf(nil, "bytes of %s are missing, because packets were cut to %d bytes when they were captured (tcpdump -s 0 keeps all): the rest of the connection is not read",
		s.hosts[1], s.shortest)
}

// ReassemblyComplete is for the assembler.
func (s *stream) ReassemblyComplete(reassembly.AssemblerContext) bool {
	s.streams--
	s.later(func() {
		if s.decide(true); s.over { // the connection goes on
			return
		}
		for sender := range s.ended {
			s.takeBytes(source.Ended, sender, nil)
		}
	})
	return true
}

// takeBytes queues a record, or holds it until the kind of the connection is known.
func (s *stream) takeBytes(kind source.Kind, sender int, data []byte) {
	if s.ignored || s.ended[sender] || s.lost && kind == source.Bytes {
		return
	}
	s.ended[sender] = kind == source.Ended
	rec := source.Record{Kind: kind, Conn: sender, Time: s.now, Data: data}
	if s.number > 0 {
		s.queue = append(s.queue, s.placed(rec))
		return
	}
	s.waiting = append(s.waiting, rec)
	s.reader.held += len(data)
	s.heads[sender] = append(s.heads[sender], data...)
	now := len(s.heads[sender]) > maxHead || s.reader.held > maxHeld || s.ended[0] && s.ended[1]
	if size := len(s.heads[0]) + len(s.heads[1]); now || len(s.waiting) <= firstPiece || size >= 2*s.examined {
		s.examined = size
		s.decide(now)
	}
}

// placed returns a record, whose Conn is the sender, with its connection and direction.
func (s *stream) placed(rec source.Record) source.Record {
	rec.Dir = frame.C2U
	if (rec.Conn == 1) != s.reverse {
		rec.Dir = frame.U2C
	}
	rec.Conn = s.number
	return rec
}

// decide finds out what the connection is by the first bytes of either side.
func (s *stream) decide(now bool) {
	if s.ignored || s.number > 0 || len(s.heads[0])+len(s.heads[1]) == 0 {
		return
	}
	known, more := false, false
	for sender, head := range s.heads {
		if len(head) == 0 {
			continue
		}
		if len(head) >= 3 && 0x14 <= head[0] && head[0] <= 0x17 && head[1] == 3 { // a record of TLS
			server := s.hosts[1]
			if s.reverse {
				server = s.hosts[0]
			}
			if len(s.secrets) < maxStreams {
				s.secrets[server] = true
			}
			s.drop()
			return
		}
		if g := carrier.Detect(head, now); g.More {
			more = true
		} else if g.Kind != carrier.Plain {
			known = true
			if g.Dir != frame.DirUnknown && !s.sure {
				s.reverse = (sender == 1) == (g.Dir == frame.C2U)
			}
		} else if framed := (all.Guess{}); !framed.Detect(head, now) {
			more = true
		} else if framed.Framing != nil && (framed.Framing != frame.Line || jsonLine.Match(head)) { // not any text
			known = true
		}
	}
	switch {
	case known:
		s.conns++
		s.number = s.conns
		client, server := s.hosts[0], s.hosts[1]
		if s.reverse {
			client, server = server, client
		}
		if s.about.Unit == "" {
			s.about.Unit, s.about.Created = server, s.waiting[0].Time
		}
		opened := source.Record{Kind: source.Opened, Conn: s.number, Time: s.waiting[0].Time, Data: []byte(client + " → " + server)}
		s.queue = append(s.queue, opened)
		for _, rec := range s.waiting {
			s.queue = append(s.queue, s.placed(rec))
		}
		s.forget()
	case now && !more:
		s.unknown++
		s.drop()
	}
}

// jsonLine matches text with a line that begins as JSON.
var jsonLine = regexp.MustCompile(`(?m)^\s*[{\[]`)

func (s *stream) drop() {
	s.ignored = true
	s.forget()
}

func (s *stream) forget() {
	s.reader.held -= len(s.heads[0]) + len(s.heads[1])
	s.waiting, s.heads = nil, [2][]byte{}
}

// hasSecrets reports whether a pcapng has keys of TLS among its first blocks.
func hasSecrets(head []byte) bool {
	const decryptionSecrets = 10
	if len(head) < 12 || !bytes.HasPrefix(head, []byte("\x0a\x0d\x0d\x0a")) {
		return false
	}
	order := binary.ByteOrder(binary.LittleEndian)
	if order.Uint32(head[8:]) != 0x1A2B3C4D {
		order = binary.BigEndian
	}
	for len(head) >= 12 {
		kind, size := order.Uint32(head), order.Uint32(head[4:])
		if kind == decryptionSecrets {
			return true
		}
		if size < 12 || uint64(size) > uint64(len(head)) {
			return false
		}
		head = head[size:]
	}
	return false
}

// mergeDecrypted queues what tshark decrypted up to that time; the zero time is the end.
func (r *reader) mergeDecrypted(until time.Time) {
	for len(r.decrypted) > 0 && (until.IsZero() || !r.decrypted[0].at.After(until)) {
		p := r.decrypted[0]
		r.decrypted = r.decrypted[1:]
		if r.numbers == nil {
			r.numbers = map[int]int{}
		}
		number := r.numbers[p.stream]
		if number == 0 {
			r.conns++
			number = r.conns
			r.numbers[p.stream] = number
			r.about.Unit = cmp.Or(r.about.Unit, p.server)
			r.queue = append(r.queue, source.Record{Kind: source.Opened, Conn: number, Time: p.at, Data: []byte(p.client + " → " + p.server)})
		}
		r.queue = append(r.queue, source.Record{Kind: source.Bytes, Conn: number, Dir: p.dir, Time: p.at, Data: p.data})
	}
}
