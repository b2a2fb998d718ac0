package grpc

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/wirectl/wirectl/transport"
)

// The kinds of questions, and of answers, by the numbers of their fields in the
// messages of the schema. So few are read and written by hand.
const (
	askFile       protowire.Number = 3
	askSymbol     protowire.Number = 4
	askExtension  protowire.Number = 5
	askExtensions protowire.Number = 6
	askServices   protowire.Number = 7

	answerHost       protowire.Number = 1
	answerQuestion   protowire.Number = 2
	answerFiles      protowire.Number = 4
	answerExtensions protowire.Number = 5
	answerServices   protowire.Number = 6
	answerError      protowire.Number = 7
)

// reflect answers the questions of a call about our schemas, until its end.
func reflect(c *served) error {
	in := newMessages(c, transport.DefaultLimit)
	for {
		question, err := in.whole()
		if err != nil {
			return err
		}
		answer, err := answerTo(question)
		if err != nil {
			return err
		}
		if _, err := c.Write(appendMessage(nil, answer)); err != nil {
			return err
		}
	}
}

// answerTo returns an answer, which repeats the question.
func answerTo(question []byte) (answer []byte, err error) {
	var host, about string
	var kind protowire.Number
	err = fields(question, func(number protowire.Number, value []byte) {
		switch number {
		case answerHost:
			host = string(value)
		case askFile, askSymbol, askExtension, askExtensions, askServices:
			kind, about = number, string(value)
		}
	})
	if err != nil {
		return nil, err
	}
	answer = appendField(nil, answerHost, []byte(host))
	answer = appendField(answer, answerQuestion, question)
	switch kind {
	case askFile:
		fd, err := schemas().files.FindFileByPath(about)
		return appendFile(answer, fd, err), nil
	case askSymbol:
		d, err := schemas().files.FindDescriptorByName(protoreflect.FullName(about))
		if err != nil {
			return appendFile(answer, nil, err), nil
		}
		return appendFile(answer, d.ParentFile(), nil), nil
	case askExtension:
		return appendError(answer, "no message here has extensions"), nil
	case askExtensions:
		// The error says that there is none.
		d, _ := schemas().files.FindDescriptorByName(protoreflect.FullName(about))
		if _, message := d.(protoreflect.MessageDescriptor); !message {
			return appendError(answer, "there is no message "+about), nil
		}
		return appendField(answer, answerExtensions, appendField(nil, 1, []byte(about))), nil
	case askServices:
		var list []byte
		for _, name := range []string{reflectionName("v1"), reflectionName("v1alpha"), service} {
			list = appendField(list, 1, appendField(nil, 1, []byte(name)))
		}
		return appendField(answer, answerServices, list), nil
	}
	return nil, statusf(invalidArgument, "the message asks for nothing that is known here")
}

// appendFile appends that the answer is a file. None of ours imports another.
func appendFile(answer []byte, fd protoreflect.FileDescriptor, err error) []byte {
	if err != nil {
		return appendError(answer, err.Error())
	}
	return appendField(answer, answerFiles, appendField(nil, 1, schemas().wire[fd.Path()]))
}

func appendError(answer []byte, message string) []byte {
	text := protowire.AppendTag(nil, 1, protowire.VarintType)
	text = protowire.AppendVarint(text, uint64(notFound))
	return appendField(answer, answerError, appendField(text, 2, []byte(message)))
}

func appendField(dst []byte, number protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(dst, number, protowire.BytesType), value)
}

// values returns the values of a field in a message, as far as that can be read.
func values(message []byte, of protowire.Number) (values [][]byte) {
	_ = fields(message, func(number protowire.Number, value []byte) {
		if number == of {
			values = append(values, value)
		}
	})
	return values
}

// fields hands out the fields of a message that have a length; those of other
// kinds are passed over.
func fields(message []byte, each func(number protowire.Number, value []byte)) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeField(message)
		if n < 0 {
			return statusf(internal, "a message of reflection cannot be read: %v", protowire.ParseError(n))
		}
		if kind == protowire.BytesType {
			_, _, tag := protowire.ConsumeTag(message)
			value, _ := protowire.ConsumeBytes(message[tag:n])
			each(number, value)
		}
		message = message[n:]
	}
	return nil
}
