package host

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"thoth/host/dialect"
	"thoth/host/grammar/grammartest"
	"thoth/host/openai"
	"thoth/station/wire"
)

// Tests of tools, structured output and reasoning, as far as the host goes: the
// station is a script that writes whatever the test says a model would.

// Templates of models that call tools and that think.
const (
	hermesTemplate = `{% if tools %}{{ '<|im_start|>system\nTools:' }}{% for t in tools %}{{ '\n' + (t | tojson) }}{% endfor %}{{ '<|im_end|>\n' }}{% endif %}` +
		`{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' }}{% if m.content %}{{ m['content'] }}{% endif %}{% if m.tool_calls %}{% for c in m.tool_calls %}` +
		`{{ '\n<tool_call>\n{"name": "' + c.function.name + '", "arguments": ' + (c.function.arguments | tojson) + '}\n</tool_call>' }}{% endfor %}{% endif %}{{ '<|im_end|>\n' }}{% endfor %}` +
		`{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`
	thinkingTemplate = `{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}` +
		`{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% if enable_thinking is defined and enable_thinking is false %}{{ '<think>\n\n</think>\n\n' }}{% endif %}{% endif %}`
	mistralTemplate = `{% if tools %}{{ '[AVAILABLE_TOOLS]' + (tools | tojson) + '[/AVAILABLE_TOOLS]' }}{% endif %}{% for m in messages %}{% if m.role == 'user' %}{{ '[INST]' + m.content + '[/INST]' }}` +
		`{% elif m.tool_calls %}{{ '[TOOL_CALLS][' }}{% for c in m.tool_calls %}{{ '{"name": "' + c.function.name + '", "arguments": ' + (c.function.arguments | tojson) + '}' }}{% endfor %}{{ ']</s>' }}` +
		`{% elif m.role == 'tool' %}{{ '[TOOL_RESULTS]' + m.content + '[/TOOL_RESULTS]' }}{% else %}{{ m.content + '</s>' }}{% endif %}{% endfor %}`
)

// weatherTools are a tool with an argument and one without.
const weatherTools = `"tools":[{"type":"function","function":{"name":"get_weather","description":"The weather of a city.","parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false}}},` +
	`{"type":"function","function":{"name":"get_time"}}]`

// called is a call as models of the hermes family write it.
func called(name, arguments string) string {
	return "<tool_call>\n{\"name\": \"" + name + "\", \"arguments\": " + arguments + "}\n</tool_call>"
}

var oslo, paris = called("get_weather", `{"city": "Oslo"}`), called("get_weather", `{"city": "Paris"}`)

// writes is a model that writes this text, a character or so at a time: one token
// each, of n bytes at least.
func writes(text string, n int, reason wire.Reason) script {
	return func(_ context.Context, q *wire.GenerateRequest, out *frames) {
		tokens := 0
		for rest := text; rest != ""; tokens++ {
			end := min(n, len(rest))
			for end < len(rest) && !utf8.RuneStart(rest[end]) {
				end++
			}
			f := wire.Frame{Type: wire.FrameText, Text: rest[:end], Tokens: []int32{int32(tokens)}}
			if q.Sampling.Logprobs {
				f.Logprobs = []wire.TokenLogprob{{ID: int32(tokens), Bytes: []byte(rest[:end])}}
			}
			out.send(f)
			rest = rest[end:]
		}
		out.done(reason, tokens)
	}
}

// said is a choice's message, whichever way it came.
type said struct {
	content   *string
	reasoning string
	calls     []toolCall
	finish    string
	logprobs  string // the bytes of all tokens
}

type toolCall struct{ ID, Name, Arguments string }

// names are those of the calls.
func (s said) names() (names []string) {
	for _, c := range s.calls {
		names = append(names, c.Name)
	}
	return names
}

func (s said) text() string {
	if s.content == nil {
		return ""
	}
	return *s.content
}

// whole reads the first choice of a whole answer.
func whole(t *testing.T, r reply) said {
	t.Helper()
	require.Equal(t, 200, r.status, r.body)
	var in struct {
		Choices []struct {
			Message struct {
				Content          *string
				ReasoningContent string `json:"reasoning_content"`
				ToolCalls        []struct {
					ID, Type string
					Function struct{ Name, Arguments string }
				} `json:"tool_calls"`
			}
			Logprobs     *struct{ Content []struct{ Bytes []int } }
			FinishReason string `json:"finish_reason"`
		}
	}
	require.NoError(t, json.Unmarshal([]byte(r.body), &in), r.body)
	c := in.Choices[0]
	s := said{content: c.Message.Content, reasoning: c.Message.ReasoningContent, finish: c.FinishReason}
	for _, call := range c.Message.ToolCalls {
		require.Equal(t, "function", call.Type)
		s.calls = append(s.calls, toolCall{call.ID, call.Function.Name, call.Function.Arguments})
	}
	if c.Logprobs != nil {
		for _, token := range c.Logprobs.Content {
			for _, b := range token.Bytes {
				s.logprobs += string(rune(b))
			}
		}
	}
	return s
}

// joined puts the deltas of choice 0 together, by the rules clients rely on.
func joined(t *testing.T, r reply) said {
	t.Helper()
	require.Equal(t, 200, r.status, r.body)
	data, done := events(t, r.body)
	require.True(t, done)
	var s said
	var text strings.Builder
	roles := 0
	for _, d := range data {
		require.Len(t, d["choices"], 1)
		c := d["choices"].([]any)[0].(map[string]any)
		if c["index"] != 0. {
			continue
		}
		require.Empty(t, s.finish, "nothing follows the finish event")
		delta := c["delta"].(map[string]any)
		for name, v := range delta {
			require.NotNil(t, v, "delta.%s is null", name)
		}
		if delta["role"] != nil {
			require.Equal(t, "assistant", delta["role"])
			roles++
		}
		if v, ok := delta["content"].(string); ok {
			text.WriteString(v)
		}
		if v, ok := delta["reasoning_content"].(string); ok {
			s.reasoning += v
		}
		calls, _ := delta["tool_calls"].([]any)
		for _, v := range calls {
			call := v.(map[string]any)
			i := int(call["index"].(float64))
			f := call["function"].(map[string]any)
			if i == len(s.calls) {
				require.Equal(t, "function", call["type"])
				require.Equal(t, "", f["arguments"])
				s.calls = append(s.calls, toolCall{ID: call["id"].(string), Name: f["name"].(string)})
				continue
			}
			require.Less(t, i, len(s.calls), "indexes ascend")
			require.Equal(t, []string{"function", "index"}, keys(call), "a call opens once")
			require.Equal(t, []string{"arguments"}, keys(f))
			s.calls[i].Arguments += f["arguments"].(string)
		}
		if lp, ok := c["logprobs"].(map[string]any); ok {
			for _, token := range lp["content"].([]any) {
				for _, b := range token.(map[string]any)["bytes"].([]any) {
					s.logprobs += string(rune(int(b.(float64))))
				}
			}
		}
		s.finish, _ = c["finish_reason"].(string)
	}
	require.Equal(t, 1, roles)
	if all := text.String(); all != "" || len(s.calls) == 0 {
		s.content = &all
	}
	return s
}

func keys(m map[string]any) (names []string) {
	for name := range m {
		names = append(names, name)
	}
	if len(names) == 2 && names[0] > names[1] {
		names[0], names[1] = names[1], names[0]
	}
	return names
}

// bothWays asks for a whole answer and a streamed one, wants them to be the same
// but for the random ids, and gives it.
func (h *testHost) bothWays(fields ...string) said {
	h.t.Helper()
	a, b := whole(h.t, h.chat(fields...)), joined(h.t, h.chat(append(fields, `"stream":true`)...))
	ids := map[string]bool{}
	for _, c := range append(a.calls, b.calls...) {
		require.Regexp(h.t, `^call_\w{24}$`, c.ID)
		require.False(h.t, ids[c.ID], "an id is given once")
		ids[c.ID] = true
	}
	for i := range b.calls {
		b.calls[i].ID = a.calls[i].ID
	}
	require.Equal(h.t, a, b)
	return a
}

// last is the station's last request.
func (f *fakeStation) last() wire.GenerateRequest {
	got := f.got()
	return got[len(got)-1]
}

// newModel is a host in front of a model with this template.
func newModel(t *testing.T, template string, change ...func(*Options)) (*fakeStation, *testHost) {
	f := newFakeStation(t)
	f.model.ChatTemplate = template
	return f, newHost(t, f, change...)
}

func TestFormats_SendAGrammarAndTheTextIsTheAnswer(t *testing.T) {
	f, h := newModel(t, chatml)
	schema := `"response_format":{"type":"json_schema","json_schema":{"name":"mood","strict":true,"schema":{"type":"object","properties":{"mood":{"enum":["calm","angry"]},"level":{"type":"integer"}},"required":["mood","level"],"additionalProperties":false}}}`
	for fields, answer := range map[string]string{
		schema: `{"mood": "calm", "level": 3}`,
		strings.Replace(schema, `"strict":true`, `"strict":false`, 1): `{"mood": "angry", "level": 3}`,
		`"response_format":{"type":"json_object"}`:                    `{"a": [1, {}]}`,
		`"guided_json":{"type":"array","items":{"type":"boolean"}}`:   `[true, false]`,
		`"guided_regex":"[a-c]{3}[0-9]"`:                              `abc7`,
		`"guided_choice":["yes","no"]`:                                `yes`,
	} {
		f.does(writes(answer, 3, wire.ReasonEOG))
		s := h.bothWays(fields)
		require.Equal(t, answer, s.text(), fields)
		require.Equal(t, "stop", s.finish)
		g, err := grammartest.Compile(f.last().Sampling.Grammar)
		require.NoError(t, err, fields)
		require.True(t, g.Match(answer), fields)
		for _, other := range []string{"", "Sure: " + answer, answer + " Done.", answer + answer, "maybe"} {
			require.False(t, g.Match(other), "%s refuses %q", fields, other)
		}
	}
	f.does(writes(`{"mood": "ca`, 3, wire.ReasonLength))
	s := h.bothWays(schema, `"max_tokens":3`)
	require.Equal(t, `{"mood": "ca`, s.text())
	require.Equal(t, "length", s.finish)
	require.Equal(t, 200, h.chat(`"response_format":{"type":"text"}`).status)
	require.Empty(t, f.last().Sampling.Grammar)

	raw := "root ::= \"a\" | \"b\""
	require.Equal(t, 200, h.chat(`"grammar":"root ::= \"a\" | \"b\""`).status)
	require.Equal(t, raw, f.last().Sampling.Grammar, "a grammar goes as it came")
}

func TestFormats_EveryChoiceIsBound(t *testing.T) {
	f, h := newModel(t, chatml)
	f.does(writes(`{}`, 1, wire.ReasonEOG))
	require.Equal(t, 200, h.chat(`"n":3`, `"response_format":{"type":"json_object"}`).status)
	require.Len(t, f.got(), 3)
	for _, q := range f.got() {
		require.NotEmpty(t, q.Sampling.Grammar)
	}
}

func TestFormats_WhatCannotBeEnforcedIsRefusedBeforeAnyWork(t *testing.T) {
	f, h := newModel(t, chatml)
	schema := func(s string) string {
		return `"response_format":{"type":"json_schema","json_schema":{"name":"m","schema":` + s + `}}`
	}
	const at = "response_format.json_schema.schema"
	tool := func(p string) string {
		return `"tool_choice":"required","tools":[{"type":"function","function":{"name":"ok"}},{"type":"function","function":{"name":"f","parameters":` + p + `}}]`
	}
	for fields, want := range map[string]string{
		schema(`{"type":"object","properties":{"a":{"type":"string","pattern":"^(?=a)b$"}},"required":["a"],"additionalProperties":false}`): at + ".properties.a.pattern",
		schema(`{"$ref":"#/$defs/nowhere"}`):                                                at + ".$ref",
		schema(`{"type":"object","propertyNames":{"pattern":"^a"}}`):                        at + ".propertyNames",
		`"guided_json":{"$ref":"#/$defs/nowhere"}`:                                          "guided_json.$ref",
		`"guided_regex":"(?=a)b"`:                                                           "guided_regex",
		`"guided_regex":"a("`:                                                               "guided_regex",
		`"grammar":"root ::= nowhere"`:                                                      "grammar",
		`"grammar":"no grammar"`:                                                            "grammar",
		`"guided_choice":["a\u0000b"]`:                                                      "guided_choice",
		tool(`{"type":"object","properties":{"a":{"$ref":"#/$defs/nowhere"}}}`):             "tools[1].function.parameters.properties.a.$ref",
		tool(`{"type":"object","properties":{"a":{"type":"string","pattern":"^(?=a)b$"}}}`): "tools[1].function.parameters.properties.a.pattern",
	} {
		for _, stream := range []string{`"stream":true`, `"stream":false`} {
			r := h.chat(fields, stream)
			require.Equal(t, 400, r.status, fields)
			require.Equal(t, want, param(t, r), fields)
			require.Contains(t, r.json(t)["error"].(map[string]any)["message"], want)
			require.Contains(t, []string{"unsupported_parameter", "invalid_value"}, r.code(t))
		}
	}
	require.Empty(t, f.got(), "the station was not asked")
	// A tool that is free to be called needs no grammar.
	require.Equal(t, 200, h.chat(strings.Replace(tool(`{"type":"object","propertyNames":{"pattern":"^a"}}`), "required", "auto", 1)).status)
}

func TestFormats_TheStationsWordOnAGrammarNamesTheParameter(t *testing.T) {
	f, h := newModel(t, chatml)
	f.does(func(_ context.Context, _ *wire.GenerateRequest, out *frames) {
		out.refuse(&wire.Error{Code: wire.CodeInvalid, Param: "sampling.grammar", Message: "the grammar does not parse"})
	})
	for fields, want := range map[string]string{
		`"grammar":"root ::= \"a\""`:               "grammar",
		`"response_format":{"type":"json_object"}`: "response_format",
		`"guided_json":{"type":"object"}`:          "guided_json",
		weatherTools + `,"tool_choice":"required"`: "tools",
	} {
		r := h.chat(fields)
		require.Equal(t, 400, r.status)
		require.Equal(t, want, param(t, r), fields)
	}
}

func TestReasoning_ThatThePromptOpensIsReasoning(t *testing.T) {
	f, h := newModel(t, strings.Replace(thinkingTemplate, `{{ '<|im_start|>assistant\n' }}`, `{{ '<|im_start|>assistant\n<think>\n' }}`, 1))
	f.does(writes("Two and two.\n</think>\n\nFour.", 3, wire.ReasonEOG))
	for _, question := range []string{"2+2?", "Do not write </think>", "<think>"} {
		s := whole(t, h.do("POST", "/v1/chat/completions", `{"model":"`+model+`","messages":[{"role":"user","content":"`+question+`"}]}`))
		require.Equal(t, "Two and two.", strings.TrimSpace(s.reasoning), question)
		require.Equal(t, "Four.", s.text())
	}
}

func TestReasoning_AClientsTagIsNotTheTemplates(t *testing.T) {
	f, h := newModel(t, thinkingTemplate)
	f.does(writes("Four.", 3, wire.ReasonEOG))
	for _, question := range []string{"2+2? <think>", "<think>\\n"} {
		s := whole(t, h.do("POST", "/v1/chat/completions", `{"model":"`+model+`","messages":[{"role":"user","content":"`+question+`"}]}`))
		require.Equal(t, "Four.", s.text(), question)
		require.Empty(t, s.reasoning)
	}
}

func TestReasoning_GoesBeforeAnEnforcedAnswer(t *testing.T) {
	f, h := newModel(t, thinkingTemplate)
	f.does(writes("<think>\nHm.\n</think>\n\n{\"a\": 1}", 2, wire.ReasonEOG))
	s := h.bothWays(`"response_format":{"type":"json_object"}`)
	require.Equal(t, `{"a": 1}`, s.text())
	require.NotEmpty(t, s.reasoning)
	g, err := grammartest.Compile(f.last().Sampling.Grammar)
	require.NoError(t, err)
	require.True(t, g.Match("<think>\nHm.\n</think>\n\n{\"a\": 1}"))
	require.True(t, g.Match(`{"a": 1}`))
	require.False(t, g.Match("<think>\nHm.\n</think>\n\nText"))
	// A raw grammar describes all that the model writes.
	f.does(writes("<think>x", 2, wire.ReasonEOG))
	s = h.bothWays(`"grammar":"root ::= \"<think>x\""`)
	require.Equal(t, "<think>x", s.text())
}

func TestReasoning_EffortIsHonouredOrRefused(t *testing.T) {
	_, plain := newModel(t, chatml)
	require.Equal(t, 200, plain.chat(`"reasoning_effort":"none"`).status, "it asks for nothing")
	for _, effort := range []string{"minimal", "low", "medium", "high"} {
		r := plain.chat(`"reasoning_effort":"` + effort + `"`)
		require.Equal(t, 400, r.status)
		require.Equal(t, "unsupported_parameter", r.code(t))
		require.Equal(t, "reasoning_effort", param(t, r))
		require.Contains(t, r.body, "none")
	}
	_, switched := newModel(t, thinkingTemplate)
	require.Equal(t, 200, switched.chat(`"reasoning_effort":"none"`).status)
	require.Equal(t, 400, switched.chat(`"reasoning_effort":"high"`).status)

	f, effort := newModel(t, strings.Replace(chatml, "{% for", "{% if reasoning_effort is defined %}{{ 'Reasoning: ' + reasoning_effort + '\n' }}{% endif %}{% for", 1))
	for fields, want := range map[string]string{
		`"reasoning_effort":"high"`: "Reasoning: high\n",
		`"reasoning_effort":"high","chat_template_kwargs":{"reasoning_effort":"low"}`: "Reasoning: low\n",
	} {
		require.Equal(t, 200, effort.chat(fields).status, fields)
		require.Contains(t, text(f.last().Prompt.Segments), want)
	}
}

func TestStructure_LogprobsAreThoseOfAllTokens(t *testing.T) {
	f, h := newModel(t, hermesTemplate)
	const text = "I see.\n"
	for _, size := range []int{1, 5} {
		f.does(writes(text+oslo, size, wire.ReasonEOG))
		require.Equal(t, text+oslo, h.bothWays(weatherTools, `"logprobs":true`).logprobs)
		f.does(writes(text+"<tool_ca", size, wire.ReasonLength))
		require.Equal(t, text+"<tool_ca", h.bothWays(weatherTools, `"logprobs":true`).logprobs)
	}
}

func TestStructure_HealthNamesTheDialect(t *testing.T) {
	_, h := newModel(t, hermesTemplate)
	require.Equal(t, "hermes", h.get("/health").json(t)["dialect"])
	_, h = newModel(t, chatml)
	require.Equal(t, "generic", h.get("/health").json(t)["dialect"])
}

func TestShape_ErrorsAreSentences(t *testing.T) {
	_, h := newModel(t, hermesTemplate)
	for schema, want := range map[string]string{
		`{"minLength":-1}`:      "guided_json.minLength must be a whole number, not negative",
		`{"maxLength":1e9}`:     "guided_json.maxLength is 1000000000, the limit is ",
		`{"uniqueItems":true}`:  "guided_json.uniqueItems cannot be enforced: the keyword is not supported, and to ignore it would break the schema",
		`{"pattern":"^(?=a)b"}`: "guided_json.pattern cannot be enforced: the pattern has a lookahead",
		`false`:                 "guided_json must be a JSON Schema object",
	} {
		r := h.chat(`"guided_json":` + schema)
		require.Equal(t, 400, r.status)
		require.Contains(t, r.body, want)
	}
}

func TestShape_KeyTellsEverythingApart(t *testing.T) {
	_, h := newModel(t, hermesTemplate)
	held := 0
	for _, fields := range []string{
		weatherTools + `,"tool_choice":"none"`, weatherTools + `,"tool_choice":"required"`, weatherTools + `,"tool_choice":"required","parallel_tool_calls":false`,
		weatherTools + `,"tool_choice":{"type":"function","function":{"name":"get_time"}}`, weatherTools + `,"tool_choice":{"type":"function","function":{"name":"get_weather"}}`,
		`"guided_choice":["ab","c"]`, `"guided_choice":["a","bc"]`, `"guided_regex":"ab"`, `"guided_json":{"type":"object"}`, `"guided_json":{"type":"array"}`, `"response_format":{"type":"json_object"}`,
	} {
		require.Equal(t, 200, h.chat(fields).status)
		require.Greater(t, h.grammars.Bytes(), held, "%s is kept apart", fields)
		held = h.grammars.Bytes()
		require.Equal(t, 200, h.chat(fields, `"max_tokens":7`).status)
		require.Equal(t, held, h.grammars.Bytes(), "%s is kept once", fields)
	}
}

// Dialects of one name differ, and a station may come back with another model.
func TestShape_KeyTellsDialectsOfOneFamilyApart(t *testing.T) {
	_, h := newModel(t, hermesTemplate)
	ask := &task{tools: []openai.Tool{{Name: "f"}}, choice: openai.ToolChoice{Mode: openai.ToolRequired}}
	const shows = "{{ tools }}{{ tool_calls }}"
	made := map[string]string{}
	for _, template := range []string{
		"<tool_call>", "<tool_call><think>", "<tool_call>[THINK]",
		"[TOOL_CALLS]", "[TOOL_CALLS] [", "[TOOL_CALLS]<think>",
		"functools[", "<|tool_call|><|/tool_call|>",
	} {
		for range 2 {
			got, e := h.shape(ask, dialect.Detect(shows+template, ""), nil)
			require.Nil(t, e)
			other, taken := made[got.grammar]
			require.True(t, !taken || other == template, "%s has the grammar of %s", template, other)
			made[got.grammar] = template
		}
	}
	held := h.grammars.Bytes()
	_, e := h.shape(ask, dialect.Detect(shows+"<tool_call>", ""), nil)
	require.Nil(t, e)
	require.Equal(t, held, h.grammars.Bytes(), "one model has one grammar")
}

// sunk is a sink that takes everything.
type sunk struct{ streamSink }

func (s *sunk) open(int)                                      {}
func (s *sunk) write(int, dialect.Event, []wire.TokenLogprob) {}

func TestChoice_PlainTextCostsNothing(t *testing.T) {
	c := choice{out: &sunk{}}
	f := &wire.Frame{Type: wire.FrameText, Text: "word", Tokens: []int32{1}}
	require.Zero(t, testing.AllocsPerRun(100, func() { c.frame(f) }))
}
