//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
)

// schemaFormat is the response_format of a schema.
func schemaFormat(schema any) obj {
	return obj{"response_format": obj{"type": "json_schema", "json_schema": obj{"name": "answer", "strict": true, "schema": schema}}}
}

// moodSchema is one whose every instance is short.
var moodSchema = obj{"type": "object", "additionalProperties": false, "required": []string{"mood", "level"},
	"properties": obj{"mood": obj{"enum": []string{"calm", "angry"}}, "level": obj{"type": "integer", "minimum": 0, "maximum": 10}}}

// judge is a schema as the reference library has it, formats asserted.
type judge struct{ schema *jsonschema.Schema }

func newJudge(schema any) (judge, error) {
	text, err := json.Marshal(schema)
	if err != nil {
		return judge{}, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return judge{}, err
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("schema.json", doc); err != nil {
		return judge{}, err
	}
	s, err := c.Compile("schema.json")
	return judge{s}, err
}

// check tells why a text is no instance.
func (j judge) check(text string) error {
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err == nil {
		err = j.schema.Validate(v)
	}
	if err != nil {
		return fmt.Errorf("%q: %w", text, err)
	}
	return nil
}

// valid is the check of one text.
func valid(t *testing.T, schema any, text string) {
	t.Helper()
	j, err := newJudge(schema)
	require.NoError(t, err)
	require.NoError(t, j.check(text))
}

// madeCall is a call of an answer.
type madeCall struct{ ID, Name, Arguments string }

// turn is one choice of an answer, whole or put together from a stream.
type turn struct {
	Content   *string // nil: null, or never sent
	Reasoning string
	Calls     []madeCall
	Finish    string
	Logprobs  string   // the bytes of all tokens told
	Pieces    []string // of a stream's content, reasoning and arguments, as they came
}

func (a turn) text() string {
	if a.Content == nil {
		return ""
	}
	return *a.Content
}

// names are those of the calls.
func (a turn) names() (names []string) {
	for _, c := range a.Calls {
		names = append(names, c.Name)
	}
	return names
}

// same is what a turn says, its calls' ids apart: those are new each time.
func (a turn) same() turn {
	a.Pieces, a.Calls = nil, slices.Clone(a.Calls)
	for i := range a.Calls {
		a.Calls[i].ID = ""
	}
	return a
}

// message is the turn as clients send it back.
func (a turn) message() obj {
	m := obj{"role": "assistant", "content": a.Content}
	if a.Reasoning != "" {
		m["reasoning_content"] = a.Reasoning
	}
	if len(a.Calls) > 0 {
		var calls []obj
		for _, c := range a.Calls {
			calls = append(calls, obj{"id": c.ID, "type": "function", "function": obj{"name": c.Name, "arguments": c.Arguments}})
		}
		m["tool_calls"] = calls
	}
	return m
}

// talk is an answer with all its choices.
type talk struct {
	Turns                               []turn
	Prompt, Completion, Cached, Thought int // tokens
	Gnosis                              gnosis
	Raw                                 []byte
}

// talkJSON is an answer, or an event of a stream.
type talkJSON struct {
	Choices []struct {
		Index          int
		Message, Delta *struct {
			Role             *string
			Content          *string
			ReasoningContent string `json:"reasoning_content"`
			ToolCalls        []struct {
				Index    *int
				ID, Type string
				Function *struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
		Logprobs *struct {
			Content []struct{ Bytes []int }
		}
		FinishReason *string `json:"finish_reason"`
	}
	Usage *struct {
		PromptTokens     int `json:"prompt_tokens"`
		CompletionTokens int `json:"completion_tokens"`
		PromptDetails    struct {
			CachedTokens int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
		Details struct {
			ReasoningTokens int `json:"reasoning_tokens"`
		} `json:"completion_tokens_details"`
	}
	Gnosis *gnosis `json:"_gnosis"`
}

// tryTalk posts P, whole or streamed, and reads all of the answer. It is safe on
// any goroutine. A stream has to keep the rules by which clients put it together.
func (s *server) tryTalk(ctx context.Context, merge ...obj) (talk, error) {
	q := P(merge...)
	streamed := q["stream"] == true
	if streamed {
		q["stream_options"] = obj{"include_usage": true}
	}
	resp, err := s.open(ctx, http.MethodPost, chatPath, q)
	if err != nil {
		return talk{}, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return talk{}, err
	case resp.StatusCode != http.StatusOK:
		return talk{}, fmt.Errorf("status %d: %s", resp.StatusCode, raw)
	case !utf8.Valid(raw):
		return talk{}, fmt.Errorf("the answer is not UTF-8: %q", raw)
	}
	a := talk{Raw: raw}
	if streamed {
		err = a.addStream(raw)
	} else {
		err = a.addWhole(raw)
	}
	if err != nil {
		return a, fmt.Errorf("%w in %s", err, raw)
	}
	for i, t := range a.Turns {
		switch {
		case t.Finish == "":
			return a, fmt.Errorf("choice %d does not end: %s", i, raw)
		case t.Finish == "tool_calls" && len(t.Calls) == 0, t.Finish == "stop" && len(t.Calls) > 0:
			return a, fmt.Errorf("%s with %d calls: %s", t.Finish, len(t.Calls), raw)
		}
	}
	return a, nil
}

// talk is tryTalk for the test's own goroutine.
func (s *server) talk(t *testing.T, merge ...obj) talk {
	t.Helper()
	a, err := s.tryTalk(t.Context(), merge...)
	require.NoError(t, err)
	return a
}

// turn is the only choice of an answer.
func (s *server) turn(t *testing.T, merge ...obj) turn {
	t.Helper()
	a := s.talk(t, merge...)
	require.Len(t, a.Turns, 1)
	return a.Turns[0]
}

// bothWays asks whole and streamed, wants the same of both, and returns what the
// stream said. Without a seed the temperature has to be 0.
func (s *server) bothWays(t *testing.T, merge ...obj) turn {
	t.Helper()
	whole := s.turn(t, merge...)
	streamed := s.turn(t, append(slices.Clone(merge), obj{"stream": true})...)
	require.Equal(t, whole.same(), streamed.same())
	return streamed
}

func (a *talk) addWhole(raw []byte) error {
	var o talkJSON
	if err := json.Unmarshal(raw, &o); err != nil {
		return err
	}
	for _, c := range o.Choices {
		if c.Message == nil || c.FinishReason == nil {
			return fmt.Errorf("no message or no finish_reason")
		}
		t := turn{Content: c.Message.Content, Reasoning: c.Message.ReasoningContent, Finish: *c.FinishReason}
		for _, call := range c.Message.ToolCalls {
			if call.Type != "function" || call.ID == "" || call.Function == nil {
				return fmt.Errorf("no whole call")
			}
			t.Calls = append(t.Calls, madeCall{call.ID, call.Function.Name, call.Function.Arguments})
		}
		if c.Logprobs != nil {
			for _, token := range c.Logprobs.Content {
				t.Logprobs += bytesOf(token.Bytes)
			}
		}
		a.Turns = append(a.Turns, t)
	}
	return a.count(&o)
}

// addStream puts a stream together: a role first, then deltas without null, of
// calls each in its place, and one finish_reason behind all of them.
func (a *talk) addStream(raw []byte) error {
	e, err := parseEvents(raw)
	if err != nil {
		return err
	}
	if !e.Done {
		return fmt.Errorf("the stream is not whole")
	}
	turns := map[int]*turn{}
	for _, event := range e.JSON {
		text, err := json.Marshal(event)
		if err != nil {
			return err
		}
		var o talkJSON
		if err := json.Unmarshal(text, &o); err != nil {
			return err
		}
		for i, c := range o.Choices {
			t, begun := turns[c.Index], true
			if t == nil {
				t, begun = &turn{}, false
				turns[c.Index] = t
			}
			delta := event["choices"].([]any)[i].(obj)["delta"].(obj)
			switch {
			case c.Delta == nil || c.Message != nil:
				return fmt.Errorf("no delta")
			case begun == (c.Delta.Role != nil):
				return fmt.Errorf("the role comes first, and once: %s", text)
			case t.Finish != "":
				return fmt.Errorf("an event behind the end: %s", text)
			case hasNull(delta):
				return fmt.Errorf("null in a delta: %s", text)
			}
			if c.FinishReason != nil {
				t.Finish = *c.FinishReason
			}
			if s := c.Delta.Content; s != nil && *s != "" {
				joined := t.text() + *s
				t.Content, t.Pieces = &joined, append(t.Pieces, *s)
			}
			if s := c.Delta.ReasoningContent; s != "" {
				t.Reasoning, t.Pieces = t.Reasoning+s, append(t.Pieces, s)
			}
			for _, call := range c.Delta.ToolCalls {
				switch n := len(t.Calls); {
				case call.Index == nil || call.Function == nil || *call.Index > n || *call.Index < n-1:
					return fmt.Errorf("a call out of its place: %s", text)
				case *call.Index == n:
					if call.ID == "" || call.Type != "function" || call.Function.Name == "" {
						return fmt.Errorf("a call opens with id, type and name: %s", text)
					}
					t.Calls = append(t.Calls, madeCall{ID: call.ID, Name: call.Function.Name})
				case call.ID != "" || call.Type != "" || call.Function.Name != "":
					return fmt.Errorf("a call goes on with arguments alone: %s", text)
				}
				if s := call.Function.Arguments; s != "" {
					t.Calls[*call.Index].Arguments += s
					t.Pieces = append(t.Pieces, s)
				}
			}
			if c.Logprobs != nil {
				for _, token := range c.Logprobs.Content {
					t.Logprobs += bytesOf(token.Bytes)
				}
			}
		}
		if err := a.count(&o); err != nil {
			return err
		}
	}
	for _, i := range slices.Sorted(maps.Keys(turns)) {
		t := turns[i]
		if t.Content == nil && len(t.Calls) == 0 { // no text at all is the text ""
			t.Content = new(string)
		}
		a.Turns = append(a.Turns, *t)
	}
	return nil
}

func (a *talk) count(o *talkJSON) error {
	if u := o.Usage; u != nil {
		a.Prompt, a.Completion, a.Cached, a.Thought = u.PromptTokens, u.CompletionTokens, u.PromptDetails.CachedTokens, u.Details.ReasoningTokens
	}
	if o.Gnosis != nil {
		a.Gnosis = *o.Gnosis
	}
	ids := map[string]bool{}
	for _, t := range a.Turns {
		for _, c := range t.Calls {
			if ids[c.ID] {
				return fmt.Errorf("the id %s comes twice", c.ID)
			}
			ids[c.ID] = true
		}
	}
	return nil
}

func bytesOf(numbers []int) string {
	b := make([]byte, len(numbers))
	for i, n := range numbers {
		b[i] = byte(n)
	}
	return string(b)
}

func hasNull(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case obj:
		return slices.ContainsFunc(slices.Collect(maps.Values(v)), hasNull)
	case []any:
		return slices.ContainsFunc(v, hasNull)
	}
	return false
}
