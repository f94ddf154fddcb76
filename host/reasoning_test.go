package host

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
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
