package host

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"thoth/station/wire"
)

func TestReasoning_SwitchIsHonouredOrRefusedByItsName(t *testing.T) {
	const tagged = `{# <think> </think> #}`
	effortOf := func(words string) string {
		return tagged + strings.Replace(chatml, "{% for", "{% if reasoning_effort is defined and reasoning_effort in "+words+" %}{{ 'Reasoning: ' + reasoning_effort + '\n' }}{% endif %}{% for", 1)
	}
	const silent, always = "this model does not reason", "this model always reasons"
	for name, c := range map[string]struct {
		template, on, off   string // why it is refused, "" where it is not
		onPrompt, offPrompt string // what is in the prompt, and in that of the other not
	}{
		"does not think": {template: chatml, on: silent},
		"has a switch":   {template: thinkingTemplate, offPrompt: "<think>\n\n</think>"},
		"always thinks":  {template: tagged + chatml, off: always},
		"knows none":     {template: effortOf("['none', 'high']"), on: "use reasoning_effort, where allowed are none, high", offPrompt: "Reasoning: none"},
		"is off without": {template: tagged + strings.Replace(chatml, "{% for", "{% if enable_thinking is defined and enable_thinking %}{{ 'Think.\n' }}{% endif %}{% for", 1), onPrompt: "Think.\n"},
		"knows no none":  {template: effortOf("['low', 'high']"), off: always},
	} {
		t.Run(name, func(t *testing.T) {
			f, h := newModel(t, c.template)
			for name, fields := range map[string][2]string{
				"think":             {`"think":false`, `"think":true`},
				"enable_thinking":   {`"enable_thinking":false`, `"enable_thinking":true`},
				"thinking.type":     {`"thinking":{"type":"disabled"}`, `"thinking":{"type":"enabled"}`},
				"reasoning.enabled": {`"reasoning":{"enabled":false}`, `"reasoning":{"enabled":true}`},
			} {
				for i, why := range []string{c.off, c.on} {
					r := h.chat(fields[i])
					if why != "" {
						require.Equal(t, 400, r.status, fields[i])
						require.Equal(t, name, param(t, r))
						require.Contains(t, r.body, why)
						continue
					}
					require.Equal(t, 200, r.status, r.body)
					sent := text(f.last().Prompt.Segments)
					has, lacks := c.offPrompt, c.onPrompt
					if i == 1 {
						has, lacks = lacks, has
					}
					require.Contains(t, sent, has, fields[i])
					if lacks != "" {
						require.NotContains(t, sent, lacks, fields[i])
					}
				}
			}
		})
	}
	f, h := newModel(t, thinkingTemplate)
	require.Equal(t, 200, h.chat(`"think":false,"chat_template_kwargs":{"enable_thinking":true}`).status)
	require.NotContains(t, text(f.last().Prompt.Segments), "</think>", "what the template is given wins")
}

func TestReasoning_IsToldApartAndCounted(t *testing.T) {
	f, h := newModel(t, thinkingTemplate)
	for _, size := range []int{1, 4} {
		f.does(writes("<think>\nTwo and two.\n</think>\n\nFour.", size, wire.ReasonEOG))
		s := h.bothWays()
		require.Equal(t, "Two and two.", strings.TrimSpace(s.reasoning))
		require.Equal(t, "Four.", s.text())
		require.Equal(t, "stop", s.finish)
	}
	// A token a byte: all up to the closing marker, and the white space behind it
	// that no text has claimed, is reasoning.
	f.does(writes("<think>ab</think>cd", 1, wire.ReasonEOG))
	u := h.chat().json(t)["usage"].(map[string]any)
	require.Equal(t, 19., u["completion_tokens"])
	require.Equal(t, map[string]any{"reasoning_tokens": 17.}, u["completion_tokens_details"])
	data, _ := events(t, h.chat(`"stream":true`, `"stream_options":{"include_usage":true}`).body)
	require.Equal(t, u, data[len(data)-1]["usage"])
	require.Equal(t, map[string]any{"reasoning_tokens": 34.}, h.chat(`"n":2`).json(t)["usage"].(map[string]any)["completion_tokens_details"])

	f.does(writes("Four.", 1, wire.ReasonEOG))
	r := h.chat()
	require.Equal(t, map[string]any{"reasoning_tokens": 0.}, r.json(t)["usage"].(map[string]any)["completion_tokens_details"])
	require.NotContains(t, r.body, "reasoning_content")
}

func TestReasoning_CutShowsNoTag(t *testing.T) {
	f, h := newModel(t, thinkingTemplate)
	for _, text := range []string{"<think>\nHard", "<think>\nHard</thi", "<think>"} {
		f.does(writes(text, 1, wire.ReasonLength))
		s := h.bothWays()
		require.Equal(t, "", *s.content, text)
		require.Equal(t, "length", s.finish)
		u := h.chat().json(t)["usage"].(map[string]any)
		require.Equal(t, u["completion_tokens"], u["completion_tokens_details"].(map[string]any)["reasoning_tokens"], text)
	}
}

func TestReasoning_PromptThatClosesItLeavesContent(t *testing.T) {
	f, h := newModel(t, thinkingTemplate)
	f.does(writes("Four.", 1, wire.ReasonEOG))
	for _, fields := range []string{`"chat_template_kwargs":{"enable_thinking":false}`, `"reasoning_effort":"none"`} {
		s := h.bothWays(fields)
		require.Equal(t, "Four.", s.text())
		require.Empty(t, s.reasoning)
		require.Contains(t, text(f.last().Prompt.Segments), "</think>", fields)
	}
}
