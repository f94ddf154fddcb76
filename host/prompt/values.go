package prompt

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"

	"github.com/ardanlabs/jinja"
)

// marker is applied to every string the client sent, on its way into the
// template's values. Soft text may share a segment with the template's own text
// where that is harmless; see [split].
type marker func(text string, soft bool) string

func same(text string, _ bool) string { return text }

// messageValues builds the template's messages. It is called anew for every
// rendering, since a template may change what it is given.
func (r *renderer) messageValues(mark marker) jinja.Value {
	items := make([]jinja.Value, len(r.Messages))
	for i, m := range r.Messages {
		v := jinja.NewDict()
		d := v.AsDict()
		// What the model wrote before a call has to become the tokens it was
		// written in, or liquid memory does not find the call after it.
		soft := m.Role == Assistant && (len(m.ToolCalls) > 0 || m.Reasoning != "")
		d.Set("role", jinja.NewString(m.Role))
		if m.Content == "" && len(m.ToolCalls) > 0 && !r.t.calls.emptyContent {
			d.Set("content", jinja.None())
		} else {
			d.Set("content", jinja.NewString(mark(m.Content, soft)))
		}
		setText(d, "name", m.Name, mark)
		for _, key := range r.t.reasoningKeys {
			if m.Reasoning != "" {
				d.Set(key, jinja.NewString(mark(m.Reasoning, soft)))
			}
		}
		r.t.setID(d, "tool_call_id", m.ToolCallID, mark)
		if len(m.ToolCalls) > 0 {
			calls := make([]jinja.Value, len(m.ToolCalls))
			for j, c := range m.ToolCalls {
				calls[j] = r.callValue(c, r.arguments[i][j], mark)
			}
			d.Set("tool_calls", jinja.NewList(calls))
		}
		items[i] = v
	}
	return jinja.NewList(items)
}

// callValue builds a call; its arguments are nil for a template that wants them as
// their text.
func (r *renderer) callValue(c ToolCall, arguments jsonText, mark marker) jinja.Value {
	fn := jinja.NewDict()
	setText(fn.AsDict(), "name", c.Name, mark)
	if arguments == nil {
		setText(fn.AsDict(), "arguments", c.arguments(), mark)
	} else {
		fn.AsDict().Set("arguments", arguments.value(mark, true))
	}
	call := jinja.NewDict()
	r.t.setID(call.AsDict(), "id", c.ID, mark)
	call.AsDict().Set("type", jinja.NewString("function"))
	call.AsDict().Set("function", fn)
	return call
}

// toolValues builds the template's tools.
func (r *renderer) toolValues(mark marker) jinja.Value {
	items := make([]jinja.Value, len(r.tools))
	for i, tool := range r.tools {
		items[i] = tool.value(mark, true)
	}
	return jinja.NewList(items)
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
