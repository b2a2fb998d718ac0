package llm

import (
	"bytes"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/internal/jsonscan"
)

// A BlockKind is what a [Block] is.
type BlockKind uint8

const (
	TextBlock     BlockKind = iota
	ThoughtBlock            // reasoning, also if it is encrypted
	CallBlock               // of a tool
	ResultBlock             // of a call
	AttachedBlock           // a picture, a document, a sound
	OtherBlock              // anything else that has a type
)

// A Block is the smallest part of what a request gives to a model: a tool, a text, a tool call, a
// result, an attachment. Its places are offsets in the body.
type Block struct {
	Part       PromptPart
	Kind       BlockKind
	Role       Role
	Message    int32 // the number of its message, from 0; -1 if it is not in a message
	Start, End int32
	// Text is the string token of a text block, and Mark the value of cache_control; both may be empty.
	Text, Mark Span
	// Inside are the attachments in a result, which are blocks of their own, in bytes.
	Inside int32
}

// A Span is a part of a body.
type Span struct{ Start, End int32 }

// Of returns the bytes of the span.
func (s Span) Of(body []byte) []byte { return body[s.Start:s.End] }

// A Role is who speaks in a message.
type Role uint8

const (
	NoRole Role = iota
	UserRole
	AssistantRole
	SystemRole
	ToolRole
)

func roleOf(token []byte) Role {
	switch string(bare(token)) {
	case "user":
		return UserRole
	case "assistant", "model":
		return AssistantRole
	case "system", "developer":
		return SystemRole
	case "tool", "function":
		return ToolRole
	}
	return NoRole
}

// Given is what a request of any API gives to a model, read in one pass. It may be used again.
type Given struct {
	Body []byte
	// Blocks are in the order of the request. The blocks after a large number of them are joined
	// into the last.
	Blocks []Block
	// Settings are other members, as written, on which the caches of providers depend.
	Settings []Setting
	// Model is that of the request. Previous is the id of the answer that the request continues; the
	// conversation up to it is Held by the provider if it is not repeated in the request.
	Model, Previous string
	Held            bool
	// Session names the conversation in the words of a client, "" if it has none. Metadata holds the
	// members about clients, as written.
	Session  string
	Metadata []Setting
	// Mark is the value of cache_control of the request, and Retention the wanted lifetime of the cache.
	Mark      []byte
	Retention string

	message int32
}

// A Setting is a member of a request.
type Setting struct {
	Name  string
	Value []byte
}

// cacheSettings are the members that change what comes before the messages, or how the cache is found,
// in the order in which they count.
var cacheSettings = []string{"model", "response_format", "text", "tool_choice", "thinking", "prompt_cache_key", "cachedContent", "cached_content"}

// mostBlocks bounds the blocks of a request.
const mostBlocks = 1 << 14

// Read reads the body of a request, as far as it is JSON.
func (g *Given) Read(body []byte) {
	*g = Given{Body: body, Blocks: g.Blocks[:0], Settings: g.Settings[:0], Metadata: g.Metadata[:0], message: -1}
	var s jsonscan.Scanner
	s.Init(body)
	for ok := s.Object(); ok && s.Next(); {
		switch key := string(s.Key()); key {
		case "system", "systemInstruction", "system_instruction", "instructions":
			g.readMessage(&s, SystemPart, SystemRole)
		case "tools":
			g.readTools(&s)
		case "messages", "input", "contents", "prompt":
			switch s.Peek() {
			case jsonscan.String:
				g.message++
				g.readMessage(&s, MessagePart, UserRole)
			case jsonscan.Array:
				for ok := s.Array(); ok && s.Elem(); {
					g.message++
					g.readMessage(&s, MessagePart, NoRole)
				}
			}
		case "previous_response_id":
			g.Previous = Unquote(s.Value())
			g.Held = g.Previous != ""
		case "conversation":
			g.Session = conversationID(s.Value())
			g.Held = g.Session != ""
		case "diagnostics":
			g.Previous = text(s.Value(), "previous_message_id")
		case "metadata", "client_metadata":
			g.Metadata = append(g.Metadata, Setting{key, s.Value()})
		case "prompt_cache_retention":
			g.Retention = Unquote(s.Value())
		case "cache_control":
			g.Mark = s.NotNull()
		default:
			if !slices.Contains(cacheSettings, key) {
				continue
			}
			value := s.NotNull()
			switch key {
			case "model":
				g.Model = Unquote(value)
			case "text":
				value, _ = jsonscan.Get(value, "format")
			case "prompt_cache_key":
				if g.Session == "" {
					g.Session = Unquote(value)
				}
			}
			if value != nil {
				g.Settings = append(g.Settings, Setting{key, value})
			}
		}
	}
	slices.SortStableFunc(g.Settings, func(a, b Setting) int {
		return slices.Index(cacheSettings, a.Name) - slices.Index(cacheSettings, b.Name)
	})
}

// conversationID returns the id of a conversation that the provider holds.
func conversationID(value []byte) string {
	if id := Unquote(value); id != "" {
		return id
	}
	return text(value, "id")
}

// addBlock adds a block, unless it is cut.
func (g *Given) addBlock(b Block) {
	if b.End <= b.Start {
		return
	}
	if b.Message = g.message; b.Part != MessagePart {
		b.Message = -1
	}
	if len(g.Blocks) < mostBlocks {
		g.Blocks = append(g.Blocks, b)
		return
	}
	last := &g.Blocks[len(g.Blocks)-1] // it covers all later ones, so that a new one is noticed
	last.Kind, last.Text, last.Mark = OtherBlock, Span{}, Span{}
	last.Start, last.End = min(last.Start, b.Start), max(last.End, b.End)
}

// readTools reads the tools of a request. The functions in a tool of Gemini are tools.
func (g *Given) readTools(s *jsonscan.Scanner) {
	for ok := s.Array(); ok && s.Elem(); {
		b, declared := Block{Part: ToolPart, Start: int32(s.Offset())}, false
		for ok := s.Object(); ok && s.Next(); {
			switch string(s.Key()) {
			case "functionDeclarations", "function_declarations":
				for ok := s.Array(); ok && s.Elem(); declared = true {
					start := s.Offset()
					s.Skip()
					g.addBlock(Block{Part: ToolPart, Start: int32(start), End: int32(s.Offset())})
				}
			case "cache_control":
				b.Mark = spanOf(s)
			}
		}
		b.End = int32(int(b.Start) + len(s.Since(int(b.Start))))
		if !declared {
			g.addBlock(b)
		}
	}
}

// spanOf consumes a value, and returns where it is; empty for null.
func spanOf(s *jsonscan.Scanner) Span {
	start, value := s.Offset(), s.Value()
	if value == nil || isNull(value) {
		return Span{}
	}
	return Span{int32(start), int32(start + len(value))}
}

// readMessage reads a message, or a system prompt: a text, a list of blocks, or an object with one of
// them.
func (g *Given) readMessage(s *jsonscan.Scanner, part PromptPart, role Role) {
	first, start := len(g.Blocks), s.Offset()
	var kind, mark Span
	switch s.Peek() {
	case jsonscan.String:
		at := spanOf(s)
		g.addBlock(Block{Part: part, Role: role, Start: at.Start, End: at.End, Text: at})
		return
	case jsonscan.Array:
		for ok := s.Array(); ok && s.Elem(); {
			g.readBlock(s, part, role, 0)
		}
		return
	case jsonscan.Object:
	default:
		s.Skip()
		return
	}
	isResult := false
	for ok := s.Object(); ok && s.Next(); {
		switch key := string(s.Key()); key {
		case "role":
			if r := roleOf(s.Value()); role == NoRole {
				role = r
			}
		case "type":
			kind = spanOf(s)
		case "cache_control":
			mark = spanOf(s)
		case "content", "parts", "output":
			switch s.Peek() {
			case jsonscan.String:
				at := spanOf(s)
				g.addBlock(Block{Part: part, Start: at.Start, End: at.End, Text: at})
			case jsonscan.Object:
				g.readBlock(s, part, role, 0)
			case jsonscan.Array:
				for ok := s.Array(); ok && s.Elem(); {
					g.readBlock(s, part, role, 0)
				}
			}
		case "text":
			if part == SystemPart && s.Peek() == jsonscan.String {
				at := spanOf(s)
				g.addBlock(Block{Part: part, Start: at.Start, End: at.End, Text: at})
			}
		case "tool_calls":
			for ok := s.Array(); ok && s.Elem(); {
				at := spanOf(s)
				g.addBlock(Block{Part: part, Kind: CallBlock, Start: at.Start, End: at.End})
			}
		case "reasoning_content", "reasoning":
			if s.Peek() == jsonscan.String {
				at := spanOf(s)
				g.addBlock(Block{Part: part, Kind: ThoughtBlock, Start: at.Start, End: at.End})
			}
		case "tool_call_id":
			isResult = true
		}
	}
	end := start + len(s.Since(start))
	whole := Block{Part: part, Kind: kindOf(bare(kind.Of(g.Body))), Start: int32(start), End: int32(end), Mark: mark}
	isItem := kind != (Span{}) && whole.Kind != TextBlock
	if isResult || role == ToolRole {
		whole.Kind, isItem = ResultBlock, true
	}
	switch blocks := g.Blocks[min(first, len(g.Blocks)):]; {
	case end == start: // it is cut
	case isItem && len(g.Blocks) < mostBlocks: // an item of Responses, or a result: only attachments in it are apart
		kept := g.Blocks[:first]
		for _, b := range blocks {
			if b.Kind == AttachedBlock && whole.Kind != AttachedBlock {
				whole.Inside += b.End - b.Start
				kept = append(kept, b)
			}
		}
		g.Blocks = kept
		if whole.Kind == CallBlock || whole.Kind == ThoughtBlock {
			role = AssistantRole
		}
		g.addBlock(whole)
	case len(blocks) == 0: // an empty message
		g.addBlock(whole)
	case mark != (Span{}) && len(blocks) > 0 && blocks[len(blocks)-1].Mark == (Span{}):
		blocks[len(blocks)-1].Mark = mark
	}
	for i := min(first, len(g.Blocks)); i < len(g.Blocks); i++ {
		g.Blocks[i].Role = role
	}
}

// maxBlocks is how deep blocks are nested in blocks.
const maxBlocks = 3

// readBlock reads a block of a message, with the attachments in it.
func (g *Given) readBlock(s *jsonscan.Scanner, part PromptPart, role Role, depth int) {
	b := Block{Part: part, Role: role, Start: int32(s.Offset())}
	if s.Peek() == jsonscan.String {
		b.Text = spanOf(s)
		b.End = b.Text.End
		if depth == 0 {
			g.addBlock(b)
		}
		return
	}
	if s.Peek() != jsonscan.Object {
		s.Skip()
		return
	}
	first, thought, typed := len(g.Blocks), false, false
	for ok := s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "type":
			b.Kind, typed = kindOf(bare(s.Value())), true
		case "text":
			b.Text = spanOf(s)
		case "cache_control":
			b.Mark = spanOf(s)
		case "thought":
			thought = string(s.Value()) == "true"
		case "functionCall":
			b.Kind, typed = CallBlock, s.Skip()
		case "functionResponse":
			b.Kind, typed = ResultBlock, s.Skip()
		case "inlineData", "inline_data", "fileData", "file_data":
			if !typed {
				b.Kind, typed = AttachedBlock, s.Skip()
			}
		case "content", "output":
			for ok := depth < maxBlocks && s.Array(); ok && s.Elem(); {
				g.readBlock(s, part, role, depth+1)
			}
		}
	}
	b.End = int32(int(b.Start) + len(s.Since(int(b.Start))))
	switch {
	case b.End == b.Start:
		return
	case thought:
		b.Kind = ThoughtBlock
	case !typed && b.Text == (Span{}):
		b.Kind = OtherBlock
	}
	if b.Kind != TextBlock {
		b.Text = Span{}
	}
	if b.Kind == AttachedBlock { // what is in it is part of it
		g.Blocks = g.Blocks[:min(first, len(g.Blocks))]
	}
	for _, inner := range g.Blocks[min(first, len(g.Blocks)):] {
		b.Inside += inner.End - inner.Start
	}
	if depth == 0 || b.Kind == AttachedBlock {
		g.addBlock(b)
	}
}

// attached are the types of blocks that are attachments.
var attached = []string{"image", "document", "file", "image_url", "input_image", "input_file", "input_audio", "audio", "video", "container_upload"}

// kindOf returns the kind of a block of a type.
func kindOf(name []byte) BlockKind {
	switch n := string(name); {
	case n == "text", n == "input_text", n == "output_text", n == "message", n == "refusal", n == "":
		return TextBlock
	case n == "thinking", n == "redacted_thinking", n == "reasoning":
		return ThoughtBlock
	case n == "function", strings.HasSuffix(n, "tool_use"), strings.HasSuffix(n, "_call"):
		return CallBlock
	case strings.HasSuffix(n, "tool_result"), strings.HasSuffix(n, "_output"):
		return ResultBlock
	case slices.Contains(attached, n):
		return AttachedBlock
	}
	return OtherBlock
}

// idKeys are the members that name the call of a tool.
var idKeys = []string{"tool_use_id", "call_id", "tool_call_id", "id"}

// Of returns the name of the tool of a call or a result, and the id of the call, as far as the block
// has them; of any other block its type.
func (b *Block) Of(body []byte) (name, id string) {
	raw := body[b.Start:b.End]
	for _, key := range [...]string{"functionCall", "functionResponse"} {
		if inner, ok := jsonscan.Get(raw, key); ok {
			raw = inner
		}
	}
	switch b.Kind {
	case CallBlock, ResultBlock:
		for _, key := range idKeys {
			if id = text(raw, key); id != "" {
				break
			}
		}
		if name = text(raw, "name"); name == "" {
			name = text(raw, "function", "name")
		}
	case AttachedBlock:
		for _, path := range [...][]string{{"source", "media_type"}, {"inlineData", "mimeType"}, {"filename"}, {"file", "filename"}, {"title"}} {
			if name = text(raw, path...); name != "" {
				return name, ""
			}
		}
	}
	if name == "" && id == "" {
		name = text(raw, "type")
	}
	return name, id
}

// pathKeys are the arguments of tools that name a file, an address or a command, the most telling first.
var pathKeys = []string{"file_path", "path", "filename", "notebook_path", "uri", "url", "command", "cmd", "pattern", "query"}

// PathOf returns the argument of a tool call that says best what it is about; "" if none does.
func PathOf(call []byte) string {
	if inner, ok := jsonscan.Get(call, "functionCall"); ok {
		call = inner
	}
	if inner, ok := jsonscan.Get(call, "function"); ok {
		call = inner
	}
	for _, key := range [...]string{"input", "arguments", "args", "action"} {
		value, ok := jsonscan.Get(call, key)
		if !ok {
			continue
		}
		if inner, ok := jsonscan.Unquote(value); ok {
			value = inner
		}
		if path := PathIn(value); path != "" {
			return path
		}
	}
	return ""
}

// PathIn is PathOf for the arguments.
func PathIn(arguments []byte) string {
	for _, key := range pathKeys {
		value, ok := jsonscan.Get(arguments, key)
		if text := Unquote(value); ok && text != "" {
			return text
		}
		var last []byte
		for _, word := range Elements(value) { // of a command
			last = word
		}
		if text := Unquote(last); text != "" {
			return text
		}
	}
	return ""
}

// Cached is what an answer tells about the cache of its provider.
type Cached struct {
	Told    bool   // the answer says how much was cached, also if it was nothing
	Implied bool   // by a provider that caches without being asked
	Missed  string // why the provider has found less than before; "" if it does not say so
	ID      string // of the answer
	Output  int64  // bytes of the items that the answer adds to a conversation that the provider holds
}

// ReadCached adds what an answer, or an event of one, tells.
func (c *Cached) ReadCached(payload []byte) {
	if !bytes.Contains(payload, []byte(`"usage`)) {
		return
	}
	answer := payload
	for _, key := range [...]string{"message", "response"} {
		if inner, ok := jsonscan.Get(payload, key); ok && jsonscan.KindOf(inner) == jsonscan.Object {
			answer = inner
		}
	}
	if id := text(answer, "id"); id != "" {
		c.ID = id
	}
	if output, ok := jsonscan.Get(answer, "output"); ok && jsonscan.KindOf(output) == jsonscan.Array {
		c.Output = max(c.Output, int64(len(output)-len("[]")))
	}
	if why := member(answer, "diagnostics", "cache_miss_reason"); why != nil {
		if c.Missed = text(why, "type"); c.Missed == "" {
			c.Missed = Unquote(why)
		}
	}
	for _, usage := range [...]string{"usage", "usageMetadata"} {
		for i, path := range [...][]string{
			{"cache_read_input_tokens"}, {"prompt_tokens_details", "cached_tokens"}, {"input_tokens_details", "cached_tokens"}, {"cachedContentTokenCount"},
		} {
			if jsonscan.KindOf(member(answer, append([]string{usage}, path...)...)) == jsonscan.Number {
				c.Told, c.Implied = true, i > 0
			}
		}
	}
}
