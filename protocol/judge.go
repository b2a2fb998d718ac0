package protocol

import (
	"fmt"
	"strings"
)

// Judged is a message in its session, as [Rules.Judge] wants it. Judge fills in the last
// three fields.
type Judged struct {
	// Version is the version by whose rules the message is judged; "" if it is not known.
	Version string
	Message *Message
	Payload []byte
	// Asked is the kind of the request that the message answers; "" if none is known.
	Asked string
	// Declared is what the requests and answers of the session have declared so far.
	Declared Features
	// Stated is what the head of a request over HTTP says of the message; nil if there is
	// no head.
	Stated *Stated

	// Broken are the rules that the message breaks.
	Broken []Broken
	// Declares is what a request, or the first answer to it, lets the answers have; what
	// other answers declare holds for the session. Needs is what the message has of that.
	Declares, Needs Features
}

// Stated is what the head of a request over HTTP says of its message; "" is a missing
// field.
type Stated struct {
	Verb                  string // of HTTP
	Version, Method, Name string
	// Sessionless says that a session was begun at the same address of the connection and
	// that the request names none.
	Sessionless bool
}

// Broken is a rule that was broken: the name of the finding, and in which way. What is
// Tolerated is worth a warning, and not an error. Frames are the numbers of frames before
// that it is about, besides that of the request.
type Broken struct {
	Finding, How string
	Tolerated    bool
	Frames       []int64
}

// Features is a set of things that a request can let its answers have. What they are is
// known to the protocol: [Rules.Features] names them, the lowest bit first.
type Features uint32

// maxHow bounds how much is said of a rule that was broken.
const maxHow = 512

// Break notes that the message breaks a rule.
func (j *Judged) Break(finding, format string, args ...any) {
	how := fmt.Sprintf(format, args...)
	j.Broken = append(j.Broken, Broken{Finding: finding, How: strings.ToValidUTF8(how[:min(len(how), maxHow)], "\uFFFD")})
}

// Advise is Break for a rule that peers tolerate to be broken.
func (j *Judged) Advise(finding, format string, args ...any) {
	j.Break(finding, format, args...)
	j.Broken[len(j.Broken)-1].Tolerated = true
}
