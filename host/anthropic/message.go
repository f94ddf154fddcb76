package anthropic

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"thoth/host/openai"
	"thoth/host/prompt"
)

// InputMessage is one of a request: its content is a string or an array of blocks.
type InputMessage struct {
	Role    *string        `json:"role"`
	Content jsontext.Value `json:"content"`
}

// block is one of a message's content, of whatever type.
type block struct {
	Type         *string        `json:"type"`
	Text         *string        `json:"text"`
	Thinking     *string        `json:"thinking"`
	ID           string         `json:"id"`
	Name         string         `json:"name"`
	Input        jsontext.Value `json:"input"`
	ToolUseID    string         `json:"tool_use_id"`
	Content      jsontext.Value `json:"content"`
	IsError      bool           `json:"is_error"`
	CacheControl *CacheControl  `json:"cache_control"`
}

// CacheControl marks a block: the prompt up to its end is to be kept.
type CacheControl struct {
	Type *string `json:"type"`
	TTL  *string `json:"ttl"`
}

// maxMarks is Anthropic's limit.
const maxMarks = 4

// mark counts a mark; the request has one lifetime, the longest it asks for.
func (r *Request) mark(path string, c *CacheControl) *openai.Error {
	if c == nil {
		return nil
	}
	path += "cache_control"
	switch {
	case c.Type == nil:
		return missing(path+".type", "allowed is ephemeral")
	case *c.Type != "ephemeral":
		return invalid(path+".type", "is %q: allowed is ephemeral", openai.Clip(*c.Type))
	}
	ttl := 5 * time.Minute
	switch {
	case c.TTL == nil || *c.TTL == "5m":
	case *c.TTL == "1h":
		ttl = time.Hour
	default:
		return invalid(path+".ttl", "is %q: allowed are 5m and 1h", openai.Clip(*c.TTL))
	}
	if r.marks++; r.marks > maxMarks {
		return invalid(path, "is one too many: at most %d blocks of a request may have it", maxMarks)
	}
	r.ttl = max(r.ttl, ttl)
	return nil
}

// reader puts the conversation together. Turns of one role are one message, as the
// reference says. A mark on what is no text of a message (a tool, a call) goes to the
// end of the next text: what is kept up to there has all of it.
type reader struct {
	r       *Request
	blocks  *openai.Bound // how many there may be
	out     []draft
	pending bool            // a mark waits for the next text
	calls   map[string]bool // ids of the tool_use blocks so far
	open    []string        // of the last turn, without a result yet
}

// draft is a message as it grows. Its text and its reasoning are bytes until then:
// thousands of blocks, each put to the end of a string, would copy it as often.
type draft struct {
	prompt.Message
	text, reasoning []byte
}

func (r *Request) readConversation(l openai.Limits) *openai.Error {
	switch {
	case r.Messages == nil:
		return missing("messages", "give an array of messages")
	case len(r.Messages) == 0:
		return openai.NewError(openai.CodeInvalidValue, "messages", "messages is empty: give at least one message")
	}
	d := &reader{r: r, blocks: l.PartsBound(), calls: map[string]bool{}, pending: r.markedTools}
	if e := d.system(); e != nil {
		return e
	}
	for i := range r.Messages {
		if e := d.message(fmt.Sprintf("messages[%d]", i), &r.Messages[i]); e != nil {
			return e
		}
	}
	last := len(d.out) - 1
	switch {
	case len(d.open) > 0:
		return openai.NewError(openai.CodeInvalidValue, "messages", "messages end with the tool_use %q without its tool_result", openai.Clip(d.open[0]))
	case last < 0 || d.out[last].Role == prompt.System:
		return openai.NewError(openai.CodeInvalidValue, "messages", "messages have no content")
	}
	if m := d.out[last]; m.Role == prompt.Assistant {
		switch trimmed := bytes.TrimRightFunc(m.text, unicode.IsSpace); {
		case len(m.reasoning) > 0:
			return openai.NewError(openai.CodeUnsupported, "messages", "messages end with an assistant message that has thinking: the answer can go on with text only")
		case len(m.text) == 0:
			return openai.NewError(openai.CodeInvalidValue, "messages", "messages end with an assistant message without text: there is nothing to go on with")
		case len(trimmed) != len(m.text):
			return openai.NewError(openai.CodeInvalidValue, "messages", "messages end with an assistant message that ends in white space: leave it out, the answer goes on from there")
		}
		r.Prefill, d.out = string(m.text), d.out[:last]
		if last--; last < 0 || d.out[last].Role == prompt.System {
			return openai.NewError(openai.CodeInvalidValue, "messages", "messages have no user message")
		}
	}
	if c := r.CacheControl; c != nil {
		if e := r.mark("", c); e != nil {
			return e
		}
		d.out[last].Breakpoints = append(d.out[last].Breakpoints, len(d.out[last].text))
	}
	r.Conversation.Messages = make([]prompt.Message, len(d.out))
	for i := range d.out {
		m := &d.out[i]
		m.Content, m.Reasoning = string(m.text), string(m.reasoning)
		r.Conversation.Messages[i] = m.Message
	}
	return nil
}

func (d *reader) system() *openai.Error {
	v := d.r.System
	if !openai.Present(v) {
		return nil
	}
	m := draft{Message: prompt.Message{Role: prompt.System}}
	blocks, e := d.blocksOf("system", v)
	if e != nil {
		return e
	}
	for i, b := range blocks {
		path := fmt.Sprintf("system[%d]", i)
		if *b.Type != "text" {
			return unsupported(path+".type", "is %q: allowed is text", openai.Clip(*b.Type))
		}
		if e := d.text(&m, path, &b, "\n\n"); e != nil {
			return e
		}
	}
	if len(m.text) > 0 {
		d.out = append(d.out, m)
	}
	return nil
}

// blocksOf reads content: a string is one text block.
func (d *reader) blocksOf(path string, v jsontext.Value) ([]block, *openai.Error) {
	text := "text"
	switch v.Kind() {
	case '"':
		b := block{Type: &text, Text: new(string)}
		return []block{b}, openai.DecodeAt(path, v, b.Text)
	case '[':
		var all []block
		if e := openai.DecodeAt(path, v, &all, openai.ListOf[[]block](d.blocks)); e != nil {
			return nil, e
		}
		for i, b := range all {
			if b.Type == nil {
				return nil, missing(fmt.Sprintf("%s[%d].type", path, i), "blocks need a type")
			}
		}
		return all, nil
	}
	return nil, wrongKind(path, "a string or an array of blocks", v)
}

// text adds a text block to a message; between goes before it where there is text
// already.
func (d *reader) text(m *draft, path string, b *block, between string) *openai.Error {
	if b.Text == nil {
		return missing(path+".text", "a text block has one")
	}
	if len(m.text) > 0 && *b.Text != "" {
		m.text = append(m.text, between...)
	}
	m.text = append(m.text, *b.Text...)
	d.settle(m)
	return d.marked(m, path, b)
}

// settle puts a mark that waits to the end of a turn's text. Templates show tools
// before the first turn, and some after the system message's text.
func (d *reader) settle(m *draft) {
	if d.pending && len(m.text) > 0 && m.Role != prompt.System {
		m.Breakpoints = append(m.Breakpoints, len(m.text))
		d.pending = false
	}
}

func (d *reader) marked(m *draft, path string, b *block) *openai.Error {
	if b.CacheControl != nil {
		m.Breakpoints = append(m.Breakpoints, len(m.text))
	}
	return d.r.mark(path+".", b.CacheControl)
}

func (d *reader) message(path string, in *InputMessage) *openai.Error {
	const allowed = "allowed are user and assistant"
	switch {
	case in.Role == nil:
		return missing(path+".role", allowed)
	case !openai.Present(in.Content):
		return missing(path+".content", "give a string or an array of blocks")
	}
	path += ".content"
	blocks, e := d.blocksOf(path, in.Content)
	if e != nil {
		return e
	}
	switch *in.Role {
	case "user":
		return d.user(path, blocks)
	case "assistant":
		return d.assistant(path, blocks)
	}
	return invalid(strings.TrimSuffix(path, ".content")+".role", "is %q: %s; instructions go into system", openai.Clip(*in.Role), allowed)
}

// turn is the message of a role that goes on, or a new one.
func (d *reader) turn(role string) *draft {
	if n := len(d.out); n > 0 && d.out[n-1].Role == role {
		return &d.out[n-1]
	}
	d.out = append(d.out, draft{Message: prompt.Message{Role: role}})
	return &d.out[len(d.out)-1]
}

func (d *reader) user(path string, blocks []block) *openai.Error {
	results, first := true, true
	for i, b := range blocks {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch *b.Type {
		case "tool_result":
			if !results {
				return invalid(at, "stands after text: the tool_result blocks of a message come first")
			}
			if e := d.result(at, &b); e != nil {
				return e
			}
		case "text":
			results = false
			if e := d.answered(path); e != nil {
				return e
			}
			between := ""
			if first {
				between = "\n\n" // of a turn before
			}
			first = false
			if e := d.text(d.turn(prompt.User), at, &b, between); e != nil {
				return e
			}
		default:
			return unsupported(at+".type", "is %q, which this model does not take: allowed are text and tool_result", openai.Clip(*b.Type))
		}
	}
	return d.answered(path)
}

// answered checks that each tool_use of the turn before has its result.
func (d *reader) answered(path string) *openai.Error {
	if len(d.open) > 0 {
		return invalid(path, "lacks the tool_result of the tool_use %q of the message before it", openai.Clip(d.open[0]))
	}
	return nil
}

// errorPrefix is how a template, which knows of no errors, shows one.
const errorPrefix = "Error: "

func (d *reader) result(path string, b *block) *openai.Error {
	at := slices.Index(d.open, b.ToolUseID)
	switch {
	case b.ToolUseID == "":
		return missing(path+".tool_use_id", "it names the tool_use block that it answers")
	case at < 0:
		return invalid(path+".tool_use_id", "is %q: the message before has no tool_use with this id that is not answered yet", openai.Clip(b.ToolUseID))
	}
	d.open = slices.Delete(d.open, at, at+1)
	m := draft{Message: prompt.Message{Role: prompt.ToolResult, ToolCallID: b.ToolUseID}}
	if b.IsError {
		m.text = append(m.text, errorPrefix...)
	}
	if openai.Present(b.Content) {
		inner, e := d.blocksOf(path+".content", b.Content)
		if e != nil {
			return e
		}
		for i, c := range inner {
			in := fmt.Sprintf("%s.content[%d]", path, i)
			if *c.Type != "text" {
				return unsupported(in+".type", "is %q, which this model does not take: allowed is text", openai.Clip(*c.Type))
			}
			if e := d.text(&m, in, &c, ""); e != nil {
				return e
			}
		}
	}
	if e := d.marked(&m, path, b); e != nil {
		return e
	}
	d.out = append(d.out, m)
	return nil
}

func (d *reader) assistant(path string, blocks []block) *openai.Error {
	if e := d.answered(path); e != nil {
		return e
	}
	m := d.turn(prompt.Assistant)
	first := true
	for i, b := range blocks {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch *b.Type {
		case "text":
			between := ""
			if first {
				between = "\n\n"
			}
			first = false
			if e := d.text(m, at, &b, between); e != nil {
				return e
			}
		case "thinking":
			if b.Thinking == nil {
				return missing(at+".thinking", "a thinking block has one")
			}
			m.reasoning = append(m.reasoning, *b.Thinking...)
		case "tool_use":
			if e := d.call(m, at, &b); e != nil {
				return e
			}
		default:
			return unsupported(at+".type", "is %q, which this model does not take: allowed are text, thinking and tool_use", openai.Clip(*b.Type))
		}
	}
	return nil
}

func (d *reader) call(m *draft, path string, b *block) *openai.Error {
	switch {
	case b.ID == "":
		return missing(path+".id", "the tool_result names its tool_use by it")
	case d.calls[b.ID]:
		return invalid(path+".id", "is %q, as that of a tool_use before it: each needs its own", openai.Clip(b.ID))
	case b.Name == "":
		return missing(path+".name", "it names the tool")
	case !openai.Present(b.Input):
		return missing(path+".input", "give the arguments as an object, {} for none")
	case b.Input.Kind() != '{':
		return wrongKind(path+".input", "an object", b.Input)
	}
	d.calls[b.ID] = true
	d.open = append(d.open, b.ID)
	m.ToolCalls = append(m.ToolCalls, prompt.ToolCall{ID: b.ID, Name: b.Name, Arguments: string(b.Input)})
	d.pending = d.pending || b.CacheControl != nil
	return d.r.mark(path+".", b.CacheControl)
}
