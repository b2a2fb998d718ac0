package unit

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/wirectl/wirectl/capture"
	"github.com/wirectl/wirectl/frame"
	"github.com/wirectl/wirectl/internal/wait"
	"github.com/wirectl/wirectl/protocol/latis"
	latisv1 "github.com/wirectl/wirectl/protocol/schema/latis/v1"
)

// A Script answers prompts like the unit of a recorded session, with the same parts and pauses.
// A recorded prompt gets its recorded answer, as often as it is sent. Any other prompt gets the
// next answer in the order of the session, starting over after the last.
type Script struct {
	answers []*scripted

	mu   sync.Mutex
	next int
}

// scripted is one recorded answer.
type scripted struct {
	content string
	begun   time.Time
	parts   []scriptedPart
	pause   time.Duration // before the end
	end     *latisv1.ConnectResponse
	heard   bool
}

// An asked identifies a recorded prompt. Each connection, and each stream of one, has its own
// ids.
type asked struct {
	conn   int
	stream int64
	id     string
}

type scriptedPart struct {
	pause time.Duration
	text  string
}

// ReadScript reads a session. It returns an error if no prompt of the session has an answer.
func ReadScript(r capture.Reader) (*Script, error) {
	s := &Script{}
	open := map[asked]*scripted{}
	var rec capture.Record
	for {
		err := r.Next(&rec)
		if err == io.EOF || errors.Is(err, capture.ErrCut) {
			break
		}
		if err != nil {
			return nil, err
		}
		if rec.Kind == capture.Frame && !rec.Gap {
			s.learn(open, &rec)
		}
	}
	s.answers = slices.DeleteFunc(s.answers, func(a *scripted) bool { return len(a.parts) == 0 && a.end == nil })
	if len(s.answers) == 0 {
		return nil, errors.New("this session has no answered latis prompt")
	}
	return s, nil
}

// learn adds a frame to the answers. It ignores frames of other protocols.
func (s *Script) learn(open map[asked]*scripted, rec *capture.Record) {
	var request latisv1.ConnectRequest
	if rec.Dir != frame.U2C && proto.Unmarshal(rec.Payload(), &request) == nil && request.GetPromptSend() != nil {
		a := &scripted{content: request.GetPromptSend().Content, begun: rec.Time}
		s.answers = append(s.answers, a)
		open[asked{rec.Conn, rec.Stream, request.Id}] = a
		return
	}
	var m latisv1.ConnectResponse
	if rec.Dir == frame.C2U || proto.Unmarshal(rec.Payload(), &m) != nil {
		return
	}
	of := asked{rec.Conn, rec.Stream, latis.Answers(&m)}
	a := open[of]
	if a == nil {
		return
	}
	pause := max(rec.Time.Sub(a.begun), 0)
	switch p := m.Payload.(type) {
	case *latisv1.ConnectResponse_ResponseChunk:
		a.parts = append(a.parts, scriptedPart{pause, p.ResponseChunk.Content})
	case *latisv1.ConnectResponse_ResponseComplete, *latisv1.ConnectResponse_Error, *latisv1.ConnectResponse_ResponseCancelled:
		a.pause, a.end = pause, &m
		delete(open, of)
	default:
		return
	}
	a.begun = rec.Time
}

// Answer answers p; see [Agent]. An answer that was cancelled in the session waits for a
// cancel.
func (s *Script) Answer(ctx context.Context, p *Prompt, emit func(string) error) (map[string]string, error) {
	a := s.choose(p.Content)
	for _, part := range a.parts {
		if err := wait.For(ctx, part.pause); err != nil {
			return nil, err
		}
		if err := emit(part.text); err != nil {
			return nil, err
		}
	}
	if a.end == nil || a.end.GetResponseCancelled() != nil {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	if err := wait.For(ctx, a.pause); err != nil {
		return nil, err
	}
	if e := a.end.GetError(); e != nil {
		return nil, &Error{Code: e.Code, Message: e.Message}
	}
	return maps.Clone(a.end.GetResponseComplete().GetMetadata()), nil
}

// choose returns the answer for a prompt.
func (s *Script) choose(content string) *scripted {
	s.mu.Lock()
	defer s.mu.Unlock()
	var again *scripted
	for _, a := range s.answers {
		if a.content == content && !a.heard {
			a.heard = true
			return a
		}
		if a.content == content && again == nil {
			again = a
		}
	}
	if again != nil {
		return again
	}
	a := s.answers[s.next%len(s.answers)]
	s.next++
	return a
}
