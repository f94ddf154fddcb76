package responses

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"thoth/host/openai"
	"thoth/host/prompt"
)

// talk is the conversation of an input, with instructions where there are any.
func talk(t *testing.T, instructions, input string) ([]prompt.Message, *openai.Error) {
	t.Helper()
	all, e := items(t, input)
	require.Nil(t, e)
	c, e := Conversation(instructions, nil, all, nil)
	return c.Messages, e
}

func TestConversation_WhatTheModelDidInATurnIsOneMessage(t *testing.T) {
	got, e := talk(t, "Be brief.", `[
		{"role":"user","content":[{"type":"input_text","text":"Oslo"},{"type":"input_text","text":" and Rome?"}]},
		{"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"Two "},{"type":"reasoning_text","text":"calls."}]},
		{"role":"assistant","content":[{"type":"output_text","text":"I look."}]},
		{"type":"function_call","call_id":"c1","name":"f","arguments":"{\"city\": \"Oslo\"}"},
		{"type":"function_call","call_id":"c2","name":"f","arguments":""},
		{"type":"function_call_output","call_id":"c1","output":"rain"},
		{"type":"function_call_output","call_id":"c2","output":[{"type":"input_text","text":"su"},{"type":"input_text","text":"n"}]},
		{"type":"reasoning","summary":[{"type":"summary_text","text":"Both are here."}]},
		{"role":"assistant","content":"Rain and sun."},
		{"role":"developer","content":"Speak Norwegian."},
		{"role":"user","content":"Again"}]`)
	require.Nil(t, e)
	require.Equal(t, []prompt.Message{
		{Role: prompt.System, Content: "Be brief."},
		{Role: prompt.User, Content: "Oslo and Rome?"},
		{Role: prompt.Assistant, Reasoning: "Two calls.", Content: "I look.", ToolCalls: []prompt.ToolCall{{ID: "c1", Name: "f", Arguments: `{"city": "Oslo"}`}, {ID: "c2", Name: "f", Arguments: "{}"}}},
		{Role: prompt.ToolResult, ToolCallID: "c1", Content: "rain"},
		{Role: prompt.ToolResult, ToolCallID: "c2", Content: "sun"},
		{Role: prompt.Assistant, Reasoning: "Both are here.", Content: "Rain and sun."},
		{Role: prompt.System, Content: "Speak Norwegian."},
		{Role: prompt.User, Content: "Again"},
	}, got)
}

func TestConversation_TurnsWithNobodyBetweenAreApart(t *testing.T) {
	const thought, said, called, answer = `{"type":"reasoning","content":[{"type":"reasoning_text","text":"t"}]}`, `{"role":"assistant","content":"s"}`,
		`{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}`, `{"type":"function_call_output","call_id":"c","output":"o"}`
	call := []prompt.ToolCall{{ID: "c", Name: "f", Arguments: "{}"}}
	output := prompt.Message{Role: prompt.ToolResult, ToolCallID: "c", Content: "o"}
	for input, want := range map[string][]prompt.Message{
		said + `,` + said:                                        {{Role: prompt.Assistant, Content: "s"}, {Role: prompt.Assistant, Content: "s"}},
		thought + `,` + said + `,` + thought:                     {{Role: prompt.Assistant, Reasoning: "t", Content: "s"}, {Role: prompt.Assistant, Reasoning: "t"}},
		thought + `,` + called + `,` + thought + `,` + answer:    {{Role: prompt.Assistant, Reasoning: "t", ToolCalls: call}, {Role: prompt.Assistant, Reasoning: "t"}, output},
		called + `,` + said + `,` + answer:                       {{Role: prompt.Assistant, Content: "s", ToolCalls: call}, output},
		said + `,` + called + `,` + said + `,` + answer:          {{Role: prompt.Assistant, Content: "ss", ToolCalls: call}, output},
		thought + `,` + thought + `,` + said:                     {{Role: prompt.Assistant, Reasoning: "tt", Content: "s"}},
		said + `,{"role":"user","content":"u"}`:                  {{Role: prompt.Assistant, Content: "s"}, {Role: prompt.User, Content: "u"}},
		`{"role":"user","content":"u"},` + called + `,` + answer: {{Role: prompt.User, Content: "u"}, {Role: prompt.Assistant, ToolCalls: call}, output},
	} {
		got, e := talk(t, "", `[`+input+`]`)
		require.Nil(t, e)
		require.Equal(t, want, got, input)
	}
}

func TestConversation_HasTheToolsAndTheBreakpoints(t *testing.T) {
	all, e := items(t, `[{"role":"user","content":[{"type":"input_text","text":"åb","prompt_cache_breakpoint":{"mode":"explicit"}},{"type":"input_text","text":"c"}]},
		{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},
		{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"xy","prompt_cache_breakpoint":{"mode":"explicit"}}]}]`)
	require.Nil(t, e)
	c, e := Conversation("", nil, all, []openai.Tool{{Name: "f", Definition: []byte(`{}`)}})
	require.Nil(t, e)
	require.Equal(t, []prompt.Tool{{Name: "f", Definition: []byte(`{}`)}}, c.Tools)
	require.Equal(t, []int{3}, c.Messages[0].Breakpoints)
	require.Equal(t, []int{2}, c.Messages[2].Breakpoints)
}

func TestConversation_RefusesCallsThatDoNotAddUp(t *testing.T) {
	const call, output, user = `{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}`, `{"type":"function_call_output","call_id":"c","output":"x"}`, `{"role":"user","content":"x"}`
	for input, want := range map[string]string{
		call:                               "input[0]",
		user + `,` + call + `,` + user:     "input[1]",
		call + `,` + user + `,` + output:   "input[0]",
		call + `,` + output + `,` + output: "input[2].call_id",
		call + `,` + output + `,` + call:   "input[2]", // an id may come again
		`{"role":"user","content":"x"},{"type":"function_call_output","call_id":"c","output":"x"}`: "input[1].call_id",
		`{"type":"function_call_output","call_id":"c","output":"x"},` + call:                       "input[0].call_id",
		call + `,` + call: "input[1].call_id",
	} {
		_, e := talk(t, "", `[`+input+`]`)
		require.NotNil(t, e, input)
		require.Equal(t, want, *e.Param)
		require.Equal(t, openai.CodeInvalidValue, e.Code)
	}
	for _, input := range []string{call + `,` + output, call + `,` + output + `,` + call + `,` + output} {
		_, e := talk(t, "", `[`+input+`]`)
		require.Nil(t, e)
	}
}

func TestConversation_ACallOfTheTurnBeforeMustBeAnswered(t *testing.T) {
	history, e := items(t, `[{"role":"user","content":"Oslo?"},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}]`)
	require.Nil(t, e)
	input, e := items(t, `[{"role":"user","content":"Well?"}]`)
	require.Nil(t, e)
	_, e = Conversation("", history, input, nil)
	require.NotNil(t, e)
	require.Equal(t, "previous_response_id", *e.Param)
	require.Contains(t, e.Message, "No tool output found for function call c")
}

func TestConversation_ACallOfAnEarlierTurnIsAnswered(t *testing.T) {
	history, e := items(t, `[{"role":"user","content":"Oslo?"},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}]`)
	require.Nil(t, e)
	input, e := items(t, `[{"type":"function_call_output","call_id":"c","output":"rain"}]`)
	require.Nil(t, e)
	c, e := Conversation("Be brief.", history, input, nil)
	require.Nil(t, e)
	require.Equal(t, []prompt.Message{{Role: prompt.System, Content: "Be brief."}, {Role: prompt.User, Content: "Oslo?"},
		{Role: prompt.Assistant, ToolCalls: []prompt.ToolCall{{ID: "c", Name: "f", Arguments: "{}"}}}, {Role: prompt.ToolResult, ToolCallID: "c", Content: "rain"}}, c.Messages)
}

func TestConversation_AResponseCutInACallEndsItsChain(t *testing.T) {
	d := NewDraft(&Response{ID: "resp_1"})
	d.Call("c", "f")
	d.Arguments(`{"city": "Os`)
	d.End(true, nil, nil, time.Time{})
	_, e := Conversation("", d.Response.Output, nil, nil)
	require.NotNil(t, e)
	require.Equal(t, "previous_response_id", *e.Param)
	require.Contains(t, e.Message, `"c"`)
}

// What the model wrote comes back as it was, from the response or from the items of a
// client that sends all of them itself.
func TestConversation_OfAResponseIsWhatWasWritten(t *testing.T) {
	for name, c := range map[string]struct {
		write func(*Draft)
		cut   bool
		want  prompt.Message
		more  string // input that answers its calls
	}{
		"text":  {func(d *Draft) { d.Text(" a", nil); d.Text("\n b ", nil) }, false, prompt.Message{Role: prompt.Assistant, Content: " a\n b "}, ""},
		"empty": {func(*Draft) {}, false, prompt.Message{Role: prompt.Assistant}, ""},
		"all": {func(d *Draft) {
			d.Reasoning("th")
			d.Reasoning("ink")
			d.Text("I look.", nil)
			d.Call("c1", "f")
			d.Arguments(`{"a": `)
			d.Arguments(`"<&>"}`)
			d.Call("c2", "g")
		}, false, prompt.Message{Role: prompt.Assistant, Reasoning: "think", Content: "I look.",
			ToolCalls: []prompt.ToolCall{{ID: "c1", Name: "f", Arguments: `{"a": "<&>"}`}, {ID: "c2", Name: "g", Arguments: "{}"}}},
			`{"type":"function_call_output","call_id":"c1","output":"1"},{"type":"function_call_output","call_id":"c2","output":"2"}`},
		"cut in its reasoning": {func(d *Draft) { d.Reasoning("th") }, true, prompt.Message{Role: prompt.Assistant, Reasoning: "th"}, ""},
		"cut at once":          {func(*Draft) {}, true, prompt.Message{Role: prompt.Assistant}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := NewDraft(&Response{})
			c.write(d)
			d.End(c.cut, nil, nil, time.Time{})
			raw, err := json.Marshal(d.Response.Output)
			require.NoError(t, err)
			var stored []Item
			require.NoError(t, json.Unmarshal(raw, &stored))
			again, e := items(t, string(raw))
			require.Nil(t, e)
			var more []Item
			require.NoError(t, json.Unmarshal([]byte("["+c.more+"]"), &more))
			for _, history := range [][]Item{d.Response.Output, stored, again} {
				got, e := Conversation("", history, more, nil)
				require.Nil(t, e)
				require.Equal(t, c.want, got.Messages[0])
				require.Len(t, got.Messages, 1+len(more))
			}
		})
	}
}
