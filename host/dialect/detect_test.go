package dialect

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDetect_Templates checks the dialect of every template that the prompt's
// tests render.
func TestDetect_Templates(t *testing.T) {
	want := map[string]struct {
		name           string
		thinks, single bool
	}{
		"chatml":        {name: "generic"},
		"chatml-hermes": {name: "hermes"},
		"deepseek-r1":   {name: "generic", thinks: true}, // it shows calls, and no tools
		"deepseek-v3.1": {name: "deepseek", thinks: true},
		"gemma":         {name: "generic"},
		"gpt-oss":       {name: "gpt-oss", thinks: true, single: true},
		"llama-3.1":     {name: "llama3", single: true},
		"mistral-v3":    {name: "mistral"},
		"mistral-v11":   {name: "mistral-args"},
		"phi-4-mini":    {name: "generic"}, // it shows tools, and no calls
		"qwen3":         {name: "hermes", thinks: true},
		"qwen3-coder":   {name: "qwen3-coder"},
	}
	paths, err := filepath.Glob("../prompt/testdata/templates/*.jinja")
	require.NoError(t, err)
	seen := 0
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".jinja")
		w, ok := want[name]
		if !ok {
			continue
		}
		seen++
		template, err := os.ReadFile(path)
		require.NoError(t, err)
		d := Detect(string(template), "")
		require.Equal(t, w.name, d.Name, name)
		require.Equal(t, w.thinks, d.Thinks, name)
		require.Equal(t, w.single, d.single, name)
		require.Equal(t, w.name == "generic", d.Generic(), name)
	}
	require.Len(t, want, seen)
}

func TestDetect_ByMarkers(t *testing.T) {
	const shows = "{% if tools %}{{ tools|tojson }}{% endif %}{% for c in m.tool_calls %}"
	for text, name := range map[string]string{
		"<tool_call>\n{":                                    "hermes",
		"<tool_call>{{ c.name }}\n<arg_key>":                "glm",
		"<tool_call>\n<function={{ c.name }}>\n<parameter=": "qwen3-coder",
		"<start_function_call>call:":                        "functiongemma",
		"<function_calls>":                                  "olmo3",
		"functools[":                                        "phi-4-mini",
		"<|tool_call|>[{{ c }}]<|/tool_call|>":              "phi-4-mini",
		"<|tool_call|>":                                     "granite",
		"<|python_tag|>":                                    "llama3",
		`<|start_header_id|> {"name": n, "parameters": p}`:  "llama3",
		"<｜tool▁calls▁begin｜>":                              "deepseek",
		"<｜tool▁calls▁begin｜>{{ '```json' }}":               "deepseek-r1",
		"[TOOL_CALLS][":                                     "mistral",
		"[TOOL_CALLS]{{ c.name }}[ARGS]":                    "mistral-args",
		"<|start|>assistant<|channel|>final<|message|>":     "gpt-oss",
		"<start_of_turn>model":                              "generic",
	} {
		require.Equal(t, name, Detect(shows+text, "").Name, text)
	}
	require.Equal(t, "generic", Detect("", "llama").Name)
	require.Equal(t, "gpt-oss", Detect("", "gpt-oss").Name)
	require.Equal(t, "generic", Detect("{# tools tool_calls #}<tool_call> tools {{ m.tool_calls }}", "").Name, "no tool list")
	require.Equal(t, "generic", Detect("{% if tools %}<tool_call>{% endif %}", "").Name, "no calls")
}

func TestDialect_OpensWhereNoAnswerMayFollow(t *testing.T) {
	for _, c := range []struct {
		d    *Dialect
		tail string
		want bool
	}{
		{Detect("<think>", ""), "<|im_start|>assistant\n<think>\n", true},
		{Detect("<think>", ""), "<|im_start|>assistant\n<think>\n\n</think>\n\n", false},
		{Detect("<think>", ""), "<|im_start|>assistant\n", false},
		{Detect("", ""), "<|im_start|>assistant\n<think>\n", false}, // it knows no reasoning
		{harmony(), "<|end|><|start|>assistant", true},
	} {
		require.Equal(t, c.want, c.d.Opens(c.tail), "%s %q", c.d.Name, c.tail)
	}
}

func TestDialect_MarkersAndControlText(t *testing.T) {
	control := map[string]bool{"llama3": true, "mistral": true, "mistral-args": true, "deepseek": true, "deepseek-r1": true,
		"gpt-oss": true, "phi-4-mini": true, "granite": true, "functiongemma": true}
	for name, d := range all() {
		require.Equal(t, control[d.Name], d.ControlText(), name)
		require.Equal(t, d.Name == "llama3", len(d.Markers()) == 0, name)
	}
	require.Equal(t, []string{"<tool_call>"}, Detect("", "").Markers())
	require.Equal(t, []string{"[TOOL_CALLS]"}, mistral(false, false).Markers())
}
