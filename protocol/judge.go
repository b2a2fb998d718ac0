package protocol

import (
	"fmt"
	"strings"
)

// Judged is a message in its session, as [Rules.Judge] wants it. Judge fills in the last
// three fields.
type Judged struct {
	// Version is the version by which the message is judged; "" if it is not known.
	Version string
	Message *Message
	Payload []byte
	// Asked is the kind of the request that the message answers; "" if none is known.
	Asked string
	// Declared are the features that the requests and answers of the session have declared
	// so far.
	Declared Features
	// Stated is what the head of a request over HTTP says about the message; nil if there
	// is no head.
	Stated *Stated
	// Response is what is judged instead of a message; nil if it is a message.
	Response *Response

	// Broken are the rules that the message breaks.
	Broken []Broken
	// Declares are the features that a request, or the first answer to it, allows its
	// answers; those that other answers declare hold for the session. Needs are the
	// features that the message uses. They are Tolerated without if the version only
	// recommends to declare them.
	Declares, Needs Features
	Tolerated       bool
}

// Response is a successful response over HTTP, or an event of it.
type Response struct {
	Request int64  // the number of the frame with the request
	Verb    string // of the request
	Asks    bool   // the request contains requests of the protocol
	Status  string
	Media   string // the content type, without parameters
	Body    bool   // there is a body
	// Event means that an event of the response contains no message of the protocol.
	Event bool
}

// Stated is what the head of a request over HTTP says about its message; "" is a missing
// field.
type Stated struct {
	Verb                  string // of HTTP
	Version, Method, Name string
	Arguments             [][2]string // headers that repeat arguments of a tool, and their values
	// Sessionless says that a session was begun at the same address of the connection and
	// that the request names none.
	Sessionless bool
	// Older says that the request is of the transport before 2025-03-26, whose sessions are in the
	// query of the address. Versions since are spoken over it, too, without their headers.
	Older bool
}

// Broken is a broken rule: the name of the finding, and how it was broken. If it is
// Tolerated, it is a warning and not an error. Frames are the numbers of earlier frames
// that it is about, besides that of the request.
type Broken struct {
	Finding, How string
	Tolerated    bool
	Frames       []int64
}

// Features is a set of things that a request can allow its answers. The protocol knows
// their meaning: [Rules.Features] names them, the lowest bit first.
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
