package prompt

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"
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
	words         map[string]bool // of the template's text
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
		if t.words[key] {
			t.reasoningKeys = append(t.reasoningKeys, key)
		}
	}
	if t.compiled, err = compile(withOwnFilters(text)); err != nil {
		return nil, fmt.Errorf("the chat template does not compile: %w", err)
	}
	if err = t.probe(text); err != nil {
		return nil, fmt.Errorf("the chat template does not render a plain chat: %w", err)
	}
	return t, nil
}

// Render gives the prompt of a conversation, the answer's opening included. The
// error is a *Refusal, a *VariableError, ErrUnsafe, or a fault of the template.
func (t *Template) Render(c Conversation) ([]wire.Segment, error) {
	if err := checkVariables(c.Variables); err != nil {
		return nil, err
	}
	_, segs, err := t.split(t.adapt(c), t.now())
	return segs, err
}

// render runs the template once. now is fixed by the caller, so that the
// renderings of one request agree.
func (t *Template) render(c Conversation, mark marker, now time.Time) (out string, err error) {
	// The library guards its own types poorly: a template that calls a filter on
	// an odd value must not end the process.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the chat template failed: %v", r)
		}
	}()
	vars := map[string]jinja.Value{}
	if len(c.Variables) > 0 {
		v, err := jsonValue(c.Variables, keepKeys(c.Variables, mark), number)
		if err != nil {
			return "", err
		}
		maps.Copy(vars, v.AsDict().Data)
	}
	// As in the makers' own renderer, a template finds tools defined, and none
	// when there are none.
	vars["tools"] = jinja.None()
	if len(c.Tools) > 0 {
		if vars["tools"], err = t.toolValues(c.Tools, mark); err != nil {
			return "", err
		}
	}
	if vars["messages"], err = t.messageValues(c.Messages, mark); err != nil {
		return "", err
	}
	var refusal *Refusal
	vars[jsonFilter] = dumps
	vars["add_generation_prompt"] = jinja.NewBool(true)
	vars["bos_token"] = jinja.NewString(t.source.BOS)
	vars["eos_token"] = jinja.NewString(t.source.EOS)
	vars["strftime_now"] = strftimeNow(now)
	vars["raise_exception"] = jinja.NewCallable("raise_exception", func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		refusal = &Refusal{Message: "no reason given"}
		if len(args) > 0 && args[0].IsString() {
			refusal.Message = args[0].AsString()
		}
		return jinja.Value{}, refusal
	})
	out, err = t.compiled.RenderValues(vars)
	if refusal != nil {
		return "", refusal
	}
	if err != nil {
		return "", fmt.Errorf("the chat template failed: %w", err)
	}
	return strings.ReplaceAll(out, numberMark, ""), nil
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

// keepKeys leaves the names of variables unmarked, or the template would not
// find them; names of nested objects that equal one are left too, which is
// harmless: checkVariables allows only identifiers on the top.
func keepKeys(variables []byte, mark marker) func(string) string {
	var top map[string]jsontext.Value
	_ = json.Unmarshal(variables, &top)
	return func(s string) string {
		if _, ok := top[s]; ok {
			return s
		}
		return mark(s, false)
	}
}

// checkVariables allows an object whose names are identifiers and not reserved.
func checkVariables(variables []byte) error {
	if len(variables) == 0 {
		return nil
	}
	var top map[string]jsontext.Value
	if err := json.Unmarshal(variables, &top); err != nil {
		return &VariableError{Name: ""}
	}
	for name := range top {
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
