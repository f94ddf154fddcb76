package dialect

import (
	"math/rand"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
)

// FuzzParser gives any text to every family's parser, whole and in two pieces:
// the events are the same, what is not a call's is text, and arguments are JSON
// unless the answer was cut.
func FuzzParser(f *testing.F) {
	for _, text := range []string{
		"Sure.\n\n<tool_call>\n{\"name\": \"note\", \"arguments\": {\"text\": \"ü</tool_call>\"}}\n</tool_call>\n<tool_call>{\"name\": \"x\"}</tool_call> ok",
		"<think>\nHm.\n</think>\n\n<tool_call>\n<function=note>\n<parameter=text>\nnull\n</parameter>\n</function>\n</tool_call>",
		"<tool_call>note\n<arg_key>text</arg_key>\n<arg_value>{}</arg_value>\n</tool_call> {",
		`{"name": "clock", "parameters": {}}; {"name": "note", "parameters": {"done": [true]}} <|python_tag|>{`,
		`[TOOL_CALLS] [{"name": "clock", "arguments": {}, "id": "abcdefghi"}, {"name": "clock"}] [TOOL_CALLS]note[CALL_ID]a[ARGS] {}`,
		"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>note\n```json\n{}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>clock<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
		"<|channel|>analysis<|message|>a<|end|><|start|>assistant to=functions.note<|channel|>commentary json<|message|>{}<|call|><|start|>assistant<|channel|>final<|message|>b",
		`<|tool_call|>[{"name": "clock", "arguments": {}} , {"name": "note", "arguments": {}}]<|/tool_call|> functools[{"name": "clock"`,
		"<start_function_call>call:note{text:<escape>a}<escape>,done:true}<end_function_call> <start_function_call>call:note{text:[1,{a:b}]}",
		"<function_calls>note(text='a\\'', done=True)\nclock()</function_calls> <function_calls>note(text=[None])",
		"0<|message|>0", "<<|message|>", "\xff\xc3(<tool_call>\xe6",
	} {
		f.Add(text, 7, false)
		f.Add(text, len(text)-2, true)
	}
	dialects := all()
	f.Fuzz(func(t *testing.T, text string, at int, required bool) {
		at = min(max(at, 0), len(text))
		for name, d := range dialects {
			ask := auto()
			if required {
				ask.Mode = ModeRequired
			}
			whole := parse(d, ask, required, text)
			require.Equal(t, show(whole), show(parse(d, ask, required, text[:at], text[at:])), name)
			thinks := *d
			if !d.harmony {
				require.Equal(t, show(parse(thoughtful(&thinks), ask, required, text)), show(parse(&thinks, ask, required, text[:at], text[at:])), name)
			}
			content := ask
			content.Content = "content"
			ruled := parse(d, content, required, text)
			require.Equal(t, show(ruled), show(parse(d, content, required, text[:at], text[at:])), name)
			if required {
				continue
			}
			if !d.harmony {
				keeps(t, text, ruled)
			}
			if !d.harmony {
				keeps(t, text, whole)
			}
			_, arguments, _ := calls(whole)
			for _, a := range arguments {
				require.True(t, jsontext.Value(a).IsValid(), "%s: %q", name, a)
			}
		}
	})
}

// keeps fails if the text before the first call or behind the last one is not the
// answer's own, but for white space at the calls; without a call, to the byte.
func keeps(t *testing.T, text string, events []Event) {
	first, last, called := "", "", false
	for _, e := range events {
		switch {
		case e.Kind == Call:
			require.Contains(t, text, e.Name)
			called, last = true, ""
		case e.Kind == Content && called:
			last += e.Text
		case e.Kind == Content:
			first += e.Text
		}
	}
	if !called {
		require.Equal(t, text, first)
		return
	}
	require.True(t, strings.HasPrefix(text, first), "%q: %q", text, show(events))
	require.True(t, strings.HasSuffix(text, last), "%q: %q", text, show(events))
}

// TestParser_AnyMixOfPieces cuts answers made of every family's pieces at every place.
func TestParser_AnyMixOfPieces(t *testing.T) {
	pieces := []string{"<tool_call>", "</tool_call>", `{"name": "note", "arguments": {"text": "a"}}`, `{"name": "clock"}`, "\n", " text ", "<think>", "</think>",
		"[TOOL_CALLS]", "[", "]", ",", ";", "note", "[ARGS]", "{}", "<|tool_call|>", "<function=", "note>", "</function>", "<function_calls>", "note()", "</function_calls>"}
	r := rand.New(rand.NewSource(3))
	for name, d := range all() {
		if !d.harmony {
			d = thoughtful(d)
		}
		for range 150 {
			var text strings.Builder
			for range 1 + r.Intn(9) {
				text.WriteString(pieces[r.Intn(len(pieces))])
			}
			require.NotPanics(t, func() { parseAnyCut(t, d, auto(), false, text.String()) }, "%s: %q", name, text.String())
		}
	}
}
