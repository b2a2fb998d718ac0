package gemini

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/wirectl/wirectl/broker/provider"
	"github.com/wirectl/wirectl/internal/jsonscan"
)

// kind lists the optional members that the API supports.
var kind = provider.Kind{Name: "gemini", Has: []string{"frequency_penalty", "presence_penalty", "response_format"}}

// body returns the body of a request: the client's own if it uses the same API. In a translated
// one, members that OpenAI does not have are as the client wrote them.
func (p *Provider) body(r *provider.Request) ([]byte, error) {
	if r.In(provider.GeminiContents) {
		return r.Own, nil
	}
	chat, err := r.Read(p.kind)
	if err != nil {
		return nil, err
	}
	made, err := newRequest(chat, r.Model)
	if err != nil {
		return nil, err
	}
	body, err := join(made, chat.Rest)
	if err != nil {
		return nil, &provider.Error{Cause: provider.Internal, Err: err}
	}
	return body, nil
}

func join(made *request, rest map[string]json.RawMessage) ([]byte, error) {
	own, err := jsonscan.Marshal(made)
	if err != nil || len(rest) == 0 {
		return own, err
	}
	all := maps.Clone(rest)
	delete(all, "top_k") // it is in generationConfig
	if err := json.Unmarshal(own, &all); err != nil {
		return nil, err
	}
	return jsonscan.Marshal(all)
}

type request struct {
	Contents []content      `json:"contents"`
	System   *content       `json:"systemInstruction,omitempty"`
	Config   map[string]any `json:"generationConfig,omitempty"`
	Tools    []toolset      `json:"tools,omitempty"`
	Choice   *toolConfig    `json:"toolConfig,omitempty"`
}

type toolConfig struct {
	Calling calling `json:"functionCallingConfig"`
}

type calling struct {
	Mode    string   `json:"mode"`
	Allowed []string `json:"allowedFunctionNames,omitempty"`
}

type toolset struct {
	Functions []function `json:"functionDeclarations"`
}

// A function has parameters in JSON Schema, as in OpenAI's API. The member parameters, with
// Gemini's own schema, would support less.
type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parametersJsonSchema,omitempty"`
}

type content struct {
	Role  string `json:"role,omitempty"`
	Parts []part `json:"parts"`
}

type part struct {
	Text     string            `json:"text,omitempty"`
	Thought  bool              `json:"thought,omitempty"`
	Call     *functionCall     `json:"functionCall,omitempty"`
	Response *functionResponse `json:"functionResponse,omitempty"`
	Inline   *inlineData       `json:"inlineData,omitempty"`
	File     *fileData         `json:"fileData,omitempty"`
	// Signature represents the thoughts that led to a call.
	Signature string `json:"thoughtSignature,omitempty"`
}

type functionCall struct {
	ID   string          `json:"id,omitempty"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args,omitempty"`
}

type functionResponse struct {
	ID       string         `json:"id,omitempty"`
	Name     string         `json:"name"`
	Response map[string]any `json:"response"`
}

type inlineData struct {
	MimeType string `json:"mimeType"`
	Data     string `json:"data"`
}

type fileData struct {
	URI string `json:"fileUri"`
}

// newRequest translates a request.
func newRequest(chat *provider.Chat, model string) (*request, error) {
	r := &request{Contents: []content{}, Config: map[string]any{}}
	if chat.System != "" {
		r.System = &content{Parts: []part{{Text: chat.System}}}
	}
	if err := r.converse(chat.Turns, model); err != nil {
		return nil, err
	}
	r.configure(chat)
	if len(chat.Tools) > 0 {
		set := toolset{}
		for _, t := range chat.Tools {
			set.Functions = append(set.Functions, function{t.Name, t.Description, t.Parameters})
		}
		r.Tools = []toolset{set}
		if mode := modes[chat.ToolChoice]; mode != "" {
			r.Choice = &toolConfig{calling{Mode: mode}}
		}
		if chat.Tool != "" {
			r.Choice.Calling.Allowed = []string{chat.Tool}
		}
	}
	return r, nil
}

// converse writes the turns. The API requires that the answers to the calls of one turn are in
// one turn, and that no turn is empty.
func (r *request) converse(turns []provider.Turn, model string) error {
	names := map[string]string{} // of tools, by the ids of their calls
	before := ""                 // the role of the turn before
	for _, t := range turns {
		for _, call := range t.Calls {
			names[call.ID] = call.Name
		}
		parts, err := parts(t, names)
		if err != nil {
			return err
		}
		if wantsSignatures(model) {
			sign(parts)
		}
		switch last := len(r.Contents) - 1; {
		case len(parts) == 0:
			continue
		case t.Role == "tool" && before == "tool":
			r.Contents[last].Parts = append(r.Contents[last].Parts, parts...)
		default:
			role := map[string]string{"assistant": "model"}[t.Role]
			r.Contents = append(r.Contents, content{cmp.Or(role, "user"), parts})
		}
		before = t.Role
	}
	return nil
}

// wantsSignatures reports whether a model requires the signatures of earlier calls. Models of the
// third generation and later do.
func wantsSignatures(model string) bool {
	generation, ok := strings.CutPrefix(model, "gemini-")
	return ok && !strings.HasPrefix(generation, "1.") && !strings.HasPrefix(generation, "2.")
}

// sign gives the first call of a turn, which needs a signature, the one that turns the check off:
// in OpenAI's and Anthropic's APIs, clients cannot keep the original one.
func sign(parts []part) {
	if i := slices.IndexFunc(parts, func(p part) bool { return p.Call != nil }); i >= 0 {
		parts[i].Signature = "skip_thought_signature_validator"
	}
}

// modes translate tool_choice.
var modes = map[string]string{"auto": "AUTO", "none": "NONE", "required": "ANY"}

// configure writes the settings.
func (r *request) configure(chat *provider.Chat) {
	set := func(name string, value any, given bool) {
		if given {
			r.Config[name] = value
		}
	}
	// The client's own generationConfig is kept.
	if own := chat.Rest["generationConfig"]; jsonscan.KindOf(own) == jsonscan.Object {
		_ = json.Unmarshal(own, &r.Config) // it is JSON
	}
	set("topK", chat.Rest["top_k"], chat.Rest["top_k"] != nil)
	set("temperature", chat.Temperature, chat.Temperature != nil)
	set("topP", chat.TopP, chat.TopP != nil)
	set("maxOutputTokens", chat.MaxTokens, chat.MaxTokens > 0)
	set("stopSequences", chat.Stop, len(chat.Stop) > 0)
	set("frequencyPenalty", chat.FrequencyPenalty, chat.FrequencyPenalty != nil)
	set("presencePenalty", chat.PresencePenalty, chat.PresencePenalty != nil)
	set("seed", chat.Seed, chat.Seed != nil && int64(int32(*chat.Seed)) == *chat.Seed) // 32 bits at most
	set("responseMimeType", "application/json", chat.JSON)
	set("responseJsonSchema", chat.Schema, chat.Schema != nil)
}

func parts(t provider.Turn, names map[string]string) ([]part, error) {
	list := []part{}
	text := ""
	for _, p := range t.Parts {
		mediaType, data, isData := p.Data()
		switch {
		case t.Role == "tool" && p.At != "":
			return nil, kind.Refusal(p.At, "Let a tool answer with text")
		case isData:
			list = append(list, part{Inline: &inlineData{mediaType, data}})
		case p.ImageURL != "":
			list = append(list, part{File: &fileData{p.ImageURL}})
		case p.File != "":
			return nil, kind.Refusal(p.At, "Give the file in base64")
		default:
			list, text = append(list, part{Text: p.Text}), text+p.Text
		}
	}
	if t.Role == "tool" {
		return []part{{Response: &functionResponse{ID: t.Answers, Name: cmp.Or(t.Name, names[t.Answers]), Response: map[string]any{"result": text}}}}, nil
	}
	for _, call := range t.Calls {
		list = append(list, part{Call: &functionCall{call.ID, call.Name, call.Input()}})
	}
	return list, nil
}
