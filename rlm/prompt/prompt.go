// Package prompt has the texts for a recursive language model: about its environment and
// context, and between turns.
package prompt

import (
	"cmp"
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/wirectl/wirectl/internal/render"
)

// A Message is a message of a conversation.
type Message struct{ Role, Content string }

// Facts are facts about a run for a system prompt. The zero value is a run with defaults.
type Facts struct {
	Words    []string // info words of blocks that are run; the first is used in examples
	SubChars int64    // how many characters a sub-model can read; 0 is [SubChars]
	Nested   bool     // rlm_query starts a child run instead of making a plain call
	Tools    []Tool   // functions of the code besides those of every run
}

// SubChars is how many characters a sub-model can read, if that is not known.
const SubChars = 500_000

// A Tool is a function that the user provides to the code.
type Tool struct {
	Signature   string // such as weather(city, unit="C")
	Description string
}

//go:embed python.txt
var python string

//go:embed starlark.txt
var starlark string

// Python returns the system prompt for an environment that runs Python.
func Python(f Facts) string { return fill(python, f) }

// Starlark returns the system prompt for an environment that runs Starlark.
func Starlark(f Facts) string { return fill(starlark, f) }

// fill replaces the names in the text of a system prompt.
func fill(text string, f Facts) string {
	words := f.Words
	if len(words) == 0 {
		words = []string{"repl"}
	}
	others := ""
	for _, word := range words[1:] {
		others += " (or ```" + word + ")"
	}
	chars := f.SubChars
	if chars <= 0 {
		chars = SubChars
	}
	// A chunk leaves room for instructions and for an answer.
	chunk := max(chars*2/5, 1)
	nested := "the same as `llm_query` and `llm_query_batched` here: no further run can be started from this one."
	if f.Nested {
		nested = "start a child run for each prompt: a model like you, with its own interpreter and its own turns, for which the prompt is the `context`. " +
			"A child run is much slower and costs much more than a plain call. Use it only for a part of the task that needs code and several steps itself. Otherwise use `llm_query`."
	}
	var tools strings.Builder
	if len(f.Tools) > 0 {
		tools.WriteString("- The following functions are tools. They return JSON, decoded, and fail with a ToolError. `...` marks an optional argument.\n")
	}
	for _, tool := range f.Tools {
		tools.WriteString("- `" + tool.Signature + "`: " + strings.TrimSpace(tool.Description) + "\n")
	}
	return strings.TrimSpace(strings.NewReplacer(
		"$WORD", words[0], "$OTHER_WORDS", others,
		"$OUTPUT_CHARS", number(OutputChars), "$SUB_CHARS", number(chars),
		"$CHUNK_CHARS", number(chunk), "$CHUNK_SIZE", strconv.FormatInt(chunk, 10),
		"$NESTED", nested, "$TOOLS\n", tools.String()+"\n",
	).Replace(text))
}

// Shown is how many lengths of chunks a message lists.
const Shown = 100

// A Shape describes a context by numbers. Characters are code points.
type Shape struct {
	Type    string  // as the environment names it: str, list, dict, …
	Chars   int64   // of all chunks
	Lengths []int64 // of the first chunks: the text, the items of a list, the values of a dict
	Chunks  int64   // how many chunks there are
}

// ShapeOf returns the shape of a text.
func ShapeOf(text string) Shape {
	n := int64(utf8.RuneCountInString(text))
	return Shape{Type: "str", Chars: n, Lengths: []int64{n}, Chunks: 1}
}

// Context returns the message that describes the context.
func Context(s Shape) string {
	lengths := make([]string, min(len(s.Lengths), Shown))
	for i := range lengths {
		lengths[i] = strconv.FormatInt(s.Lengths[i], 10)
	}
	list := "[" + strings.Join(lengths, ", ") + "]"
	if more := s.Chunks - int64(len(lengths)); more > 0 {
		list += " and " + number(more) + " more"
	}
	chunks := "chunks with these numbers"
	if s.Chunks == 1 {
		chunks = "chunk with this number"
	}
	return fmt.Sprintf("The variable `context` has type %s and %s characters in total. It consists of %s %s of characters: %s.",
		s.Type, number(s.Chars), number(s.Chunks), chunks, list)
}

// Opening returns the messages before the first turn. The schema is "" or begins with an
// empty line; see [Schema].
func Opening(system string, s Shape, question, schema string, turns int) []Message {
	return []Message{{"system", system}, {"assistant", Context(s)}, {"user", First(question, schema, turns)}}
}

// Query returns the request to answer a question. Viewers of logs find the question by these
// words.
func Query(question string) string { return "Answer the original query: \"" + question + "\"" }

// First returns the user message of the first turn.
func First(question, schema string, turns int) string {
	query := Query(question)
	if question == "" {
		query = "Do what the context asks for; there is no other query."
	}
	return "You have not looked at the context yet, so do not give a final answer now. Look at it first, by code.\n\n" +
		query + schema + "\n\n" + Next(1, turns)
}

// Next returns the request for turn n of turns.
func Next(n, turns int) string {
	return fmt.Sprintf("This is turn %d of %d. Your next step:", n, turns)
}

// OutputChars bounds the output of a block that the model is sent, in characters.
const OutputChars = 20_000

// partChars bounds the error and the names in an output, in characters.
const partChars = 4000

// An Output is the output of a block of code.
type Output struct {
	Stdout, Stderr string
	Dropped        int64    // bytes of output that the environment has dropped
	Error          string   // such as "ZeroDivisionError: division by zero"; "" if the block ran to its end
	Line           int      // of the error, in the block; 0 if not known
	Lost           bool     // the variables are gone
	Variables      []string // the names of the variables
}

// String returns the output for the model: at most [OutputChars] characters, and how many are
// omitted. Only printed output is omitted, not the error and the names.
func (o Output) String() string {
	var ends []string
	if o.Error != "" {
		failed := "The block failed: "
		if o.Line > 0 {
			failed = fmt.Sprintf("The block failed in line %d: ", o.Line)
		}
		ends = append(ends, failed+cut(o.Error, partChars))
	}
	if len(o.Variables) > 0 {
		ends = append(ends, "Variables: "+cut(strings.Join(o.Variables, ", "), partChars))
	}
	end := strings.Join(ends, "\n\n")
	printed := strings.TrimRight(o.Stdout, "\n")
	if stderr := strings.TrimRight(o.Stderr, "\n"); stderr != "" {
		printed = strings.TrimLeft(printed+"\n\nStandard error:\n"+stderr, "\n")
	}
	printed = cut(printed, OutputChars-utf8.RuneCountInString(end))
	if o.Dropped > 0 {
		printed += "\n[" + number(o.Dropped) + " bytes of output were dropped before that]"
	}
	var parts []string
	for _, part := range []string{printed, end} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		parts = append(parts, "No output")
	}
	if o.Lost {
		parts = append(parts, lost)
	}
	return strings.Join(parts, "\n\n")
}

const (
	lost = "The interpreter had to be started again, and all variables, functions and imports are gone. " +
		"`context` is there again. Do again what you still need, in smaller steps."
	unclosed = "Your response ends inside a block of code, probably because it was too long. That block was not run. " +
		"Send it again, closed, or in smaller blocks over several turns."
	nothing = "Your response has neither a block of code that is run nor a final answer. " +
		"Write code in a block that is marked as the system prompt says, or give the final answer by FINAL(your answer) or " +
		"FINAL_VAR(name) at the beginning of a line, outside of blocks."
)

// NoAnswer says why FINAL_VAR gives no answer: there is no variable of that name, unless why
// is set.
func NoAnswer(name, why string) string {
	return fmt.Sprintf("FINAL_VAR(%s) is no answer: %s. Assign the answer to a variable first, or give it by FINAL(your answer).",
		cut(name, 200), cut(cmp.Or(why, "there is no variable of that name"), partChars))
}

// CutAnswer says that a response was cut within its answer.
const CutAnswer = "Your response ends inside FINAL(…), because it was too long. That is no answer. " +
	"Give a shorter one, or build it in a variable over several turns and give that by FINAL_VAR(name)."

// Feedback returns the message after a turn. The outputs of the blocks are made by
// [Output.String]; open says that the response ended inside a block; refused is "", or made by
// [NoAnswer], or [CutAnswer].
func Feedback(outputs []string, open bool, refused string) string {
	var parts []string
	for i, output := range outputs {
		title := "Output:"
		if len(outputs) > 1 {
			title = fmt.Sprintf("Output of block %d of %d:", i+1, len(outputs))
		}
		parts = append(parts, title+"\n"+output)
	}
	if open {
		parts = append(parts, unclosed)
	}
	if refused != "" {
		parts = append(parts, refused)
	}
	if len(parts) == 0 {
		parts = append(parts, nothing)
	}
	return strings.Join(parts, "\n\n")
}

// Last is the request for an answer after the last turn.
const Last = "There are no turns left, and code is not run any more. Answer the original query now, with what you know. " +
	"Reply with FINAL(your answer), with FINAL_VAR(name) if a variable holds the answer, or with the answer alone. " +
	"If you are not sure, give the best answer that you have."

// Compact is the request for a summary, which replaces the turns so far.
const Compact = "This conversation is getting too long. Write a summary that will replace it, except for the first messages. " +
	"Do not write code or a final answer now. Keep all that you need to go on:\n" +
	"- what you know about the context and its structure;\n" +
	"- all results so far, with exact numbers, names and quotations;\n" +
	"- the names of the variables and functions that are worth keeping, and what each holds;\n" +
	"- what has failed and should not be tried again;\n" +
	"- what is left to do."

// Continue is the message after a summary.
const Continue = "Go on from your summary. The interpreter is as you left it, with all its variables. " +
	"`history` holds the whole conversation. Do not repeat what is done."

// cut returns the first n characters of text, and says how many are omitted.
func cut(text string, n int) string {
	first, omitted := render.First(text, n)
	if omitted == 0 {
		return text
	}
	return first + "\n[" + number(int64(omitted)) + " characters omitted]"
}

// number writes n with commas between thousands.
func number(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
