package relay

import (
	"io"
	"iter"

	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/frame/carrier"
	"github.com/wirectl/wirectl/protocol"
	"github.com/wirectl/wirectl/protocol/all"
	"github.com/wirectl/wirectl/protocol/opaque"
)

// A grammar is the framing and protocol of a connection, in both directions.
type grammar struct {
	framing  frame.Framing
	protocol protocol.Protocol
	limit    int
	named    all.Guess    // the configured part
	doubtful bool         // the framing is uncertain; the other direction may show it
	refiner  *all.Refiner // not nil while later messages may show more
	refined  int          // messages that it has seen
	carried  bool         // the frames are in a carrier
}

// newGrammar returns the configured grammar of a connection.
func newGrammar(f frame.Framing, p protocol.Protocol, limit int) grammar {
	return grammar{framing: f, protocol: p, limit: limit, named: all.Guess{Framing: f, Protocol: p, Limit: limit}}
}

// maxRefined is how many messages are used to detect the protocol. Later messages would
// not help, and each costs as much as parsing it several times.
const maxRefined = 256

// A framer cuts one direction into frames as its bytes arrive. The scanner pulls bytes and
// the relay pushes them, so the scanner runs as a coroutine that yields when it wants to
// read. Only frames that arrive in pieces are read by it; the others are scanned in place,
// without a copy.
type framer struct {
	grammar *grammar
	framing frame.Framing // the scanner's, once it is settled
	scanner *frame.Scanner
	settled bool
	batch   frame.Batch
	pushed  []byte // bytes that the scanner has not read yet
	within  bool   // the current frames lie within the pushed bytes
	ended   bool
	next    func() (*frame.Batch, bool)
	stop    func()
	yield   func(*frame.Batch) bool
}

func newFramer(g *grammar) *framer {
	f := &framer{grammar: g}
	f.next, f.stop = iter.Pull(f.scan)
	return f
}

// push cuts more of the stream, and passes each run of complete frames to use.
func (f *framer) push(data []byte, use func(*frame.Batch)) {
	if f.settled && f.framing != f.grammar.framing {
		f.conform()
	}
	f.pushed = data
	for {
		f.inPlace(use)
		b, more := f.next()
		if b == nil || !more {
			return // it wants to read, or has ended
		}
		use(b)
		if f.settled {
			f.pushed = data[len(data)-len(f.pushed)-f.scanner.Unread(len(data)-len(f.pushed)):]
		}
	}
}

// inPlace scans the frames that lie completely within the pushed bytes.
func (f *framer) inPlace(use func(*frame.Batch)) {
	for f.settled && len(f.pushed) > 0 {
		n := f.scanner.ScanIn(f.pushed, &f.batch)
		f.pushed = f.pushed[n:]
		if len(f.batch.Frames) == 0 {
			break
		}
		f.within = true
		use(&f.batch)
	}
	f.within = false
}

// endInput ends the input and passes the remaining frames to use.
func (f *framer) endInput(use func(*frame.Batch)) {
	f.ended = true
	f.push(nil, use)
	f.stop()
}

// scan is the coroutine: it yields runs of frames, and nil to wait for bytes.
func (f *framer) scan(yield func(*frame.Batch) bool) {
	f.yield = yield
	f.scanner = frame.NewScanner(f, nil)
	most := firstPiece
	f.scanner.SetRead(most)
	f.scanner.ResyncAtOnce()
	if f.settled = f.settle(); !f.settled {
		return
	}
	var b frame.Batch
	for f.scanner.ScanBatch(&b) {
		if !yield(&b) {
			return
		}
		if n := len(b.Frames[len(b.Frames)-1].Raw); n > most {
			most = min(n, largestPiece)
			f.scanner.SetRead(most) // others will be large, too
		}
	}
}

const (
	// The read size grows with the bytes of frames in pieces, so that a quiet
	// connection uses little memory.
	firstPiece   = 4 << 10
	largestPiece = 1 << 20
	// mostCopied is how much is copied at once for a frame in pieces: the scanner
	// returns the bytes after that frame.
	mostCopied = 16 << 10
)

// Read is for the scanner.
func (f *framer) Read(p []byte) (int, error) {
	for len(f.pushed) == 0 {
		if f.ended || !f.yield(nil) {
			return 0, io.EOF
		}
	}
	n := copy(p[:min(len(p), mostCopied)], f.pushed)
	f.pushed = f.pushed[n:]
	return n, nil
}

// settle detects the framing and the protocol. If it detects nothing, the stream is
// treated as lines of bytes.
func (f *framer) settle() bool {
	g := f.grammar
	head, atEOF := f.scanner.Peek(1)
	if len(head) == 0 {
		return false
	}
	if g.framing == nil && f.carried(head, atEOF) {
		g.framing, g.protocol, g.carried = frame.Unknown, opaque.Bytes, true
	}
	if g.wanting() {
		guess := g.named
		for !guess.Detect(head, atEOF) && g.wanting() {
			head, atEOF = f.scanner.Peek(len(head) + 1)
		}
		g.learn(&guess)
	}
	f.conform()
	return true
}

// carried reports whether a stream is HTTP or WebSocket. Its frames need a carrier
// rather than a scanner, so nothing of it is held back.
func (f *framer) carried(head []byte, atEOF bool) bool {
	guess := carrier.Detect(head, atEOF)
	for guess.More && !atEOF {
		head, atEOF = f.scanner.Peek(len(head) + 1)
		guess = carrier.Detect(head, atEOF)
	}
	return guess.Kind != carrier.Plain
}

// conform applies the grammar to the bytes that the scanner has not emitted yet.
func (f *framer) conform() {
	g := f.grammar
	f.framing = g.framing
	f.scanner.SetFraming(g.framing)
	f.scanner.SetLimit(g.most())
	f.scanner.SetAccept(all.Plausible(g.protocol))
}

// wanting reports whether the grammar is incomplete.
func (g *grammar) wanting() bool { return g.framing == nil || g.protocol == nil || g.doubtful }

// learn completes the grammar with a guess, unless the other direction has done so. A
// unit may first print a line of text, so the frames of its controller correct the guess.
func (g *grammar) learn(guess *all.Guess) {
	if g.doubtful && guess.Clear() {
		g.framing, g.protocol, g.refined = g.named.Framing, g.named.Protocol, 0
	}
	if g.framing == nil {
		if g.framing = guess.Framing; g.framing == nil {
			g.framing = frame.Line
		}
		g.doubtful = !guess.Clear()
	}
	if g.protocol == nil {
		g.protocol = opaque.Bytes
		if guess.Framing != nil {
			g.protocol = guess.Protocol
		}
		g.refiner = guess.Refiner()
	}
}

// most is the largest payload.
func (g *grammar) most() int {
	if g.limit > 0 {
		return g.limit
	}
	return all.Limit(g.protocol)
}

// settled reports whether the grammar is final.
func (g *grammar) settled() bool {
	return g.framing != nil && g.protocol != nil && g.refiner == nil
}

// refine refines the protocol by a frame.
func (g *grammar) refine(f *frame.Frame) {
	if g.refiner == nil || f.Gap {
		return
	}
	p, why, done := g.refiner.Refine(f.Payload())
	if g.protocol = p; why != "" {
		g.doubtful = false
	}
	if g.refined++; done || g.refined == maxRefined {
		g.refiner = nil
	}
}
