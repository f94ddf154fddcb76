package prompt

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/ardanlabs/jinja"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"thoth/station/wire"
)

// Refusal is a template's own raise_exception: these messages are not for this
// model, and the message says why.
type Refusal struct{ Message string }

func (e *Refusal) Error() string {
	return "the model's chat template refuses these messages: " + e.Message
}

// VariableError is a template variable a request may not set.
type VariableError struct{ Name string }

func (e *VariableError) Error() string {
	return fmt.Sprintf("the template variable %q cannot be set by a request", e.Name)
}

// SizeError is a conversation with more JSON than can be rendered.
type SizeError struct{ Param string } // where it became so

func (e *SizeError) Error() string {
	return fmt.Sprintf("tools, the arguments of tool calls and template variables have more than %d names and values together: so many are allowed", maxValues)
}

// ErrUnsafe means that the template inspects text that looks like a control
// token, so that it cannot be shown to the template and kept harmless at once.
var ErrUnsafe = errors.New("a message contains text that this model's chat template reads as a control marker")

// Source is what a template is compiled from.
type Source struct {
	ChatTemplate string // of the GGUF; empty: a built-in one is chosen
	Architecture string
	BOS, EOS     string // texts of the tokens, for the template's variables
}

// Template renders conversations. It is safe for concurrent use.
type Template struct {
	Origin    string // "model", or "built-in NAME"
	Abilities Abilities

	source        Source
	compiled      *jinja.Template
	now           func() time.Time
	calls         callStyle
	systemFades   bool            // it leaves the system message out when no user message is last
	words         map[string]bool // of the template's text and of JSON Schema
	reasoningKeys []string        // under which it looks for an answer's reasoning
}

// reserved are the variables only this package sets, and the functions of the
// template language.
var reserved = map[string]bool{
	jsonFilter: true, "messages": true, "tools": true, "documents": true, "add_generation_prompt": true,
	"bos_token": true, "eos_token": true, "raise_exception": true, "strftime_now": true,
	"namespace": true, "range": true, "dict": true, "joiner": true, "cycler": true, "loop": true, "chat_template": true,
}

// Compile compiles the source and proves that it can render a chat. The error is
// a sentence for the operator.
func Compile(src Source) (*Template, error) {
	t := &Template{Origin: "model", source: src, now: time.Now}
	text := src.ChatTemplate
	if text == "" {
		var name string
		name, text = builtin(src)
		t.Origin = "built-in " + name
	}
	var err error
	t.words = wordsOf(text)
	for _, key := range []string{"reasoning_content", "thinking", "reasoning"} {
		if t.words[key] { // by the text alone
			t.reasoningKeys = append(t.reasoningKeys, key)
		}
	}
	maps.Copy(t.words, schemaWords)
	if t.compiled, err = compile(withOwnFilters(text)); err != nil {
		return nil, fmt.Errorf("the chat template does not compile: %w", err)
	}
	if err = t.probe(text); err != nil {
		return nil, fmt.Errorf("the chat template does not render a plain chat: %w", err)
	}
	return t, nil
}

// Render gives the prompt of a conversation, the answer's opening included. The
// error is a *Refusal, a *VariableError, a *SizeError, ErrUnsafe, or a fault of the template.
func (t *Template) Render(c Conversation) ([]wire.Segment, error) {
	if err := checkVariables(c.Variables); err != nil {
		return nil, err
	}
	r, err := t.prepare(c)
	if err != nil {
		return nil, err
	}
	_, segs, err := r.split()
	return segs, err
}

// wordsOf are the names in a template's text: all it can look for by name.
func wordsOf(text string) map[string]bool {
	words := map[string]bool{}
	for _, w := range word.FindAllString(text, -1) {
		words[w] = true
	}
	return words
}

var word = regexp.MustCompile(`\$?[A-Za-z_][A-Za-z0-9_]*`)

// checkVariables allows an object whose names are identifiers and not reserved.
func checkVariables(variables []byte) error {
	if len(variables) == 0 {
		return nil
	}
	var top map[string]jsontext.Value
	if err := json.Unmarshal(variables, &top); err != nil {
		return &VariableError{Name: ""}
	}
	for _, name := range slices.Sorted(maps.Keys(top)) { // of several, always the same is named
		if reserved[name] || !identifier(name) {
			return &VariableError{Name: name}
		}
	}
	return nil
}

func identifier(s string) bool {
	for i, r := range s {
		letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return s != "" && len(s) <= 64
}

func compile(text string) (t *jinja.Template, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	return jinja.Compile(text)
}
