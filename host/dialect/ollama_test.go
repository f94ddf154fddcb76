package dialect

import (
	"encoding/json"
	"testing"

	"github.com/ollama/ollama/api"
	"github.com/ollama/ollama/model/parsers"
	"github.com/ollama/ollama/tools"
	"github.com/stretchr/testify/require"
)

// TestParser_AgreesWithOllama gives well-formed answers to ollama's parser of the
// family too.
func TestParser_AgreesWithOllama(t *testing.T) {
	const args = `{"city": "Zürich \"x\"", "days": 3}`
	tagged := func(name string) func(t *testing.T, text string) []api.ToolCall {
		return func(t *testing.T, text string) []api.ToolCall {
			p := parsers.ParserForName(name)
			p.Init(ollamaTools(t), nil, &api.ThinkValue{Value: false})
			_, _, calls, err := p.Add(text, false)
			require.NoError(t, err)
			_, _, more, err := p.Add("", true)
			require.NoError(t, err)
			return append(calls, more...)
		}
	}
	listed := func(tag string) func(t *testing.T, text string) []api.ToolCall {
		return func(t *testing.T, text string) []api.ToolCall {
			calls, _ := tools.NewParserWithTag(ollamaTools(t), tag).Add(text)
			return calls
		}
	}
	for name, test := range map[string]struct {
		dialect *Dialect
		theirs  func(t *testing.T, text string) []api.ToolCall
		text    string
	}{
		"hermes":        {hermes(), tagged("qwen3"), "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": " + args + "}\n</tool_call>\n<tool_call>\n{\"name\": \"note\", \"arguments\": {}}\n</tool_call>"},
		"hermes, tools": {hermes(), listed("<tool_call>"), "Ok <tool_call>\n{\"name\": \"get_weather\", \"arguments\": " + args + "}\n</tool_call>"},
		"llama":         {llama(), listed("{"), `{"name": "get_weather", "parameters": ` + args + `}`},
		"mistral":       {mistral(false, false), listed("[TOOL_CALLS]"), `[TOOL_CALLS][{"name": "get_weather", "arguments": ` + args + `}, {"name": "note", "arguments": {"done": true}}]`},
		"mistral, args": {mistral(true, false), tagged("ministral"), `[TOOL_CALLS]get_weather[ARGS]` + args + `[TOOL_CALLS]note[ARGS]{}`},
		"deepseek":      {deepseek(false), tagged("deepseek3"), "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>" + args + "<｜tool▁call▁end｜><｜tool▁call▁begin｜>note<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"},
		"phi":           {phi(true), listed("<|tool_call|>"), `<|tool_call|>[{"name": "get_weather", "arguments": ` + args + `}]<|/tool_call|>`},
		"qwen3-coder":   {qwenCoder(), tagged("qwen3-coder"), "<tool_call>\n<function=get_weather>\n<parameter=city>\nZürich & <x>\n</parameter>\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>"},
		"glm":           {glm(), tagged("glm-4.7"), "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Zürich</arg_value>\n<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>"},
		"functiongemma": {functionGemma(), tagged("functiongemma"), "<start_function_call>call:get_weather{city:<escape>Zürich<escape>,days:3}<end_function_call>"},
		"olmo3":         {olmo(), tagged("olmo3"), "<function_calls>get_weather(city=\"Oslo\", days=3)\nnote(done=True)</function_calls>"},
		"gpt-oss":       {harmony(), tagged("harmony"), "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>" + args},
		"gpt-oss, role": {harmony(), tagged("harmony"), " to=functions.get_weather<|channel|>commentary json<|message|>" + args},
	} {
		t.Run(name, func(t *testing.T) {
			names, arguments, _ := calls(parse(test.dialect, auto(), false, test.text))
			theirs := test.theirs(t, test.text)
			require.Len(t, theirs, len(names))
			for i, call := range theirs {
				require.Equal(t, call.Function.Name, names[i])
				want, err := json.Marshal(call.Function.Arguments)
				require.NoError(t, err)
				require.JSONEq(t, string(want), arguments[i])
			}
		})
	}
}

func ollamaTools(t *testing.T) []api.Tool {
	var out []api.Tool
	for _, tool := range []Tool{weather, note} {
		a := api.Tool{Type: "function", Function: api.ToolFunction{Name: tool.Name}}
		require.NoError(t, json.Unmarshal(tool.Parameters, &a.Function.Parameters))
		out = append(out, a)
	}
	return out
}
