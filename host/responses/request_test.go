package responses

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"thoth/host/openai"
	"thoth/station/wire"
)

// items decodes a request with this input.
func items(t *testing.T, input string) ([]Item, *openai.Error) {
	t.Helper()
	r, e := Decode([]byte(`{"model":"m","input":`+input+`}`), openai.Limits{}, false)
	if e != nil {
		return nil, e
	}
	return r.Input, nil
}

func TestDecode_ReadsEveryKindOfItem(t *testing.T) {
	got, e := items(t, `[
		{"role":"developer","content":"Be brief."},
		{"type":"message","role":"user","id":"msg_u","content":[{"type":"input_text","text":"Hi"},{"type":"input_text","text":"!"}]},
		{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"s"}],"content":[{"type":"reasoning_text","text":"hm"}],"encrypted_content":null,"status":null},
		{"type":"message","role":"assistant","status":"incomplete","phase":"commentary","content":[{"type":"output_text","text":"a","annotations":[{"type":"x"}],"logprobs":[]},{"type":"refusal","refusal":"no"}]},
		{"type":"function_call","call_id":"c1","name":"f","arguments":"{\"a\":1}"},
		{"type":"function_call","call_id":"c2","name":"f","arguments":""},
		{"type":"function_call_output","call_id":"c1","output":"4217"},
		{"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"42"},{"type":"input_text","text":"17"}]},
		{"role":"assistant","content":"ok","id":"msg_u"}]`)
	require.Nil(t, e)
	identify(got, "resp_1")
	for i, id := range []string{"msg_1_i0", "msg_u", "rs_1", "msg_1_i3", "fc_1_i4", "fc_1_i5", "fco_1_i6", "fco_1_i7", "msg_1_i8"} {
		require.Equal(t, id, got[i].ID, "its own, unless it is there twice")
		got[i].ID = ""
	}
	require.Equal(t, []Item{
		{Type: TypeMessage, Status: StatusCompleted, Role: "developer", Content: []Part{{Type: "input_text", Text: "Be brief."}}},
		{Type: TypeMessage, Status: StatusCompleted, Role: "user", Content: []Part{{Type: "input_text", Text: "Hi"}, {Type: "input_text", Text: "!"}}},
		{Type: TypeReasoning, Status: StatusCompleted, Summary: []Part{{Type: "summary_text", Text: "s"}}, Content: []Part{{Type: "reasoning_text", Text: "hm"}}},
		{Type: TypeMessage, Status: StatusIncomplete, Phase: "commentary", Role: "assistant",
			Content: []Part{{Type: "output_text", Text: "a"}, {Type: "refusal", Text: "no"}}},
		{Type: TypeCall, Status: StatusCompleted, CallID: "c1", Name: "f", Arguments: `{"a":1}`},
		{Type: TypeCall, Status: StatusCompleted, CallID: "c2", Name: "f", Arguments: `{}`},
		{Type: TypeOutput, Status: StatusCompleted, CallID: "c1", Output: Output{Text: "4217"}},
		{Type: TypeOutput, Status: StatusCompleted, CallID: "c2", Output: Output{Parts: []Part{{Type: "input_text", Text: "42"}, {Type: "input_text", Text: "17"}}}},
		{Type: TypeMessage, Status: StatusCompleted, Role: "assistant", Content: []Part{{Type: "output_text", Text: "ok"}}},
	}, got)

	got, e = items(t, `"Say hi"`)
	require.Nil(t, e)
	require.Len(t, got, 1)
	require.Equal(t, []Part{{Type: "input_text", Text: "Say hi"}}, got[0].Content)
	require.Equal(t, "user", got[0].Role)
}

func TestDecode_NamesWhatIsWrongWithAnItem(t *testing.T) {
	call := `{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}`
	for input, want := range map[string]string{
		`7`:  "invalid_type input",
		`[]`: "invalid_value input",
		`[` + strings.Repeat(call+",", 4096) + call + `]`: "invalid_value input",
		`[7]`:                            "invalid_type input[0]",
		`[{}]`:                           "missing_required input[0].type",
		`[{"type":7}]`:                   "invalid_type input[0].type",
		`[{"type":"item_reference"}]`:    "missing_required input[0].id",
		`[{"id":"msg_1","content":"x"}]`: "missing_required input[0].type",
		`[{"role":"user","content":"x","id":"` + strings.Repeat("x", 65) + `"}]`:                                             "invalid_value input[0].id",
		`[{"type":"reasoning","encrypted_content":"` + seal("hm") + `AA"}]`:                                                  "invalid_value input[0].encrypted_content",
		`[{"role":"user","content":"x"},{"type":"web_search_call","status":"searching"}]`:                                    "unsupported_parameter input[1].type",
		`[{"type":"mcp_call","arguments":7}]`:                                                                                "unsupported_parameter input[0].type",
		`[{"type":"message","content":"x"}]`:                                                                                 "missing_required input[0].role",
		`[{"role":"tool","content":"x"}]`:                                                                                    "invalid_value input[0].role",
		`[{"role":"user"}]`:                                                                                                  "missing_required input[0].content",
		`[{"role":"user","content":7}]`:                                                                                      "invalid_type input[0].content",
		`[{"role":"user","content":"x","status":"done"}]`:                                                                    "invalid_value input[0].status",
		`[{"role":"assistant","content":"x","phase":"last"}]`:                                                                "invalid_value input[0].phase",
		`[{"role":"user","content":[7]}]`:                                                                                    "invalid_type input[0].content[0]",
		`[{"role":"user","content":[{"text":"x"}]}]`:                                                                         "missing_required input[0].content[0].type",
		`[{"role":"user","content":[{"type":"input_text"}]}]`:                                                                "missing_required input[0].content[0].text",
		`[{"role":"user","content":[{"type":"input_text","text":7}]}]`:                                                       "invalid_type input[0].content[0].text",
		`[{"role":"user","content":[{"type":"input_text","text":"x"},{"type":"input_image"}]}]`:                              "unsupported_parameter input[0].content[1].type",
		`[{"role":"user","content":[{"type":"output_text","text":"x"}]}]`:                                                    "unsupported_parameter input[0].content[0].type",
		`[{"role":"assistant","content":[{"type":"input_text","text":"x"}]}]`:                                                "unsupported_parameter input[0].content[0].type",
		`[{"role":"assistant","content":[{"type":"refusal","text":"x"}]}]`:                                                   "missing_required input[0].content[0].refusal",
		`[{"role":"assistant","content":[{"type":"output_text","text":"x","prompt_cache_breakpoint":{"mode":"explicit"}}]}]`: "unsupported_parameter input[0].content[0].prompt_cache_breakpoint",
		`[{"role":"user","content":[{"type":"input_text","text":"x","prompt_cache_breakpoint":{"mode":"all"}}]}]`:            "invalid_value input[0].content[0].prompt_cache_breakpoint.mode",
		`[{"type":"function_call","name":"f","arguments":"{}"}]`:                                                             "missing_required input[0].call_id",
		`[{"type":"function_call","call_id":"c","arguments":"{}"}]`:                                                          "missing_required input[0].name",
		`[{"type":"function_call","call_id":"c","name":"f"}]`:                                                                "missing_required input[0].arguments",
		`[{"type":"function_call","call_id":"c","name":"f","arguments":"{bad"}]`:                                             "invalid_value input[0].arguments",
		`[{"type":"function_call","call_id":"c","name":"f","arguments":"[1]"}]`:                                              "invalid_value input[0].arguments",
		`[{"type":"function_call","call_id":"c","name":"f","arguments":7}]`:                                                  "invalid_type input[0].arguments",
		`[` + call + `,{"type":"function_call_output","output":"x"}]`:                                                        "missing_required input[1].call_id",
		`[` + call + `,{"type":"function_call_output","call_id":"c"}]`:                                                       "missing_required input[1].output",
		`[` + call + `,{"type":"function_call_output","call_id":"c","output":{"a":1}}]`:                                      "invalid_type input[1].output",
		`[` + call + `,{"type":"function_call_output","call_id":"c","output":[{"type":"input_file"}]}]`:                      "unsupported_parameter input[1].output[0].type",
		`[{"type":"reasoning","summary":"x"}]`:                                                                               "invalid_type input[0].summary",
		`[{"type":"reasoning","summary":[{"type":"text","text":"x"}]}]`:                                                      "unsupported_parameter input[0].summary[0].type",
		`[{"type":"reasoning","content":[{"type":"reasoning_text"}]}]`:                                                       "missing_required input[0].content[0].text",
		`[{"type":"reasoning","summary":[],"encrypted_content":"gAAA"}]`:                                                     "invalid_value input[0].encrypted_content",
		`[{"role":"user","role":"system","content":"x"}]`:                                                                    "invalid_json input[0].role",
	} {
		_, e := items(t, input)
		require.NotNil(t, e, input[:min(len(input), 200)])
		require.Equal(t, want, fmt.Sprintf("%s %s", e.Code, *e.Param), e.Message)
		require.Contains(t, e.Message, *e.Param)
	}
}

func TestDecode_NamesWhatIsWrongWithARequest(t *testing.T) {
	const f = `{"type":"function","name":"f","parameters":{"type":"object"}}`
	many := strings.TrimSuffix(strings.Repeat(f+",", 129), ",")
	for fields, want := range map[string]string{
		`"max_output_tokens":0`:    "invalid_value max_output_tokens",
		`"max_output_tokens":1.5`:  "invalid_type max_output_tokens",
		`"max_tool_calls":0`:       "invalid_value max_tool_calls",
		`"temperature":2.1`:        "invalid_value temperature",
		`"top_p":-1`:               "invalid_value top_p",
		`"top_k":-1`:               "invalid_value top_k",
		`"stop":[""]`:              "invalid_value stop",
		`"previous_response_id":7`: "invalid_type previous_response_id",
		`"instructions":[]`:        "invalid_type instructions",
		`"store":"yes"`:            "invalid_type store",
		`"include":"all"`:          "invalid_type include",
		`"include":["reasoning.encrypted_content","x"]`:                     "invalid_value include[1]",
		`"include":["file_search_call.results"]`:                            "unsupported_parameter include[0]",
		`"top_logprobs":3`:                                                  "invalid_value top_logprobs",
		`"top_logprobs":21,"include":["message.output_text.logprobs"]`:      "invalid_value top_logprobs",
		`"stream_options":{"include_obfuscation":true}`:                     "unsupported_parameter stream_options.include_obfuscation",
		`"truncation":"auto"`:                                               "unsupported_parameter truncation",
		`"conversation":"conv_1"`:                                           "unsupported_parameter conversation",
		`"prompt":{"id":"pmpt_1"}`:                                          "unsupported_parameter prompt",
		`"max_completion_tokens":5`:                                         "unsupported_parameter max_completion_tokens",
		`"reasoning":{"effort":"huge"}`:                                     "invalid_value reasoning.effort",
		`"reasoning":{"summary":"long"}`:                                    "invalid_value reasoning.summary",
		`"reasoning":{"mode":"pro"}`:                                        "unsupported_parameter reasoning.mode",
		`"reasoning":{"context":"all_turns"}`:                               "unsupported_parameter reasoning.context",
		`"metadata":{"a":1}`:                                                "invalid_type metadata.a",
		`"metadata":{"a":"` + strings.Repeat("x", 513) + `"}`:               "invalid_value metadata.a",
		`"safety_identifier":"` + strings.Repeat("x", 65) + `"`:             "invalid_value safety_identifier",
		`"user":"` + strings.Repeat("x", 513) + `"`:                         "invalid_value user",
		`"service_tier":"gold"`:                                             "invalid_value service_tier",
		`"prompt_cache_retention":"1h"`:                                     "invalid_value prompt_cache_retention",
		`"text":{"verbosity":"loud"}`:                                       "invalid_value text.verbosity",
		`"text":{"format":"json"}`:                                          "invalid_type text.format",
		`"text":{"format":{}}`:                                              "missing_required text.format.type",
		`"text":{"format":{"type":"xml"}}`:                                  "invalid_value text.format.type",
		`"text":{"format":{"type":"json_schema","schema":{}}}`:              "missing_required text.format.name",
		`"text":{"format":{"type":"json_schema","name":"a b","schema":{}}}`: "invalid_value text.format.name",
		`"text":{"format":{"type":"json_schema","name":"n"}}`:               "missing_required text.format.schema",
		`"text":{"format":{"type":"json_schema","name":"n","schema":7}}`:    "invalid_type text.format.schema",
		`"text":{"format":{"type":"json_object"}},"stop":"x"`:               "invalid_value stop",
		`"text":{"format":{"type":"json_object"}},"ignore_eos":true`:        "invalid_value ignore_eos",
		`"tools":7`:              "invalid_type tools",
		`"tools":[7]`:            "invalid_type tools[0]",
		`"tools":[` + many + `]`: "invalid_value tools",
		`"tools":[{"name":"f"}]`: "missing_required tools[0].type",
		`"tools":[` + f + `,{"type":"web_search"}]`:                               "unsupported_parameter tools[1].type",
		`"tools":[{"type":"function","function":{"name":"f"}}]`:                   "missing_required tools[0].name",
		`"tools":[{"type":"function","name":"a b"}]`:                              "invalid_value tools[0].name",
		`"tools":[` + f + `,` + f + `]`:                                           "invalid_value tools[1].name",
		`"tools":[{"type":"function","name":"f","parameters":[]}]`:                "invalid_type tools[0].parameters",
		`"tools":[{"type":"function","name":"f","parameters":{"type":"string"}}]`: "invalid_value tools[0].parameters.type",
		`"tools":[{"type":"function","name":"f","defer_loading":true}]`:           "unsupported_parameter tools[0].defer_loading",
		`"tools":[{"type":"function","name":"f","async":true}]`:                   "unsupported_parameter tools[0].async",
		`"tool_choice":7`:                                                                                                   "invalid_type tool_choice",
		`"tool_choice":"any"`:                                                                                               "invalid_value tool_choice",
		`"tool_choice":"required"`:                                                                                          "invalid_value tool_choice",
		`"tool_choice":{"type":"function","name":"f"}`:                                                                      "invalid_value tool_choice",
		`"tools":[` + f + `],"tool_choice":{"name":"f"}`:                                                                    "missing_required tool_choice.type",
		`"tools":[` + f + `],"tool_choice":{"type":"file_search"}`:                                                          "unsupported_parameter tool_choice.type",
		`"tools":[` + f + `],"tool_choice":{"type":"function"}`:                                                             "missing_required tool_choice.name",
		`"tools":[` + f + `],"tool_choice":{"type":"function","name":"g"}`:                                                  "invalid_value tool_choice.name",
		`"tools":[` + f + `],"tool_choice":{"type":"allowed_tools","tools":[]}`:                                             "missing_required tool_choice.mode",
		`"tools":[` + f + `],"tool_choice":{"type":"allowed_tools","mode":"none","tools":[]}`:                               "invalid_value tool_choice.mode",
		`"tools":[` + f + `],"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[]}`:                               "missing_required tool_choice.tools",
		`"tools":[` + f + `],"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"mcp"}]}`:                 "unsupported_parameter tool_choice.tools[0].type",
		`"tools":[` + f + `],"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"g"}]}`: "invalid_value tool_choice.tools[0].name",
		`"tools":[` + f + `],"tool_choice":"required","stop":"x"`:                                                           "invalid_value stop",
	} {
		_, e := decode(t, fields)
		require.NotNil(t, e, fields[:min(len(fields), 200)])
		require.NotNil(t, e.Param, e.Message)
		require.Equal(t, want, fmt.Sprintf("%s %s", e.Code, *e.Param), e.Message)
		require.Contains(t, e.Message, *e.Param)
	}
	for body, want := range map[string]string{
		`{"input":"x"}`:                                "missing_required model",
		`{"model":"","input":"x"}`:                     "missing_required model",
		`{"model":"m"}`:                                "missing_required input",
		`{"model":"m","input":null}`:                   "missing_required input",
		`{"model":"m","input":"x","messages":[{}]}`:    "unsupported_parameter messages",
		`{"model":"m","input":"x","input":"y"}`:        "invalid_json input",
		`{"model":"m","input":[],"instructions":"be"}`: "invalid_value input",
	} {
		_, e := Decode([]byte(body), openai.Limits{}, false)
		require.NotNil(t, e, body)
		require.Equal(t, want, fmt.Sprintf("%s %s", e.Code, *e.Param), e.Message)
	}
}

func TestDecode_NeedsLessWhereItCountsOrGoesOn(t *testing.T) {
	var r *Request
	var e *openai.Error
	for _, body := range []string{`{"input":"x"}`, `{}`, `{"input":null}`, `{"input":[],"instructions":"Be brief."}`} {
		r, e = Decode([]byte(body), openai.Limits{}, true)
		require.Nil(t, e)
		require.Nil(t, r.Model)
	}
	for _, input := range []string{``, `,"input":null`, `,"input":[]`} {
		r, e = Decode([]byte(`{"model":"m","previous_response_id":"resp_1"`+input+`}`), openai.Limits{}, false)
		require.Nil(t, e)
		require.Empty(t, r.Input)
		require.Equal(t, "resp_1", r.PreviousID)
	}
}

func TestRequest_GeneratesWithWhatItAsksFor(t *testing.T) {
	r, e := decode(t, `"max_output_tokens":9,"temperature":0.5,"top_k":4,"seed":7,"stop":"END","include":["message.output_text.logprobs"],"top_logprobs":2`)
	require.Nil(t, e)
	q := r.Generate([]wire.Segment{{Text: "p"}}, 0, 100, 50)
	require.Equal(t, 9, q.MaxTokens)
	require.Equal(t, []string{"END"}, q.Stop)
	require.InDelta(t, 0.5, *q.Sampling.Temperature, 1e-6)
	require.Equal(t, 4, *q.Sampling.TopK)
	require.EqualValues(t, 7, *q.Sampling.Seed)
	require.True(t, q.Sampling.Logprobs)
	require.Equal(t, 2, q.Sampling.TopLogprobs)

	plain, _ := decode(t, "")
	q = plain.Generate(nil, 0, 100, 50)
	require.Equal(t, 50, q.MaxTokens, "the server's own limit")
	require.False(t, q.Sampling.Logprobs)
	all, _ := decode(t, `"max_output_tokens":100`)
	require.Zero(t, all.Generate(nil, 0, 100, 50).MaxTokens, "the context ends it")
}

func TestRequest_CacheHasTheLongestLifetime(t *testing.T) {
	const part = `{"type":"input_text","text":"x","prompt_cache_breakpoint":{"mode":"explicit"%s}}`
	r, e := Decode(fmt.Appendf(nil, `{"model":"m","prompt_cache_options":{"mode":"explicit","ttl":"5m"},"prompt_cache_key":"k","input":[{"role":"user","content":[%s,%s]}]}`,
		fmt.Sprintf(part, `,"ttl":"1h"`), fmt.Sprintf(part, "")), openai.Limits{}, false)
	require.Nil(t, e)
	require.Equal(t, openai.CacheControl{Group: "k", Explicit: true, TTL: time.Hour}, r.Cache())
	five := strings.TrimSuffix(strings.Repeat(fmt.Sprintf(part, "")+",", 5), ",")
	_, e = items(t, `[{"role":"user","content":[`+five+`]}]`)
	require.NotNil(t, e)
	require.Equal(t, "input[0].content[4].prompt_cache_breakpoint", *e.Param)
}

func TestRequest_ToolsAreShownInTheFormOfChats(t *testing.T) {
	r, e := decode(t, `"tools":[{"type":"function","name":"f","description":"say \"x\"","parameters":{"type":"object", "properties":{}},"strict":true},{"type":"function","name":"g","parameters":null}],`+
		`"tool_choice":{"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"g"},{"type":"function","name":"f"},{"type":"function","name":"g"}]},"parallel_tool_calls":false`)
	require.Nil(t, e)
	require.Equal(t, `{"type":"function","function":{"name":"f","description":"say \"x\"","parameters":{"type":"object", "properties":{}},"strict":true}}`, string(r.Tools[0].Definition))
	require.Equal(t, `{"type":"function","function":{"name":"g"}}`, string(r.Tools[1].Definition))
	require.Nil(t, r.Tools[1].Parameters)
	require.True(t, r.Tools[0].Strict)
	require.Equal(t, openai.ToolChoice{Mode: openai.ToolRequired, Allowed: []int{0, 1}}, r.Choice)
	require.False(t, r.Parallel())

	for choice, want := range map[string]openai.ToolChoice{
		`"none"`: {Mode: openai.ToolNone}, `"auto"`: {Mode: openai.ToolAuto}, `null`: {Mode: openai.ToolAuto}, `"required"`: {Mode: openai.ToolRequired},
		`{"type":"function","name":"f"}`: {Mode: openai.ToolRequired, Allowed: []int{0}, Named: true},
	} {
		r, e := decode(t, `"tools":[{"type":"function","name":"f"}],"tool_choice":`+choice)
		require.Nil(t, e)
		require.Equal(t, want, r.Choice, choice)
		require.Equal(t, !want.Named, r.Parallel(), choice)
	}
}

func TestRequest_WhatIsUnknownInAnObjectIsRefused(t *testing.T) {
	for fields, param := range map[string]string{
		`"text":{"style":"x"}`: "text.style",
		`"text":{"format":{"type":"json_object","schema":{}},"verbosity":null}`:                                 "",
		`"text":{"format":{"type":"json_object","json_schema":{}}}`:                                             "text.format.json_schema",
		`"text":{"format":{"type":"json_schema","name":"n","schema":{},"strict":true,"description":"d","x":1}}`: "text.format.x",
		`"reasoning":{"effort":"low","max_tokens":5}`:                                                           "reasoning.max_tokens",
		`"stream_options":{"every":true}`:                                                                       "stream_options.every",
		`"stream_options":{"include_usage":true},"label":1`:                                                     "",
	} {
		_, e := decode(t, fields)
		if param == "" {
			require.Nil(t, e, fields)
			continue
		}
		require.NotNil(t, e, fields)
		require.Equal(t, openai.CodeUnsupported, e.Code)
		require.Equal(t, param, *e.Param)
	}
}

func TestRequest_FormatIsEnforcedWhetherStrictOrNot(t *testing.T) {
	for _, strict := range []string{"", `,"strict":true`, `,"strict":false`, `,"strict":null`} {
		r, e := decode(t, `"text":{"format":{"type":"json_schema","name":"n","schema":{"type":"object"}`+strict+`}}`)
		require.Nil(t, e)
		require.Equal(t, openai.Format{Kind: openai.FormatSchema, Param: "text.format.schema", Text: `{"type":"object"}`}, r.Format)
	}
	r, e := decode(t, `"text":{"format":{"type":"json_object"}}`)
	require.Nil(t, e)
	require.Equal(t, openai.FormatObject, r.Format.Kind)
	for _, text := range []string{`null`, `{}`, `{"format":null,"verbosity":null}`, `{"format":{"type":"text"},"verbosity":"low"}`} {
		r, e := decode(t, `"text":`+text)
		require.Nil(t, e)
		require.Equal(t, openai.FormatText, r.Format.Kind)
	}
	require.Equal(t, "low", func() string { r, _ := decode(t, `"text":{"verbosity":"low"}`); return r.Verbosity() }())
}

func TestNew_SaysBackWhatWasAskedFor(t *testing.T) {
	r, e := decode(t, `"instructions":"Be brief.","previous_response_id":"resp_0","temperature":0.2,"top_p":0.9,"max_output_tokens":64,"max_tool_calls":3,"metadata":{"a":"b"},"user":"u",`+
		`"safety_identifier":"s","service_tier":"priority","prompt_cache_key":"k","prompt_cache_options":{"ttl":"30m"},"store":false,"background":true,"include":["message.output_text.logprobs"],"top_logprobs":4,"parallel_tool_calls":false,`+
		`"reasoning":{"effort":"low","summary":"auto"},"tools":[{"type":"function","name":"f","description":"d","parameters":{"type":"object"}}],"tool_choice":{"type":"function","name":"f"},`+
		`"text":{"format":{"type":"json_schema","name":"n","schema":{"type":"object"}},"verbosity":"low"}`)
	require.Nil(t, e)
	b, err := json.Marshal(New(r, "resp_1", "model", time.Unix(1000, 999)))
	require.NoError(t, err)
	require.JSONEq(t, `{"id":"resp_1","object":"response","created_at":1000,"status":"in_progress","background":true,"completed_at":null,"error":null,"incomplete_details":null,
		"instructions":"Be brief.","max_output_tokens":64,"max_tool_calls":3,"model":"model","output":[],"parallel_tool_calls":false,"previous_response_id":"resp_0","prompt_cache_key":"k","prompt_cache_options":{"mode":"implicit","ttl":"30m"},"prompt_cache_retention":null,
		"reasoning":{"effort":"low","summary":null},"safety_identifier":"s","service_tier":"default","store":false,"temperature":0.2,
		"text":{"format":{"type":"json_schema","name":"n","schema":{"type":"object"},"strict":false},"verbosity":"low"},"tool_choice":{"type":"function","name":"f"},
		"tools":[{"type":"function","name":"f","description":"d","parameters":{"type":"object"},"strict":false}],"top_logprobs":4,"top_p":0.9,"truncation":"disabled","usage":null,
		"user":"u","metadata":{"a":"b"}}`, string(b))

	r, _ = decode(t, "")
	b, err = json.Marshal(New(r, "resp_1", "model", time.Unix(1000, 0)))
	require.NoError(t, err)
	require.JSONEq(t, `{"id":"resp_1","object":"response","created_at":1000,"status":"in_progress","background":false,"completed_at":null,"error":null,"incomplete_details":null,
		"instructions":null,"max_output_tokens":null,"max_tool_calls":null,"model":"model","output":[],"parallel_tool_calls":true,"previous_response_id":null,"prompt_cache_key":null,"prompt_cache_options":null,"prompt_cache_retention":null,
		"reasoning":{"effort":null,"summary":null},"safety_identifier":null,"service_tier":"default","store":true,"temperature":1,"text":{"format":{"type":"text"},"verbosity":"medium"},
		"tool_choice":"auto","tools":[],"top_logprobs":0,"top_p":1,"truncation":"disabled","usage":null,"user":null,"metadata":{}}`, string(b))
}
