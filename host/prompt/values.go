package prompt

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	"github.com/ardanlabs/jinja"
	"github.com/go-json-experiment/json/jsontext"
)

// marker is applied to every string the client sent, on its way into the
// template's values. Soft text may share a segment with the template's own text
// where that is harmless; see [split].
type marker func(text string, soft bool) string

func same(text string, _ bool) string { return text }

// messageValues builds the template's messages. It is called anew for every
// rendering, since a template may change what it is given.
func (t *Template) messageValues(messages []Message, mark marker) (jinja.Value, error) {
	items := make([]jinja.Value, len(messages))
	for i, m := range messages {
		v := jinja.NewDict()
		d := v.AsDict()
		// What the model wrote before a call has to become the tokens it was
		// written in, or liquid memory does not find the call after it.
		soft := m.Role == Assistant && (len(m.ToolCalls) > 0 || m.Reasoning != "")
		d.Set("role", jinja.NewString(m.Role))
		if m.Content == "" && len(m.ToolCalls) > 0 && !t.calls.emptyContent {
			d.Set("content", jinja.None())
		} else {
			d.Set("content", jinja.NewString(mark(m.Content, soft)))
		}
		setText(d, "name", m.Name, mark)
		for _, key := range t.reasoningKeys {
			if m.Reasoning != "" {
				d.Set(key, jinja.NewString(mark(m.Reasoning, soft)))
			}
		}
		t.setID(d, "tool_call_id", m.ToolCallID, mark)
		if len(m.ToolCalls) > 0 {
			calls := make([]jinja.Value, len(m.ToolCalls))
			for j, c := range m.ToolCalls {
				call, err := t.callValue(c, mark)
				if err != nil {
					return jinja.Value{}, fmt.Errorf("messages[%d].tool_calls[%d].function.arguments: %w", i, j, err)
				}
				calls[j] = call
			}
			d.Set("tool_calls", jinja.NewList(calls))
		}
		items[i] = v
	}
	return jinja.NewList(items), nil
}

func (t *Template) callValue(c ToolCall, mark marker) (jinja.Value, error) {
	fn := jinja.NewDict()
	setText(fn.AsDict(), "name", c.Name, mark)
	if t.calls.argumentsText {
		setText(fn.AsDict(), "arguments", c.arguments(), mark)
	} else {
		args, err := jsonValue([]byte(c.arguments()), func(s string) string { return mark(s, true) }, spelled)
		if err != nil {
			return jinja.Value{}, err
		}
		fn.AsDict().Set("arguments", args)
	}
	call := jinja.NewDict()
	t.setID(call.AsDict(), "id", c.ID, mark)
	call.AsDict().Set("type", jinja.NewString("function"))
	call.AsDict().Set("function", fn)
	return call, nil
}

// toolValues builds the template's tools. What a template looks for is a word of
// its own text, or of JSON Schema: those stay unmarked, and none is a control
// token.
func (t *Template) toolValues(tools []Tool, mark marker) (jinja.Value, error) {
	items := make([]jinja.Value, len(tools))
	for i, tool := range tools {
		v, err := jsonValue(tool.Definition, func(s string) string {
			if t.words[s] || schemaWords[s] {
				return s
			}
			return mark(s, true)
		}, spelled)
		if err != nil {
			return jinja.Value{}, fmt.Errorf("tools[%d]: %w", i, err)
		}
		items[i] = v
	}
	return jinja.NewList(items), nil
}

// schemaWords are the keys and the types of JSON Schema.
var schemaWords = wordsOf(`type function name description parameters strict properties required additionalProperties
	enum const default title items prefixItems anyOf oneOf allOf not $ref $defs definitions format pattern minimum maximum
	exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength minItems maxItems uniqueItems minProperties maxProperties
	nullable examples string integer number boolean array object null`)

func setText(d *jinja.Dict, key, text string, mark marker) {
	if text != "" {
		d.Set(key, jinja.NewString(mark(text, true)))
	}
}

// setID leaves an ordinary id unmarked, since templates check its length.
func (t *Template) setID(d *jinja.Dict, key, id string, mark marker) {
	if id = t.calls.id(id); len(id) <= 64 && ordinaryID.MatchString(id) {
		d.Set(key, jinja.NewString(id))
		return
	}
	setText(d, key, id, mark)
}

var ordinaryID = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// id is a call's id as the template wants it. Short ones must be the same for a
// call and its result, and in every later rendering.
func (s callStyle) id(id string) string {
	if !s.shortIDs || id == "" || shortEnough.MatchString(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:])[:shortID]
}

// Some templates insist on ids of this length.
const shortID = 9

var shortEnough = regexp.MustCompile(`^[A-Za-z0-9]{9}$`)

// jsonValue turns JSON text into a template value. Keys keep their order and
// are marked too: templates print them.
func jsonValue(text []byte, mark func(string) string, number func(jsontext.Token) jinja.Value) (jinja.Value, error) {
	d := valueDecoder{jsontext.NewDecoder(bytes.NewReader(text)), mark, number}
	return d.value()
}

type valueDecoder struct {
	*jsontext.Decoder
	mark   func(string) string
	number func(jsontext.Token) jinja.Value
}

func (d *valueDecoder) value() (jinja.Value, error) {
	tok, err := d.ReadToken()
	if err != nil {
		return jinja.Value{}, err
	}
	switch tok.Kind() {
	case 'n':
		return jinja.None(), nil
	case 't', 'f':
		return jinja.NewBool(tok.Bool()), nil
	case '"':
		return jinja.NewString(d.mark(tok.String())), nil
	case '0':
		return d.number(tok), nil
	case '[':
		var items []jinja.Value
		for d.PeekKind() != ']' {
			v, err := d.value()
			if err != nil {
				return jinja.Value{}, err
			}
			items = append(items, v)
		}
		_, err := d.ReadToken()
		return jinja.NewList(items), err
	}
	v := jinja.NewDict()
	for d.PeekKind() != '}' {
		key, err := d.ReadToken()
		if err != nil {
			return jinja.Value{}, err
		}
		name := key.String()
		item, err := d.value()
		if err != nil {
			return jinja.Value{}, err
		}
		v.AsDict().Set(d.mark(name), item)
	}
	_, err = d.ReadToken()
	return v, err
}

// number keeps integers integers: 9007199254740993 must not pass through a
// float on its way into the prompt.
func number(tok jsontext.Token) jinja.Value {
	if !strings.ContainsAny(tok.String(), ".eE") {
		if i, err := tok.Int(); err == nil {
			return jinja.NewInt(i)
		}
	}
	f, _ := tok.Float()
	return jinja.NewFloat(f)
}

// numberMark begins the text of a number that the template language cannot
// hold as it is spelled (1.0, 1e3, 2⁶⁴). It is no UTF-8, so that no text of a
// client can have it; render takes it out again.
const numberMark = "\xff"

// spelled keeps a number as the client spelled it: the model wrote it so, and
// another spelling is other tokens.
func spelled(tok jsontext.Token) jinja.Value {
	s := tok.String()
	if v := number(tok); v.IsInt() && fmt.Sprint(v.AsInt()) == s || v.IsFloat() && fmt.Sprint(v.AsFloat()) == s {
		return v
	}
	return jinja.NewString(numberMark + s)
}
