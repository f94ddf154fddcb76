package prompt

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/ardanlabs/jinja"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// renderer renders one conversation as often as is needed: its JSON is read once, and
// the time is the same in all renderings, so that they agree.
type renderer struct {
	t *Template
	Conversation
	now       time.Time
	variables jsonText
	tools     []jsonText
	arguments [][]jsonText // of the messages' calls; nil where the template wants their text
}

// prepare adapts a conversation to the template.
func (t *Template) prepare(c Conversation) (*renderer, error) { return t.renderer(t.adapt(c)) }

// renderer is for a conversation as it is.
func (t *Template) renderer(c Conversation) (r *renderer, err error) {
	r = &renderer{t: t, Conversation: c, now: t.now(), tools: make([]jsonText, len(c.Tools)), arguments: make([][]jsonText, len(c.Messages))}
	room := maxValues
	if len(c.Variables) > 0 {
		if r.variables, err = readJSON(c.Variables, &room, namesOf(c.Variables), number); err != nil {
			return nil, sized("chat_template_kwargs", err)
		}
	}
	for i, tool := range c.Tools {
		if r.tools[i], err = readJSON(tool.Definition, &room, t.looksFor, spelled); err != nil {
			return nil, sized("tools", fmt.Errorf("tools[%d]: %w", i, err))
		}
	}
	for i, m := range c.Messages {
		r.arguments[i] = make([]jsonText, len(m.ToolCalls))
		for j, call := range m.ToolCalls {
			if t.calls.argumentsText {
				continue
			}
			if r.arguments[i][j], err = readJSON([]byte(call.arguments()), &room, func(string) bool { return false }, spelled); err != nil {
				return nil, sized("messages", fmt.Errorf("messages[%d].tool_calls[%d].function.arguments: %w", i, j, err))
			}
		}
	}
	return r, nil
}

// maxValues bounds the JSON of a conversation, names included: a value takes some 200
// bytes while it is rendered, whatever it is of its text.
const maxValues = 200_000

// sized makes an error of too many values that of the parameter in which they became so.
func sized(param string, err error) error {
	if errors.Is(err, errMany) {
		return &SizeError{Param: param}
	}
	return err
}

// looksFor tells of a text in a tool that a template may look for it: it is a word of
// the template's own text, or of JSON Schema. Those stay unmarked, and none is a
// control token.
func (t *Template) looksFor(text string) bool { return t.words[text] }

// namesOf keeps the names of variables unmarked, or the template would not
// find them; names of nested objects that equal one are left too, which is
// harmless: checkVariables allows only identifiers on the top.
func namesOf(variables []byte) func(string) bool {
	var top map[string]jsontext.Value
	_ = json.Unmarshal(variables, &top)
	return func(s string) bool { _, ok := top[s]; return ok }
}

// render runs the template once.
func (r *renderer) render(mark marker) (out string, err error) {
	// The library guards its own types poorly: a template that calls a filter on
	// an odd value must not end the process.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the chat template failed: %v", r)
		}
	}()
	vars := map[string]jinja.Value{}
	if r.variables != nil {
		maps.Copy(vars, r.variables.value(mark, false).AsDict().Data)
	}
	// As in the makers' own renderer, a template finds tools defined, and none
	// when there are none.
	vars["tools"] = jinja.None()
	if len(r.tools) > 0 {
		vars["tools"] = r.toolValues(mark)
	}
	vars["messages"] = r.messageValues(mark)
	var refusal *Refusal
	vars[jsonFilter] = dumps
	vars["add_generation_prompt"] = jinja.NewBool(true)
	vars["bos_token"] = jinja.NewString(r.t.source.BOS)
	vars["eos_token"] = jinja.NewString(r.t.source.EOS)
	vars["strftime_now"] = strftimeNow(r.now)
	vars["raise_exception"] = jinja.NewCallable("raise_exception", func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		refusal = &Refusal{Message: "no reason given"}
		if len(args) > 0 && args[0].IsString() {
			refusal.Message = args[0].AsString()
		}
		return jinja.Value{}, refusal
	})
	out, err = r.t.compiled.RenderValues(vars)
	if refusal != nil {
		return "", refusal
	}
	if err != nil {
		return "", fmt.Errorf("the chat template failed: %w", err)
	}
	return strings.ReplaceAll(out, numberMark, ""), nil
}
