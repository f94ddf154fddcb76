package openai

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station/wire"
)

const hi = `"model":"m","messages":[{"role":"user","content":"Say hi"}]`

func decode(t *testing.T, fields string) (*ChatRequest, *Error) {
	t.Helper()
	body := "{" + hi
	if fields != "" {
		body += "," + fields
	}
	return DecodeChat([]byte(body+"}"), Limits{Vocabulary: 1000})
}

func TestDecodeChat_AcceptsWhatIsLegal(t *testing.T) {
	for _, fields := range []string{
		``, `"max_tokens":null`, `"max_tokens":100000000`, `"max_tokens":8.0`, `"n":1.0`, `"n":null`,
		`"seed":9007199254740993`, `"seed":-1`, `"seed":9223372036854775807`, `"stop":null`, `"stop":"x"`, `"stop":["a","b"]`, `"stop":[]`,
		`"logit_bias":{}`, `"logit_bias":null`, `"logit_bias":{"5":-100}`, `"stream_options":null`, `"stream":null`,
		`"stream_options":{"include_usage":true}`, `"tools":[]`, `"tools":null`, `"tool_choice":"none"`, `"tool_choice":"auto"`,
		`"response_format":{"type":"text"}`, `"response_format":null`, `"modalities":["text"]`, `"user":"u"`, `"unknown":{"a":[1]}`,
		`"logprobs":true,"top_logprobs":20`, `"top_p":0`, `"temperature":2`, `"STREAM":"yes"`, `"Max_Tokens":"x"`, `"chat_template_kwargs":{"a":1}`,
		`"chat_template_kwargs":null`, `"reasoning_effort":"low"`, `"verbosity":"medium"`, `"max_tokens":5,"max_completion_tokens":5`, `"metadata":{"a":"b"}`, `"store":false`,
	} {
		_, err := decode(t, fields)
		require.Nil(t, err, "%s: %v", fields, err)
	}
}

func TestDecodeChat_RefusesByFieldName(t *testing.T) {
	for fields, want := range map[string]struct {
		param string
		code  Code
	}{
		`"max_tokens":0`:                           {"max_tokens", CodeInvalidValue},
		`"max_tokens":-1`:                          {"max_tokens", CodeInvalidValue},
		`"max_tokens":"8"`:                         {"max_tokens", CodeInvalidType},
		`"max_tokens":true`:                        {"max_tokens", CodeInvalidType},
		`"max_tokens":8.5`:                         {"max_tokens", CodeInvalidType},
		`"max_tokens":1e300`:                       {"max_tokens", CodeInvalidType},
		`"max_tokens":5,"max_completion_tokens":6`: {"max_tokens", CodeInvalidValue},
		`"seed":18446744073709551615`:              {"seed", CodeInvalidType},
		`"n":0`:                                    {"n", CodeInvalidValue},
		`"n":17`:                                   {"n", CodeInvalidValue},
		`"temperature":"hot"`:                      {"temperature", CodeInvalidType},
		`"temperature":9`:                          {"temperature", CodeInvalidValue},
		`"top_p":-1`:                               {"top_p", CodeInvalidValue},
		`"repeat_penalty":0`:                       {"repeat_penalty", CodeInvalidValue},
		`"top_k":-1`:                               {"top_k", CodeInvalidValue},
		`"stream":"yes"`:                           {"stream", CodeInvalidType},
		`"stream_options":5`:                       {"stream_options", CodeInvalidType},
		`"stop":5`:                                 {"stop", CodeInvalidType},
		`"stop":[5]`:                               {"stop[0]", CodeInvalidType},
		`"stop":""`:                                {"stop", CodeInvalidValue},
		`"stop":"` + strings.Repeat("x", 1025) + `"`:     {"stop", CodeInvalidValue},
		`"stop":[` + strings.Repeat(`"x",`, 16) + `"y"]`: {"stop", CodeInvalidValue},
		`"logit_bias":{"abc":1}`:                         {"logit_bias", CodeInvalidValue},
		`"logit_bias":{"1000":1}`:                        {"logit_bias", CodeInvalidValue},
		`"logit_bias":{"5":1000}`:                        {"logit_bias", CodeInvalidValue},
		`"logit_bias":[1]`:                               {"logit_bias", CodeInvalidType},
		`"top_logprobs":3`:                               {"top_logprobs", CodeInvalidValue},
		`"logprobs":true,"top_logprobs":21`:              {"top_logprobs", CodeInvalidValue},
		`"functions":[{}]`:                               {"functions", CodeUnsupported},
		`"modalities":["text","audio"]`:                  {"modalities", CodeUnsupported},
		`"prediction":{"type":"content"}`:                {"prediction", CodeUnsupported},
		`"web_search_options":{}`:                        {"web_search_options", CodeUnsupported},
		`"chat_template":"x"`:                            {"chat_template", CodeUnsupported},
		`"chat_template_kwargs":5`:                       {"chat_template_kwargs", CodeInvalidType},
		`"reasoning_effort":"extreme"`:                   {"reasoning_effort", CodeInvalidValue},
		`"max_tokens":3,"max_tokens":4`:                  {"max_tokens", CodeInvalidJSON},
	} {
		_, err := decode(t, fields)
		require.NotNil(t, err, fields)
		require.NotNil(t, err.Param, fields)
		require.Equal(t, want.param, *err.Param, fields)
		require.Equal(t, want.code, err.Code, fields)
		require.Contains(t, err.Message, strings.SplitN(want.param, "[", 2)[0], fields)
	}
}

func TestDecodeChat_RefusesMessagesByPath(t *testing.T) {
	msg := func(m string) string { return `{"model":"m","messages":[` + m + `]}` }
	for body, want := range map[string]string{
		`{"messages":[{"role":"user","content":"x"}]}`:            "model",
		`{"model":"","messages":[{"role":"user","content":"x"}]}`: "model",
		`{"model":null,"messages":[]}`:                            "model",
		`{"model":"m"}`:                                           "messages",
		`{"model":"m","messages":[]}`:                             "messages",
		`{"model":"m","messages":{}}`:                             "messages",
		msg(`{"role":"banana","content":"x"}`):                    "messages[0].role",
		msg(`{"role":"SYSTEM","content":"x"}`):                    "messages[0].role",
		msg(`{"role":5,"content":"x"}`):                           "messages[0].role",
		msg(`{"content":"x"}`):                                    "messages[0].role",
		msg(`{"role":"user"}`):                                    "messages[0].content",
		msg(`{"role":"user","content":null}`):                     "messages[0].content",
		msg(`{"role":"user","content":7}`):                        "messages[0].content",
		msg(`{"role":"user","content":[{"type":"text","text":"What?"},{"type":"image_url","image_url":{"url":"data:"}}]}`): "messages[0].content[1].type",
		msg(`{"role":"user","content":[{"type":"banana"}]}`):                                                               "messages[0].content[0].type",
		msg(`{"role":"user","content":[{"text":"x"}]}`):                                                                    "messages[0].content[0].type",
		msg(`{"role":"user","content":[{"type":"text"}]}`):                                                                 "messages[0].content[0].text",
		msg(`{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{bad"}}]}`): "messages[0].tool_calls[0].function.arguments",
		msg(`{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":"[1]"}}]}`):                    "messages[0].tool_calls[0].function.arguments",
		msg(`{"role":"user","content":"x","tool_calls":[{"id":"1","function":{"name":"f"}}]}`):                             "messages[0].tool_calls",
		msg(`{"role":"user","content":"cut \ud83d"}`):                                                                      "messages[0].content",
		msg(`{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{\"a\":\"\\ud83d\"}"}}]}`):    "messages[0].tool_calls[0].function.arguments",
		msg(`{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":"\ud83d"}}]}`):                 "messages[0].tool_calls[0].function.arguments",
		msg("{\"role\":\"user\",\"content\":\"\xff\xfe\"}"):                                                                "messages[0].content",
	} {
		_, err := DecodeChat([]byte(body), Limits{})
		require.NotNil(t, err, body)
		require.Equal(t, 400, err.Status())
		require.NotNil(t, err.Param, "%s: %s", body, err.Message)
		require.Equal(t, want, *err.Param, body)
	}
}

func TestDecodeChat_ContentFormsAreOne(t *testing.T) {
	for body, want := range map[string]string{
		`{"role":"user","content":"My code is K-77."}`:                                                      "My code is K-77.",
		`{"role":"system","content":[{"type":"text","text":"My code is "},{"type":"text","text":"K-77."}]}`: "My code is K-77.",
		`{"role":"assistant","content":null,"reasoning":null}`:                                              "",
		`{"role":"assistant"}`:                            "",
		`{"role":"user","content":[]}`:                    "",
		`{"role":"user","content":"\ud83d\ude00 \u0000"}`: "😀 \x00",
		`{"role":"assistant","content":"4","tool_calls":[{"id":"1","function":{"name":"f","arguments":{"city":"Oslo"}}}]}`: "4",
		`{"role":"assistant","content":"4","tool_calls":[{"id":"1","function":{"name":"f","arguments":""}}]}`:              "4",
	} {
		r, err := DecodeChat([]byte(`{"model":"m","messages":[`+body+`]}`), Limits{})
		require.Nil(t, err, "%s: %v", body, err)
		require.Equal(t, want, r.Messages[0].Content.Text, body)
	}
}

func TestDecodeChat_DeepOrManyIsRefusedBeforeItIsRead(t *testing.T) {
	_, err := DecodeChat([]byte(`{`+hi+`,"tools":`+strings.Repeat(`[`, 20000)+strings.Repeat(`]`, 20000)+`}`), Limits{})
	require.Equal(t, CodeInvalidJSON, err.Code)
	require.Contains(t, err.Message, "nested")
	_, err = DecodeChat([]byte(`{"model":"m","messages":[`+strings.Repeat(`{"role":"user","content":"x"},`, 5000)+`{"role":"user","content":"x"}]}`), Limits{})
	require.Equal(t, "messages", *err.Param)
	for _, bad := range []string{``, `[]`, `5`, `{`, `null x`, `{"model":"m"} {}`, `"` + strings.Repeat(`{`, 500) + `"`} {
		_, err := DecodeChat([]byte(bad), Limits{})
		require.NotNil(t, err, bad)
		require.Equal(t, 400, err.Status())
	}
}

func TestChatRequest_GenerateKeepsEveryBit(t *testing.T) {
	r, err := decode(t, `"seed":9007199254740993,"n":3,"temperature":0.5,"top_k":40,"logit_bias":{"7":-100},"stop":"END","max_completion_tokens":9,"logprobs":true,"top_logprobs":2`)
	require.Nil(t, err)
	g := r.Generate([]wire.Segment{{Text: "x"}}, 2, 8192, 0)
	require.EqualValues(t, uint64(9007199254740995), *g.Sampling.Seed)
	require.Equal(t, 9, g.MaxTokens)
	require.Equal(t, []string{"END"}, g.Stop)
	require.EqualValues(t, 40, *g.Sampling.TopK)
	require.Equal(t, map[int32]float32{7: -100}, g.Sampling.LogitBias)
	require.Equal(t, 2, g.Sampling.TopLogprobs)
	r, err = decode(t, `"max_tokens":100000000,"seed":-1`)
	require.Nil(t, err)
	g = r.Generate(nil, 0, 8192, 0)
	require.Zero(t, g.MaxTokens, "more than fits is up to the context")
	require.EqualValues(t, uint64(math.MaxUint64), *g.Sampling.Seed)
	r, err = decode(t, "")
	require.Nil(t, err)
	require.Equal(t, 77, r.Generate(nil, 0, 8192, 77).MaxTokens)
}

func TestEncoder_EqualsTheGeneralForm(t *testing.T) {
	head := Head{ID: "chatcmpl-1", Created: 5, Model: `a"b`, Fingerprint: "fp"}
	lp := Logprobs([]wire.TokenLogprob{{ID: 1, Bytes: []byte("h\xf0"), Logprob: float32(math.Inf(-1)), Top: []wire.TokenLogprob{{Bytes: []byte("x"), Logprob: -1}}}})
	stop, text, empty := "stop", "<a> \"q\" \u2028 😀\n\\", ""
	g := &Gnosis{LiquidMemory: "disabled", Path: "native"}
	u := Usage{PromptTokens: 3, CompletionDetails: &CompletionDetails{ReasoningTokens: 2}}
	two := 2
	for _, withUsage := range []bool{false, true} {
		e := NewEncoder(head, withUsage)
		h := head
		h.Object = "chat.completion.chunk"
		for _, c := range []struct {
			got  []byte
			want Chunk
		}{
			{e.Role(nil, 0), Chunk{Head: h, Choices: []ChunkChoice{{Delta: Delta{Role: "assistant", Content: &empty}}}}},
			{e.Text(nil, 3, text, nil), Chunk{Head: h, Choices: []ChunkChoice{{Index: 3, Delta: Delta{Content: &text}}}}},
			{e.Text(nil, 0, text, lp), Chunk{Head: h, Choices: []ChunkChoice{{Delta: Delta{Content: &text}, Logprobs: lp}}}},
			{e.Reasoning(nil, 1, text, lp), Chunk{Head: h, Choices: []ChunkChoice{{Index: 1, Delta: Delta{ReasoningContent: &text}, Logprobs: lp}}}},
			{e.Call(nil, 1, 2, "call_x", "get", nil), Chunk{Head: h, Choices: []ChunkChoice{{Index: 1, Delta: Delta{ToolCalls: []AnswerCall{{Index: &two, ID: "call_x", Type: "function", Function: AnswerFunction{Name: "get"}}}}}}}},
			{e.Arguments(nil, 0, 2, text, lp), Chunk{Head: h, Choices: []ChunkChoice{{Delta: Delta{ToolCalls: []AnswerCall{{Index: &two, Function: AnswerFunction{Arguments: text}}}}, Logprobs: lp}}}},
			{e.Finish(nil, 1, stop, g), Chunk{Head: h, Choices: []ChunkChoice{{Index: 1, FinishReason: &stop}}, Gnosis: g}},
			{e.Usage(nil, u, g), Chunk{Head: h, Choices: []ChunkChoice{}, Usage: &u, Gnosis: g}},
		} {
			data, ok := strings.CutPrefix(string(c.got), "data: ")
			require.True(t, ok)
			data, ok = strings.CutSuffix(data, "\n\n")
			require.True(t, ok)
			require.NotContains(t, data, "\n")
			var got, want map[string]any
			require.NoError(t, json.Unmarshal([]byte(data), &got), data)
			b, err := json.Marshal(c.want)
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(b, &want))
			if withUsage && c.want.Usage == nil {
				want["usage"] = nil
			}
			require.Equal(t, want, got)
		}
	}
}

func TestError_EveryCodeHasARowAndEveryWireCodeATranslation(t *testing.T) {
	for code, row := range table {
		require.GreaterOrEqual(t, row.status, 400, code)
		require.NotEmpty(t, row.kind, code)
	}
	for _, c := range []wire.Code{wire.CodeInvalid, wire.CodeUnsupported, wire.CodeContextLength, wire.CodeTooLarge, wire.CodeOverloaded,
		wire.CodeLoading, wire.CodeDraining, wire.CodeUnavailable, wire.CodeEngine, wire.CodeTimeout, wire.CodeCancelled} {
		we := &wire.Error{Code: c, Message: "m"}
		got := FromWire(we)
		require.Equal(t, we.Status(), got.Status(), c)
		require.Equal(t, "m", got.Message)
	}
	for _, c := range []wire.Code{wire.CodeNoRoute, wire.CodeGone, wire.CodeBusy, wire.CodeMethod, "new"} {
		require.Equal(t, 500, FromWire(&wire.Error{Code: c}).Status(), "%s is not the client's fault", c)
	}
	e := FromWire(&wire.Error{Code: wire.CodeInvalid, Param: "sampling.top_p", Message: "m"})
	require.Equal(t, "top_p", *e.Param)
}

func FuzzDecodeChat_NeverPanicsAndAlwaysNamesAStatus(f *testing.F) {
	f.Add([]byte("{" + hi + "}"))
	f.Add([]byte(`{"model":"m","messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}],"stop":["a"],"n":2.0}`))
	f.Add([]byte(`{"model":"m","prompt_cache_key":"k","prompt_cache_options":{"mode":"explicit","ttl":"30m","x":1},"cache_salt":"s","messages":[{"role":"user","content":[{"type":"text","text":"a","prompt_cache_breakpoint":{"mode":"explicit","ttl":"1h"}}]}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := DecodeChat(body, Limits{})
		if err != nil {
			require.Equal(t, 400, err.Status())
			require.NotEmpty(t, err.Message)
			return
		}
		require.NotEmpty(t, r.Messages)
		r.Generate(nil, 0, 100, 0)
		require.LessOrEqual(t, r.Cache().TTL, maxCacheTTL)
		for _, m := range r.Messages {
			for _, at := range m.Content.Breakpoints {
				require.LessOrEqual(t, at, len(m.Content.Text))
			}
		}
	})
}

func TestDecodeChat_ARefusalIsTextOfItsTurn(t *testing.T) {
	body := func(m string) []byte {
		return []byte(`{"model":"m","messages":[{"role":"user","content":"a"},` + m + `]}`)
	}
	for m, want := range map[string]string{
		`{"role":"assistant","content":null,"refusal":"No."}`:                              "No.",
		`{"role":"assistant","refusal":"No."}`:                                             "No.",
		`{"role":"assistant","content":"Well. ","refusal":"No."}`:                          "Well. No.",
		`{"role":"assistant","content":[{"type":"text","text":"Well. "}],"refusal":"No."}`: "Well. No.",
		`{"role":"assistant","content":"Yes.","refusal":null}`:                             "Yes.",
		`{"role":"assistant","content":"Yes.","refusal":""}`:                               "Yes.",
	} {
		r, err := DecodeChat(body(m), Limits{})
		require.Nil(t, err, m)
		require.Equal(t, want, r.Messages[1].Content.Text, m)
		require.True(t, r.Messages[1].Content.Given, m)
	}
	for _, m := range []string{`{"role":"user","content":"x","refusal":"No."}`, `{"role":"assistant","refusal":7}`} {
		_, err := DecodeChat(body(m), Limits{})
		require.NotNil(t, err, m)
		require.Equal(t, "messages[1].refusal", *err.Param)
	}
}
