package responses

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"thoth/host/openai"
)

// readInput reads input: a string is one message of the user. Items get their ids with
// the response's, where they have none of their own.
func (r *Request) readInput(l openai.Limits) *openai.Error {
	const path = "input"
	v := r.RawInput
	switch {
	case !openai.Present(v):
		if r.PreviousID == "" && !r.counting {
			return missing(path, "give a string or an array of items")
		}
		return nil
	case v.Kind() == '"':
		var s string
		if e := openai.DecodeAt(path, v, &s); e != nil {
			return e
		}
		r.Input = []Item{{Type: TypeMessage, Role: roleUser, Content: []Part{{Type: partInput, Text: s}}}}
	case v.Kind() == '[':
		var all []jsontext.Value
		if e := openai.DecodeAt(path, v, &all, openai.ListOf[[]jsontext.Value](&openai.Bound{Most: l.Messages})); e != nil {
			return e
		}
		if len(all) == 0 && r.PreviousID == "" && !r.counting {
			return openai.NewError(openai.CodeInvalidValue, path, "input is empty: give at least one item")
		}
		r.Input = make([]Item, len(all))
		for i, one := range all {
			at := fmt.Sprintf("%s[%d]", path, i)
			var e *openai.Error
			if r.Input[i], e = readItem(at, one, r.parts); e != nil {
				return e
			}
			if e := r.checkItem(at, &r.Input[i]); e != nil {
				return e
			}
		}
	default:
		return wrongKind(path, "a string or an array of items", v)
	}
	for i := range r.Input {
		if it := &r.Input[i]; it.Status == "" {
			it.Status = StatusCompleted
		}
	}
	return nil
}

// checkItem checks what matters in a request, and not in what was stored: a cut
// answer has calls whose arguments are not whole.
func (r *Request) checkItem(path string, it *Item) *openai.Error {
	if utf8.RuneCountInString(it.ID) > maxID {
		return invalid(path+".id", "has more than the %d characters that are allowed", maxID)
	}
	switch it.Type {
	case TypeCall:
		return openai.CheckArguments(path+".arguments", &it.Arguments)
	case TypeReasoning:
		return it.open(path)
	}
	check := func(path string, parts []Part) *openai.Error {
		for i, p := range parts {
			if p.Breakpoint == nil {
				continue
			}
			at := fmt.Sprintf("%s[%d].prompt_cache_breakpoint", path, i)
			if e := p.Breakpoint.Validate(at); e != nil {
				return e
			}
			if r.breakpoints++; r.breakpoints > openai.MaxBreakpoints {
				return invalid(at, "is one too many: at most %d parts of a request may have it", openai.MaxBreakpoints)
			}
			r.ttl = max(r.ttl, p.Breakpoint.Lifetime())
		}
		return nil
	}
	if e := check(path+".content", it.Content); e != nil {
		return e
	}
	return check(path+".output", it.Output.Parts)
}

// open takes reasoning out of its token, where it came without its text. Another server's
// token is passed over where there is something else to go by: a client may have begun
// the conversation there.
func (i *Item) open(path string) *openai.Error {
	if i.Encrypted == "" {
		return nil
	}
	text, ok := unseal(i.Encrypted)
	if !ok && len(i.Content)+len(i.Summary) == 0 {
		return invalid(at(path, "encrypted_content"), "cannot be read: it was not written here, or was changed; give the reasoning's content or summary, or leave the item out")
	}
	if ok && len(i.Content) == 0 {
		i.Content = []Part{{Type: partReasoning, Text: text}}
	}
	i.Encrypted = "" // once is enough
	return nil
}

const typesAllowed = "allowed are message, function_call, function_call_output, reasoning and item_reference"

// readItem reads one item, whose parts are counted; path is where it stands, "" for one
// by itself.
func readItem(path string, v jsontext.Value, bound *openai.Bound) (Item, *openai.Error) {
	if v.Kind() != '{' {
		return Item{}, wrongKind(path, "an object", v)
	}
	var in struct {
		Type      *string        `json:"type"`
		ID        string         `json:"id"`
		Status    string         `json:"status"`
		Role      *string        `json:"role"`
		Phase     string         `json:"phase"`
		Content   jsontext.Value `json:"content"`
		Summary   jsontext.Value `json:"summary"`
		Encrypted string         `json:"encrypted_content"`
		CallID    string         `json:"call_id"`
		Name      string         `json:"name"`
		Arguments jsontext.Value `json:"arguments"`
		Output    jsontext.Value `json:"output"`
	}
	if e := openai.DecodeAt(path, v, &in); e != nil {
		return Item{}, e
	}
	it := Item{ID: in.ID, Status: in.Status}
	switch {
	case in.Type != nil:
		it.Type = *in.Type
	case in.Role != nil:
		it.Type = TypeMessage // its short form
	case in.ID != "" && !openai.Present(in.Content):
		it.Type = TypeReference // its short form
	default:
		return it, missing(at(path, "type"), typesAllowed)
	}
	switch it.Status {
	case "", StatusInProgress, StatusCompleted, StatusIncomplete:
	default:
		if it.known() {
			return it, invalid(at(path, "status"), "is %q: allowed are in_progress, completed and incomplete", openai.Clip(it.Status))
		}
	}
	var e *openai.Error
	switch it.Type {
	case TypeMessage:
		if in.Role == nil {
			return it, missing(at(path, "role"), rolesAllowed)
		}
		it.Role, it.Phase = *in.Role, in.Phase
		e = it.readMessage(path, in.Content, bound)
	case TypeReasoning:
		it.Encrypted = in.Encrypted
		e = it.readReasoning(path, in.Content, in.Summary, bound)
	case TypeCall:
		it.CallID, it.Name = in.CallID, in.Name
		switch {
		case it.CallID == "":
			return it, missing(at(path, "call_id"), "the function_call_output names its call by it")
		case it.Name == "":
			return it, missing(at(path, "name"), "it names the function")
		case !openai.Present(in.Arguments):
			return it, missing(at(path, "arguments"), "give a string that holds a JSON object")
		}
		e = openai.DecodeAt(at(path, "arguments"), in.Arguments, (*openai.Arguments)(&it.Arguments))
	case TypeOutput:
		it.CallID = in.CallID
		if it.CallID == "" {
			return it, missing(at(path, "call_id"), "it names the call that this is the output of")
		}
		e = it.readOutput(at(path, "output"), in.Output, bound)
	case TypeReference:
		if it.ID == "" {
			return it, missing(at(path, "id"), "it names the item")
		}
	default:
		return it, unsupported(at(path, "type"), "is %q, which this server does not take: %s", openai.Clip(it.Type), typesAllowed)
	}
	return it, e
}

// known tells whether items of this type are taken.
func (i *Item) known() bool {
	return slices.Contains([]string{TypeMessage, TypeReasoning, TypeCall, TypeOutput}, i.Type)
}

const rolesAllowed = "allowed are user, assistant, system and developer"

func (i *Item) readMessage(path string, content jsontext.Value, bound *openai.Bound) (e *openai.Error) {
	kind, allowed := partInput, []string{partInput}
	switch i.Role {
	case roleUser, roleSystem, roleDeveloper:
	case roleAssistant:
		kind, allowed = partOutput, []string{partOutput, partRefusal}
	default:
		return invalid(at(path, "role"), "is %q: %s; what a tool answered is a function_call_output", openai.Clip(i.Role), rolesAllowed)
	}
	switch i.Phase {
	case "", "commentary", "final_answer":
	default:
		return invalid(at(path, "phase"), "is %q: allowed are commentary and final_answer", openai.Clip(i.Phase))
	}
	path = at(path, "content")
	switch {
	case !openai.Present(content):
		return missing(path, "give a string or an array of parts")
	case content.Kind() == '"':
		i.Content = []Part{{Type: kind}}
		return openai.DecodeAt(path, content, &i.Content[0].Text)
	case content.Kind() != '[':
		return wrongKind(path, "a string or an array of parts", content)
	}
	i.Content, e = readParts(path, content, allowed, bound)
	return e
}

func (i *Item) readReasoning(path string, content, summary jsontext.Value, bound *openai.Bound) (e *openai.Error) {
	if openai.Present(content) {
		if i.Content, e = readParts(at(path, "content"), content, []string{partReasoning}, bound); e != nil {
			return e
		}
	}
	if openai.Present(summary) {
		if i.Summary, e = readParts(at(path, "summary"), summary, []string{partSummary}, bound); e != nil {
			return e
		}
	}
	return nil
}

func (i *Item) readOutput(path string, v jsontext.Value, bound *openai.Bound) (e *openai.Error) {
	switch {
	case !openai.Present(v):
		return missing(path, "give a string or an array of input_text parts")
	case v.Kind() == '"':
		return openai.DecodeAt(path, v, &i.Output.Text)
	case v.Kind() != '[':
		return wrongKind(path, "a string or an array of input_text parts", v)
	}
	i.Output.Parts, e = readParts(path, v, []string{partInput}, bound)
	return e
}

// inputPart is a part as it comes.
type inputPart struct {
	Type       *string                 `json:"type"`
	Text       *string                 `json:"text"`
	Refusal    *string                 `json:"refusal"`
	Breakpoint *openai.CacheBreakpoint `json:"prompt_cache_breakpoint"`
}

// readParts reads an array of parts, none of them of another type than those allowed.
// Annotations and log-probabilities, which clients replay, mean nothing to the model and
// may be many times its text: they are passed over.
func readParts(path string, v jsontext.Value, allowed []string, bound *openai.Bound) ([]Part, *openai.Error) {
	if v.Kind() != '[' {
		return nil, wrongKind(path, "an array of parts", v)
	}
	var all []inputPart
	if e := openai.DecodeAt(path, v, &all, openai.ListOf[[]inputPart](bound)); e != nil {
		return nil, e
	}
	parts := make([]Part, len(all))
	for i, in := range all {
		here := fmt.Sprintf("%s[%d]", path, i)
		switch {
		case in.Type == nil:
			return nil, missing(here+".type", words(allowed))
		case !slices.Contains(allowed, *in.Type):
			return nil, unsupported(here+".type", "is %q, which is not taken here: %s", openai.Clip(*in.Type), words(allowed))
		}
		given, name := in.Text, "text"
		if *in.Type == partRefusal {
			given, name = in.Refusal, "refusal"
		}
		switch {
		case given == nil:
			return nil, missing(here+"."+name, "a part of type "+*in.Type+" has one")
		case in.Breakpoint != nil && *in.Type != partInput:
			return nil, unsupported(here+".prompt_cache_breakpoint", "is only allowed in input_text parts")
		}
		parts[i] = Part{Type: *in.Type, Text: *given, Breakpoint: in.Breakpoint}
	}
	return parts, nil
}

// words says what is allowed.
func words(allowed []string) string {
	last := len(allowed) - 1
	if last == 0 {
		return "allowed is " + allowed[0]
	}
	return "allowed are " + strings.Join(allowed[:last], ", ") + " and " + allowed[last]
}

// at is the path of a field below path.
func at(path, field string) string {
	if path == "" {
		return field
	}
	return path + "." + field
}

func missing(path, hint string) *openai.Error {
	return openai.NewError(openai.CodeMissing, path, "%s is missing: %s", path, hint)
}

func invalid(path, format string, args ...any) *openai.Error {
	return openai.NewError(openai.CodeInvalidValue, path, path+" "+format, args...)
}

func unsupported(path, format string, args ...any) *openai.Error {
	return openai.NewError(openai.CodeUnsupported, path, path+" "+format, args...)
}

func wrongKind(path, want string, v jsontext.Value) *openai.Error {
	return openai.NewError(openai.CodeInvalidType, path, "%s must be %s, not %s", path, want, openai.KindName(v))
}
