package anthropic

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"thoth/host/openai"
	"thoth/host/prompt"
)

func decode(t *testing.T, fields string) (*Request, *openai.Error) {
	t.Helper()
	return Decode([]byte(`{"model":"m","max_tokens":10,`+fields+`}`), openai.Limits{}, false)
}

const (
	hi   = `"messages":[{"role":"user","content":"hi"}]`
	use  = `"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f"`
	call = `{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"f","input":{"a":1}}]}`
)

func TestDecode_RefusesByFieldName(t *testing.T) {
	for fields, want := range map[string]string{
		`"n":1`:           "messages is missing",
		`"messages":[]`:   "messages is empty",
		`"messages":"hi"`: "messages must be an array, not a string",
		`"messages":[{"role":"system","content":"x"}]`:                                      `messages[0].role is "system": allowed are user and assistant; instructions go into system`,
		`"messages":[{"content":"x"}]`:                                                      "messages[0].role is missing",
		`"messages":[{"role":"user"}]`:                                                      "messages[0].content is missing",
		`"messages":[{"role":"user","content":5}]`:                                          "messages[0].content must be a string or an array of blocks, not a number",
		`"messages":[{"role":"user","content":[{"text":"x"}]}]`:                             "messages[0].content[0].type is missing",
		`"messages":[{"role":"user","content":[{"type":"text"}]}]`:                          "messages[0].content[0].text is missing",
		`"messages":[{"role":"user","content":[{"type":"image","source":{}}]}]`:             `messages[0].content[0].type is "image", which this model does not take`,
		`"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"x"}]}]`: `messages[0].content[0].tool_use_id is "x"`,
		`"messages":[{"role":"assistant","content":"x"}]`:                                   "messages have no user message",
		`"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"x "}]`:    "white space",
		`"messages":[` + call + `]`:                                                         `messages end with the tool_use "t1" without its tool_result`,
		`"messages":[` + call + `,{"role":"user","content":"so?"}]`:                         `messages[2].content lacks the tool_result of the tool_use "t1"`,
		`"messages":[` + call + `,{"role":"user","content":[{"type":"text","text":"x"},{"type":"tool_result","tool_use_id":"t1"}]}]`: "lacks the tool_result",
		use + `}]}]`:                                            "messages[1].content[0].input is missing",
		use + `,"input":null}]}]`:                               "messages[1].content[0].input is missing",
		use + `,"input":"{}"}]}]`:                               "messages[1].content[0].input must be an object, not a string",
		hi + `,"system":5`:                                      "system must be a string or an array of blocks, not a number",
		hi + `,"system":[{"type":"image"}]`:                     `system[0].type is "image": allowed is text`,
		hi + `,"temperature":1.5`:                               "temperature is 1.5: it must be between 0 and 1",
		hi + `,"top_p":-1`:                                      "top_p is -1",
		hi + `,"stop_sequences":[""]`:                           "stop_sequences has an empty string",
		hi + `,"thinking":{"type":"some"}`:                      `thinking.type is "some"`,
		hi + `,"thinking":{"type":"enabled"}`:                   "thinking.budget_tokens is missing",
		hi + `,"thinking":{"type":"enabled","budget_tokens":5}`: "thinking.budget_tokens is 5: it must be at least 1024",
		hi + `,"tools":[{"type":"web_search_20250305","name":"web_search"}]`:                                          `tools[0].type is "web_search_20250305"`,
		hi + `,"tools":[{"name":"f"}]`:                                                                                "tools[0].input_schema is missing",
		hi + `,"tools":[{"name":"f g","input_schema":{"type":"object"}}]`:                                             "tools[0].name is \"f g\"",
		hi + `,"tools":[{"name":"f","input_schema":{"type":"string"}}]`:                                               `tools[0].input_schema.type must be "object"`,
		hi + `,"tools":[{"name":"f","input_schema":{"type":"object"}},{"name":"f","input_schema":{"type":"object"}}]`: "names must differ",
		hi + `,"tool_choice":{"type":"any"}`:                                                                          `tool_choice.type is "any", which needs tools`,
		hi + `,"tool_choice":{"type":"tool","name":"g"},"tools":[{"name":"f","input_schema":{"type":"object"}}]`:      `tool_choice.name is "g"`,
		hi + `,"output_config":{"format":{"type":"text"}}`:                                                            `output_config.format.type is "text"`,
		hi + `,"output_format":{"type":"json_schema","schema":{}},"stop_sequences":["x"]`:                             "stop_sequences cannot be combined with output_format.schema",
		hi + `,"mcp_servers":[{}]`:                                                                                    "mcp_servers is not supported",
		hi + `,"metadata":{"user_id":5}`:                                                                              "metadata.user_id must be a string, not a number",
		hi + `,"cache_control":{"type":"ephemeral","ttl":"2h"}`:                                                       `cache_control.ttl is "2h": allowed are 5m and 1h`,
		`"messages":[{"role":"user","content":[{"type":"text","text":"x","cache_control":{"type":"forever"}}]}]`:      `messages[0].content[0].cache_control.type is "forever"`,
	} {
		_, e := decode(t, fields)
		require.NotNil(t, e, fields)
		require.Contains(t, e.Message, want, fields)
		require.Equal(t, 400, Status(e), fields)
	}
	_, e := Decode([]byte(`{"model":"m",`+hi+`}`), openai.Limits{}, false)
	require.Contains(t, e.Message, "max_tokens is missing")
	_, e = Decode([]byte(`{"model":"m",`+hi+`}`), openai.Limits{}, true)
	require.Nil(t, e)
}

func TestDecode_TurnsBecomeMessages(t *testing.T) {
	r, e := decode(t, `"system":[{"type":"text","text":"Be"},{"type":"text","text":"brief"}],"messages":[{"role":"user","content":"a"},{"role":"user","content":[{"type":"text","text":"b"},{"type":"text","text":"c"}]},
		{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"d"},{"type":"tool_use","id":"t1","name":"f","input":{"a":1.0}},{"type":"tool_use","id":"t2","name":"g","input":{}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"t2","is_error":true,"content":"no"},{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"x"},{"type":"text","text":"y"}]},{"type":"text","text":"go on"}]},
		{"role":"assistant","content":"I"}]`)
	require.Nil(t, e)
	require.Equal(t, []prompt.Message{
		{Role: prompt.System, Content: "Be\n\nbrief"},
		{Role: prompt.User, Content: "a\n\nbc"},
		{Role: prompt.Assistant, Content: "d", Reasoning: "hm", ToolCalls: []prompt.ToolCall{{ID: "t1", Name: "f", Arguments: `{"a":1.0}`}, {ID: "t2", Name: "g", Arguments: `{}`}}},
		{Role: prompt.ToolResult, Content: "Error: no", ToolCallID: "t2"},
		{Role: prompt.ToolResult, Content: "xy", ToolCallID: "t1"},
		{Role: prompt.User, Content: "go on"},
	}, r.Conversation.Messages)
	require.Equal(t, "I", r.Prefill)
}

func TestDecode_MarksCoverWhatTheyStandOn(t *testing.T) {
	const mark = `,"cache_control":{"type":"ephemeral"}`
	r, e := decode(t, `"tools":[{"name":"f","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral","ttl":"1h"}}],
		"system":[{"type":"text","text":"one"`+mark+`},{"type":"text","text":"two"}],
		"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"text","text":"I"},{"type":"tool_use","id":"t1","name":"f","input":{}`+mark+`}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"ok"},{"type":"text","text":"so"},{"type":"text","text":"what?"`+mark+`}]}]`)
	require.Nil(t, e)
	var got [][]int
	for _, m := range r.Conversation.Messages {
		got = append(got, m.Breakpoints)
	}
	require.Equal(t, [][]int{{3}, {2}, nil, {2}, {7}}, got, "that of a tool and that of a call at the end of the next text")
	require.Equal(t, time.Hour, r.Cache().TTL, "the longest")

	_, e = decode(t, `"cache_control":{"type":"ephemeral"},"messages":[{"role":"user","content":[{"type":"text","text":"a"`+mark+`},{"type":"text","text":"a"`+mark+`},{"type":"text","text":"a"`+mark+`},{"type":"text","text":"a"`+mark+`}]}]`)
	require.Contains(t, e.Message, "at most 4 blocks")
	r, e = decode(t, hi+`,"cache_control":{"type":"ephemeral"}`)
	require.Nil(t, e)
	require.Equal(t, []int{2}, r.Conversation.Messages[0].Breakpoints)
}

func TestUsage_SplitsThePrompt(t *testing.T) {
	for _, c := range []struct{ prompt, cached, written, input, created, read int }{
		{10, 0, 0, 10, 0, 0}, {10, 4, 5, 1, 5, 4}, {10, 4, 9, 0, 6, 4}, {10, 12, 0, 0, 0, 10},
	} {
		u := NewUsage(openai.Usage{PromptTokens: c.prompt, CompletionTokens: 3, PromptDetails: openai.PromptDetails{CachedTokens: c.cached, CacheWriteTokens: c.written}})
		require.Equal(t, Usage{c.input, c.created, c.read, 3}, u)
	}
}

func TestError_TypesByStatus(t *testing.T) {
	for code, want := range map[openai.Code]struct {
		status int
		kind   string
	}{
		openai.CodeInvalidValue: {400, "invalid_request_error"}, openai.CodeInvalidKey: {401, "authentication_error"}, openai.CodePermission: {403, "permission_error"},
		openai.CodeModelNotFound: {404, "not_found_error"}, openai.CodeTooLarge: {413, "request_too_large"}, openai.CodeRateLimit: {429, "rate_limit_error"},
		openai.CodeOverloaded: {529, "overloaded_error"}, openai.CodeLoading: {503, "api_error"}, openai.CodeTimeout: {504, "timeout_error"}, openai.CodeEngine: {500, "api_error"},
		openai.CodeMethod: {405, "invalid_request_error"},
	} {
		e := openai.NewError(code, "", "x")
		require.Equal(t, want.status, Status(e), code)
		require.Equal(t, want.kind, NewEnvelope(e, "").Error.Type, code)
	}
}
